#include "compiler/cost/closedform/IndexRanges.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace kolo::cost {

using Range = IndexRanges::Range;
using Opcode = IndexEvaluator::Opcode;

static Range one(int64_t value) { return {value, value, 0}; }

/// The step that sums of both have.
static int64_t commonStep(Range a, Range b) { return std::gcd(a.step, b.step); }

/// The step of values that are of the one or of the other.
static int64_t unitedStep(Range a, Range b) { return std::gcd(commonStep(a, b), a.least - b.least); }

/// Steps of one value say nothing; those of unknown bounds cannot be counted from the least.
static Range tidy(Range range) {
  if (range.isOne())
    return one(range.least);
  if (!range.isKnown() || range.step < 1)
    range.step = 1;
  return range;
}

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
  int64_t divisor = b.least, stepOfQuotients = a.step % divisor == 0 ? a.step / divisor : 1;
  if (opcode == Opcode::FloorDiv)
    return {llvm::divideFloorSigned(a.least, divisor), llvm::divideFloorSigned(a.most, divisor), stepOfQuotients};
  if (opcode == Opcode::Div)
    return {a.least / divisor, a.most / divisor, a.least < 0 ? 1 : stepOfQuotients};
  if (a.least < 0)
    return a.isOne() ? one(a.least % divisor) : Range{1 - divisor, divisor - 1};
  if (a.least / divisor == a.most / divisor)
    return {a.least % divisor, a.most % divisor, a.step};
  int64_t step = std::gcd(a.step, divisor), least = a.least % step;
  return {least, least + divisor - step, step};
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
  int64_t step = commonStep(a, b);
  bool areApart = a.most < b.least || b.most < a.least || (step > 1 && (a.least - b.least) % step != 0),
       areEqual = a.isOne() && b.isOne() && a.least == b.least;
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
  return rounds[number] == round ? ranges[number] : one(evaluator.valueIn(number));
}

/// A remainder, or a quotient, is known better of values that differ by multiples of the divisor.
void IndexRanges::noteCut(Range value, int64_t divisor) {
  if (cut > 1 || divisor < 2 || !value.isKnown() || value.least < 0 || value.least / divisor == value.most / divisor)
    return;
  int64_t missing = divisor / std::gcd(value.step, divisor), prime = 2;
  while (prime * prime <= missing && missing % prime != 0)
    ++prime;
  cut = missing < 2 ? 1 : prime * prime > missing ? missing : prime;
}

Range IndexRanges::compute(const IndexEvaluator::Instruction &instruction) {
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
    if (!b.isKnown() || !c.isKnown())
      return {};
    return {std::min(b.least, c.least), std::max(b.most, c.most), unitedStep(b, c)};
  }
  if (opcode == Opcode::Ctlz && a.isKnown() && a.least > 0)
    return {std::countl_zero(uint64_t(a.most)), std::countl_zero(uint64_t(a.least))};
  if (!a.isKnown() || !b.isKnown())
    return {};
  auto withStep = [](Range range, int64_t step) {
    if (range.isKnown())
      range.step = step;
    return range;
  };
  auto product = [&](Range factor) {
    Range result =
        fromCorners(a, factor, [](int64_t x, int64_t y, int64_t &area) { return __builtin_mul_overflow(x, y, &area); });
    // No step is larger than the distance of the bounds, which are those of products.
    return factor.isOne() ? withStep(result, a.step * std::abs(factor.least)) : result;
  };
  switch (opcode) {
  case Opcode::Add:
    return withStep(
        fromCorners(a, b, [](int64_t x, int64_t y, int64_t &sum) { return __builtin_add_overflow(x, y, &sum); }),
        commonStep(a, b));
  case Opcode::Sub:
    return withStep(
        fromCorners(a, b, [](int64_t x, int64_t y, int64_t &rest) { return __builtin_sub_overflow(x, y, &rest); }),
        commonStep(a, b));
  case Opcode::Mul:
    return product(b);
  case Opcode::Shl:
    return b.isOne() && b.least >= 0 && b.least <= 62 ? product(one(int64_t(1) << b.least)) : Range{};
  case Opcode::FloorDiv:
  case Opcode::Div:
  case Opcode::Rem:
    if (b.isOne())
      noteCut(a, b.least);
    return divided(opcode, a, b);
  case Opcode::Min:
    if (a.most <= b.least || b.most <= a.least)
      return a.most <= b.least ? a : b;
    return {std::min(a.least, b.least), std::min(a.most, b.most), unitedStep(a, b)};
  case Opcode::Max:
    if (a.least >= b.most || b.least >= a.most)
      return a.least >= b.most ? a : b;
    return {std::max(a.least, b.least), std::max(a.most, b.most), unitedStep(a, b)};
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
    execute(*instruction);
}

void IndexRanges::execute(const IndexEvaluator::Instruction &instruction) {
  put(instruction.result, tidy(compute(instruction)));
}

} // namespace kolo::cost
