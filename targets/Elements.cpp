// The arithmetic of reductions, and of the division that ends an average, on elements.
#include "targets/Elements.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace kolo {

#define KOLO_NAME(CONSTANT, ENUMERATOR, NAME, ...) NAME,
static constexpr const char *typeNames[] = {KOLO_FOR_EACH_TYPE(KOLO_NAME)};
static constexpr const char *reductionNames[] = {KOLO_FOR_EACH_REDUCTION(KOLO_NAME)};
#undef KOLO_NAME
#define KOLO_SIZE_AND_KIND(CONSTANT, ENUMERATOR, NAME, SIZE, KIND) {SIZE, KIND},
static constexpr std::pair<unsigned, KoloTypeKind> typeFacts[] = {KOLO_FOR_EACH_TYPE(KOLO_SIZE_AND_KIND)};
#undef KOLO_SIZE_AND_KIND

const char *nameOf(KoloType type) { return typeNames[type]; }
const char *nameOf(KoloReduction reduction) { return reductionNames[reduction]; }
bool isFloat(KoloType type) { return typeFacts[type].second == KOLO_FLOAT; }
bool isUnsigned(KoloType type) { return typeFacts[type].second == KOLO_UNSIGNED; }

template <class Kind, size_t N> static std::optional<Kind> find(const char *const (&names)[N], StringRef name) {
  auto *found = llvm::find(names, name);
  return found == std::end(names) ? std::nullopt : std::optional(Kind(found - names));
}
std::optional<KoloType> parseType(StringRef name) { return find<KoloType>(typeNames, name); }
std::optional<KoloReduction> parseReduction(StringRef name) { return find<KoloReduction>(reductionNames, name); }

/// The signed type of the same size.
static KoloType signedOf(KoloType type) {
  auto *found = llvm::find(typeFacts, std::pair(typeFacts[type].first, KOLO_SIGNED));
  assert(found != std::end(typeFacts) && "every unsigned type has a signed one of its size");
  return KoloType(found - typeFacts);
}

std::string reductionName(KoloType type, KoloReduction reduction) {
  // Sums and products of integers are the same with and without a sign.
  bool isSigned = reduction == KOLO_MIN || reduction == KOLO_MAX;
  if (!isSigned && isUnsigned(type))
    type = signedOf(type);
  return std::string(nameOf(reduction == KOLO_AVERAGE ? KOLO_SUM : reduction)) + "." + nameOf(type);
}

Type storedType(OpBuilder &builder, KoloType type) {
  if (!isFloat(type))
    return builder.getIntegerType(8 * typeFacts[type].first);
  switch (type) {
  case KOLO_F16:
    return builder.getF16Type();
  case KOLO_BF16:
    return builder.getBF16Type();
  case KOLO_F32:
    return builder.getF32Type();
  case KOLO_F64:
    return builder.getF64Type();
  default:
    llvm_unreachable("every floating-point type is handled");
  }
}

/// f16 and bf16 as f32; all else as it is.
static Value widen(OpBuilder &builder, Location loc, Value value) {
  Type element = getElementTypeOrSelf(value.getType());
  if (!element.isF16() && !element.isBF16())
    return value;
  Type wide = builder.getF32Type();
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    wide = VectorType::get(vector.getShape(), wide);
  return arith::ExtFOp::create(builder, loc, wide, value);
}

static Value narrow(OpBuilder &builder, Location loc, Value value, Type stored) {
  return value.getType() == stored ? value : arith::TruncFOp::create(builder, loc, stored, value).getResult();
}

static Value combineFloats(OpBuilder &builder, Location loc, KoloReduction reduction, Value left, Value right) {
  // The left one where both are equal, or one is a NaN.
  auto choose = [&](arith::CmpFPredicate predicate) -> Value {
    Value isRight = arith::CmpFOp::create(builder, loc, predicate, right, left);
    return arith::SelectOp::create(builder, loc, isRight, right, left);
  };
  switch (reduction) {
  case KOLO_SUM:
  case KOLO_AVERAGE:
    return arith::AddFOp::create(builder, loc, left, right);
  case KOLO_PRODUCT:
    return arith::MulFOp::create(builder, loc, left, right);
  case KOLO_MIN:
    return choose(arith::CmpFPredicate::OLT);
  case KOLO_MAX:
    return choose(arith::CmpFPredicate::OGT);
  case KOLO_NUM_REDUCTIONS:
    break;
  }
  llvm_unreachable("every reduction is handled");
}

