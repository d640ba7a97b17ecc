#include "compiler/cost/IndexRanges.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <bit>

namespace kolo::cost {

using Range = IndexRanges::Range;
using Opcode = IndexEvaluator::Opcode;

static Range one(int64_t value) { return {value, value}; }

/// Between the least and the most of what the operation gives for the operands' bounds; nothing if one overflows.
template <typename Operation> static Range fromCorners(Range a, Range b, Operation overflows) {
  Range result{INT64_MAX, INT64_MIN};
  for (int64_t left : {a.least, a.most})
    for (int64_t right : {b.least, b.most}) {
      int64_t corner = 0;
      if (overflows(left, right, corner))
        return {};
      result = {std::min(result.least, corner), std::max(result.most, corner)};
    }
  return result;
}

static Range divided(Opcode opcode, Range a, Range b) {
  if (!b.isOne() || b.least <= 0)
    return {};
  int64_t divisor = b.least;
  if (opcode == Opcode::FloorDiv)
    return {llvm::divideFloorSigned(a.least, divisor), llvm::divideFloorSigned(a.most, divisor)};
  if (opcode == Opcode::Div)
    return {a.least / divisor, a.most / divisor};
  if (a.least < 0)
    return a.isOne() ? one(a.least % divisor) : Range{1 - divisor, divisor - 1};
  return a.least / divisor == a.most / divisor ? Range{a.least % divisor, a.most % divisor} : Range{0, divisor - 1};
}

static Range bitwise(Opcode opcode, Range a, Range b) {
  if (a.isOne() && b.isOne())
    return one(opcode == Opcode::And  ? a.least & b.least
               : opcode == Opcode::Or ? a.least | b.least
                                      : a.least ^ b.least);
  auto isBit = [](Range range) { return range.least >= 0 && range.most <= 1; };
  if (!isBit(a) || !isBit(b))
    return {};
  if (opcode == Opcode::And)
    return {std::min(a.least, b.least), std::min(a.most, b.most)};
  if (opcode == Opcode::Or)
    return {std::max(a.least, b.least), std::max(a.most, b.most)};
  return {0, 1};
}

static Range compared(Opcode opcode, Range a, Range b) {
  auto decided = [](bool isAlways, bool isNever) { return isAlways ? one(1) : isNever ? one(0) : Range{0, 1}; };
  bool areApart = a.most < b.least || b.most < a.least, areEqual = a.isOne() && b.isOne() && a.least == b.least;
  switch (opcode) {
  case Opcode::Equal:
    return decided(areEqual, areApart);
  case Opcode::NotEqual:
    return decided(areApart, areEqual);
  case Opcode::Less:
    return decided(a.most < b.least, a.least >= b.most);
  case Opcode::LessEqual:
    return decided(a.most <= b.least, a.least > b.most);
  case Opcode::Greater:
    return decided(a.least > b.most, a.most <= b.least);
  default:
    return decided(a.least >= b.most, a.most < b.least);
  }
}

Range IndexRanges::of(unsigned number) const {
  auto found = ranges.find(number);
  return found == ranges.end() ? one(evaluator.valueIn(number)) : found->second;
}

Range IndexRanges::compute(const IndexEvaluator::Instruction &instruction) const {
  Opcode opcode = instruction.opcode;
  if (opcode == Opcode::Constant)
    return one(instruction.immediate);
  if (opcode == Opcode::DimSize)
    return one(evaluator.mesh()[size_t(instruction.immediate)]);
  Range a = of(instruction.a), b = of(instruction.b), c = of(instruction.c);
  if (opcode == Opcode::Cast)
    return a;
  if (opcode == Opcode::Select) {
    if (a.isOne())
      return a.least ? b : c;
    return {std::min(b.least, c.least), std::max(b.most, c.most)};
  }
  if (opcode == Opcode::Ctlz && a.isKnown() && a.least > 0)
    return {std::countl_zero(uint64_t(a.most)), std::countl_zero(uint64_t(a.least))};
  if (!a.isKnown() || !b.isKnown())
    return {};
  switch (opcode) {
  case Opcode::Add:
    return fromCorners(a, b, [](int64_t x, int64_t y, int64_t &sum) { return __builtin_add_overflow(x, y, &sum); });
  case Opcode::Sub:
    return fromCorners(a, b, [](int64_t x, int64_t y, int64_t &rest) { return __builtin_sub_overflow(x, y, &rest); });
  case Opcode::Mul:
    return fromCorners(a, b, [](int64_t x, int64_t y, int64_t &area) { return __builtin_mul_overflow(x, y, &area); });
  case Opcode::Shl:
    if (!b.isOne() || b.least < 0 || b.least > 62)
      return {};
    return fromCorners(a, one(int64_t(1) << b.least),
                       [](int64_t x, int64_t y, int64_t &area) { return __builtin_mul_overflow(x, y, &area); });
  case Opcode::FloorDiv:
  case Opcode::Div:
  case Opcode::Rem:
    return divided(opcode, a, b);
  case Opcode::Min:
    return {std::min(a.least, b.least), std::min(a.most, b.most)};
  case Opcode::Max:
    return {std::max(a.least, b.least), std::max(a.most, b.most)};
  case Opcode::And:
  case Opcode::Or:
  case Opcode::Xor:
    return bitwise(opcode, a, b);
  case Opcode::Equal:
  case Opcode::NotEqual:
  case Opcode::Less:
  case Opcode::LessEqual:
  case Opcode::Greater:
  case Opcode::GreaterEqual:
    return compared(opcode, a, b);
  default:
    return {};
  }
}

void IndexRanges::execute(mlir::Operation *op) {
  if (const IndexEvaluator::Instruction *instruction = evaluator.instructionOf(op))
    ranges[instruction->result] = compute(*instruction);
}

} // namespace kolo::cost
