// See Index.h. What has no form of an Index is unknown, and ends the proof only where a step depends on it.
#include "compiler/check/sizes/Index.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace kolo::sizes {

/// Larger factors are none of an algorithm, and could overflow.
static constexpr int64_t largestFactor = int64_t(1) << 24;

void IndexTable::compute(Operation *op) {
  if (op->getNumResults() == 1)
    numbers[op->getResult(0)] = evaluate(op);
}

Index IndexTable::sum(const Index &a, const Index &b, int64_t sign) const {
  if (!a.isKnown() || !b.isKnown() || (a.scale != 0 && b.scale != 0 && a.part != b.part))
    return Index::unknown();
  Index result(a.rest + b.rest * sign);
  result.scale = a.scale + sign * b.scale;
  if (result.scale != 0)
    result.part = a.scale != 0 ? a.part : b.part;
  return result;
}

Index IndexTable::product(const Index &a, const Index &b) const {
  std::optional<int64_t> factor = b.asConstant();
  if (!factor)
    return a.asConstant() ? product(b, a) : Index::unknown();
  if (!a.isKnown() || *factor > largestFactor || *factor < -largestFactor || a.scale > largestFactor ||
      a.scale < -largestFactor)
    return Index::unknown();
  Index result(a.rest * *factor);
  result.scale = a.scale * *factor;
  result.part = a.part;
  return result;
}

/// Modulo n, or of two constants.
Index IndexTable::remainder(const Index &a, const Index &b) {
  std::optional<int64_t> dividend = a.asConstant(), divisor = b.asConstant();
  if (dividend && divisor && *divisor != 0)
    return Affine(*dividend % *divisor);
  if (divisor && a.isSame() && decisions.region.isAtLeast(a.rest, 0))
    if (std::optional<int64_t> rest = decisions.residues.modulo(a.rest, *divisor))
      return Affine(*rest);
  if (!b.isSame() || b.rest != Affine::n() || !a.isKnown())
    return Index::unknown();
  if (a.scale == 0) {
    Decisions tried = decisions;
    Affine reduced = tried.reduce(a.rest);
    bool isNegative = decisions.region.isAtLeast(a.rest * -1, 1);
    if (tried.hasFailed() || !(isNegative || decisions.region.isAtLeast(a.rest, 0)))
      return Index::unknown();
    if (!isNegative)
      return reduced;
    Index result(reduced); // less n, unless it is 0
    result.kind = Index::Kind::Remainder;
    return result;
  }
  if (a.scale != 1)
    return Index::unknown();
  Index result;
  result.scale = 1;
  result.part = a.part + a.rest;
  // The coordinate makes the number larger still.
  result.kind = decisions.region.isAtLeast(a.rest, 0) ? Index::Kind::Known : Index::Kind::Remainder;
  return result;
}

Index IndexTable::compare(Operation *op) {
  auto comparison = cast<arith::CmpIOp>(op);
  Index a = at(comparison.getLhs()), b = at(comparison.getRhs());
  if (!a.isSame() || !b.isSame())
    return Index::unknown();
  auto isAtLeast = [&](const Affine &number, int64_t bound) { return decisions.region.isAtLeast(number, bound); };
  auto answer = [&](bool isTrue, bool isFalse) {
    return isTrue ? Index(Affine(1)) : isFalse ? Index(Affine(0)) : Index::unknown();
  };
  Affine more = b.rest - a.rest, less = a.rest - b.rest;
  bool isDifferent = isAtLeast(more, 1) || isAtLeast(less, 1);
  switch (comparison.getPredicate()) {
  case arith::CmpIPredicate::eq:
    return answer(more == Affine(), isDifferent);
  case arith::CmpIPredicate::ne:
    return answer(isDifferent, more == Affine());
  case arith::CmpIPredicate::slt:
    return answer(isAtLeast(more, 1), isAtLeast(less, 0));
  case arith::CmpIPredicate::sle:
    return answer(isAtLeast(more, 0), isAtLeast(less, 1));
  case arith::CmpIPredicate::sgt:
    return answer(isAtLeast(less, 1), isAtLeast(more, 0));
  case arith::CmpIPredicate::sge:
    return answer(isAtLeast(less, 0), isAtLeast(more, 1));
  default:
    return Index::unknown();
  }
}