static Value combineIntegers(OpBuilder &builder, Location loc, KoloType type, KoloReduction reduction, Value left,
                             Value right) {
  switch (reduction) {
  case KOLO_SUM:
  case KOLO_AVERAGE:
    return arith::AddIOp::create(builder, loc, left, right);
  case KOLO_PRODUCT:
    return arith::MulIOp::create(builder, loc, left, right);
  case KOLO_MIN:
    return isUnsigned(type) ? arith::MinUIOp::create(builder, loc, left, right).getResult()
                            : arith::MinSIOp::create(builder, loc, left, right).getResult();
  case KOLO_MAX:
    return isUnsigned(type) ? arith::MaxUIOp::create(builder, loc, left, right).getResult()
                            : arith::MaxSIOp::create(builder, loc, left, right).getResult();
  case KOLO_NUM_REDUCTIONS:
    break;
  }
  llvm_unreachable("every reduction is handled");
}

Value createReduction(OpBuilder &builder, Location loc, KoloType type, KoloReduction reduction, Value left, Value right,
                      Accumulation accumulation) {
  if (!isFloat(type))
    return combineIntegers(builder, loc, type, reduction, left, right);
  if (accumulation == Accumulation::Native)
    return combineFloats(builder, loc, reduction, left, right);
  Type stored = left.getType();
  return narrow(builder, loc,
                combineFloats(builder, loc, reduction, widen(builder, loc, left), widen(builder, loc, right)), stored);
}

Value hasExactInverse(OpBuilder &builder, Location loc, Value numRanks) {
  Type type = numRanks.getType();
  Value one = arith::ConstantIntOp::create(builder, loc, type, 1),
        zero = arith::ConstantIntOp::create(builder, loc, type, 0);
  Value below = arith::SubIOp::create(builder, loc, numRanks, one);
  Value common = arith::AndIOp::create(builder, loc, numRanks, below);
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, common, zero);
}

Divisor createDivisor(OpBuilder &builder, Location loc, KoloType type, Value numRanks, bool isInverse) {
  if (!isFloat(type))
    return {numRanks};
  FloatType wide = type == KOLO_F64 ? builder.getF64Type() : builder.getF32Type();
  Value number = arith::SIToFPOp::create(builder, loc, wide, numRanks);
  if (!isInverse)
    return {number};
  Value one = arith::ConstantOp::create(builder, loc, builder.getFloatAttr(wide, 1));
  return {arith::DivFOp::create(builder, loc, one, number), true};
}

/// Towards zero, in 64 bits, so that any number of ranks divides any type.
static Value divideIntegers(OpBuilder &builder, Location loc, KoloType type, Value dividend, Value divisor) {
  Type wide = divisor.getType(), stored = dividend.getType();
  bool isWide = stored == wide;
  if (!isWide)
    dividend = isUnsigned(type) ? arith::ExtUIOp::create(builder, loc, wide, dividend).getResult()
                                : arith::ExtSIOp::create(builder, loc, wide, dividend).getResult();
  dividend = isUnsigned(type) ? arith::DivUIOp::create(builder, loc, dividend, divisor).getResult()
                              : arith::DivSIOp::create(builder, loc, dividend, divisor).getResult();
  return isWide ? dividend : arith::TruncIOp::create(builder, loc, stored, dividend).getResult();
}

Value createQuotient(OpBuilder &builder, Location loc, KoloType type, Value dividend, const Divisor &divisor) {
  if (!isFloat(type))
    return divideIntegers(builder, loc, type, dividend, divisor.value);
  Type stored = dividend.getType();
  Value wide = widen(builder, loc, dividend), number = divisor.value;
  if (auto vector = dyn_cast<VectorType>(stored))
    number = vector::BroadcastOp::create(builder, loc, VectorType::get(vector.getShape(), number.getType()), number);
  Value quotient = divisor.isInverse ? arith::MulFOp::create(builder, loc, wide, number).getResult()
                                     : arith::DivFOp::create(builder, loc, wide, number).getResult();
  return narrow(builder, loc, quotient, stored);
}

} // namespace kolo