/// Of a condition that is known, or `x < 0 ? x + n : x` of a remainder x.
Index IndexTable::select(Operation *op) {
  auto selection = cast<arith::SelectOp>(op);
  if (std::optional<int64_t> condition = at(selection.getCondition()).asConstant())
    return at(*condition ? selection.getTrueValue() : selection.getFalseValue());
  Value number = selection.getFalseValue();
  Index remainder = at(number);
  auto comparison = selection.getCondition().getDefiningOp<arith::CmpIOp>();
  auto shifted = selection.getTrueValue().getDefiningOp<arith::AddIOp>();
  bool isNeverNegative = remainder.isKnown() && remainder.scale == 1 && decisions.region.isAtLeast(remainder.rest, 0);
  bool isModulo = (remainder.kind == Index::Kind::Remainder || isNeverNegative) && comparison && shifted &&
                  comparison.getPredicate() == arith::CmpIPredicate::slt && comparison.getLhs() == number &&
                  at(comparison.getRhs()).asConstant() == 0 && shifted.getLhs() == number;
  if (!isModulo || isNeverNegative)
    return isModulo ? remainder : Index::unknown();
  Index size = at(shifted.getRhs());
  if (!size.isSame() || size.rest != Affine::n())
    return Index::unknown();
  remainder.kind = Index::Kind::Known;
  return remainder;
}

Index IndexTable::evaluate(Operation *op) {
  auto constants = [&](auto combine) -> Index {
    std::optional<int64_t> a = at(op->getOperand(0)).asConstant(), b = at(op->getOperand(1)).asConstant();
    return a && b ? Index(Affine(combine(*a, *b))) : Index::unknown();
  };
  auto extreme = [&](bool isLargest) -> Index {
    Index a = at(op->getOperand(0)), b = at(op->getOperand(1));
    if (!a.isSame() || !b.isSame())
      return Index::unknown();
    if (decisions.region.isAtLeast(a.rest - b.rest, 0))
      return isLargest ? a : b;
    return decisions.region.isAtLeast(b.rest - a.rest, 0) ? isLargest ? b : a : Index::unknown();
  };
  return llvm::TypeSwitch<Operation *, Index>(op)
      .Case([&](arith::ConstantOp constant) -> Index {
        auto number = dyn_cast<IntegerAttr>(constant.getValue());
        if (!number)
          return Index::unknown();
        int64_t value = number.getType().isInteger(1) ? int64_t(number.getValue().getBoolValue())
                                                      : number.getValue().getSExtValue();
        return value > largestFactor || value < -largestFactor ? Index::unknown() : Index(Affine(value));
      })
      .Case([&](DimSizeOp size) -> Index {
        return size_t(size.getDim()) == dim ? Affine::n() : Affine(mesh[size_t(size.getDim())]);
      })
      .Case([&](CoordOp coordinate) -> Index {
        if (size_t(coordinate.getDim()) != dim)
          return Affine(coordinates[size_t(coordinate.getDim())]);
        Index result;
        result.scale = 1;
        return result;
      })
      .Case([&](LaneOp) { return Index(Affine(0)); }) // one lane stands for all: see model/Code.h
      .Case([&](NumLanesOp) { return Index(Affine(1)); })
      .Case([&](arith::AddIOp) { return sum(at(op->getOperand(0)), at(op->getOperand(1)), 1); })
      .Case([&](arith::SubIOp) { return sum(at(op->getOperand(0)), at(op->getOperand(1)), -1); })
      .Case([&](arith::MulIOp) { return product(at(op->getOperand(0)), at(op->getOperand(1))); })
      .Case([&](arith::RemSIOp) { return remainder(at(op->getOperand(0)), at(op->getOperand(1))); })
      .Case([&](arith::CmpIOp) { return compare(op); })
      .Case([&](arith::SelectOp) { return select(op); })
      .Case([&](arith::MinSIOp) { return extreme(false); })
      .Case([&](arith::MaxSIOp) { return extreme(true); })
      .Case([&](arith::AndIOp) { return constants(std::bit_and<>()); })
      .Case([&](arith::OrIOp) { return constants(std::bit_or<>()); })
      .Case([&](arith::XOrIOp) { return constants(std::bit_xor<>()); })
      .Case([&](arith::DivSIOp) -> Index {
        std::optional<int64_t> a = at(op->getOperand(0)).asConstant(), b = at(op->getOperand(1)).asConstant();
        return a && b && *b != 0 ? Index(Affine(*a / *b)) : Index::unknown();
      })
      .Case([&](LookupOp lookup) -> Index {
        std::optional<int64_t> index = at(lookup.getIndex()).asConstant();
        bool isInside = index && *index >= 0 && *index < int64_t(lookup.getTable().size());
        return isInside ? Index(Affine(lookup.getTable()[size_t(*index)])) : Index::unknown();
      })
      .Case<arith::IndexCastOp, arith::ExtUIOp>([&](auto) { return at(op->getOperand(0)); })
      .Default([](Operation *) { return Index::unknown(); });
}

} // namespace kolo::sizes
