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

namespace {

/// Operations on the bits of floating-point numbers, or of vectors of them.
class FloatBits {
public:
  FloatBits(OpBuilder &builder, Location loc, Type numbers)
      : builder(builder), loc(loc), numbers(numbers), element(cast<FloatType>(getElementTypeOrSelf(numbers))),
        integers(builder.getIntegerType(element.getWidth())) {
    if (auto vector = dyn_cast<VectorType>(numbers))
      integers = VectorType::get(vector.getShape(), integers);
  }

  const llvm::fltSemantics &semantics() { return element.getFloatSemantics(); }
  Value of(Value number) { return arith::BitcastOp::create(builder, loc, integers, number); }
  Value number(Value bits) { return arith::BitcastOp::create(builder, loc, numbers, bits); }
  Value either(Value a, Value b) { return arith::OrIOp::create(builder, loc, a, b); }
  Value both(Value a, Value b) { return arith::AndIOp::create(builder, loc, a, b); }
  Value differing(Value a, Value b) { return arith::XOrIOp::create(builder, loc, a, b); }
  Value constant(const APFloat &number) { return constant(number.bitcastToAPInt()); }
  Value sign() { return constant(APInt::getSignMask(element.getWidth())); }
  Value magnitude() { return constant(APInt::getSignedMaxValue(element.getWidth())); }

private:
  Value constant(const APInt &bits) {
    TypedAttr one = builder.getIntegerAttr(getElementTypeOrSelf(integers), bits);
    auto vector = dyn_cast<VectorType>(integers);
    return arith::ConstantOp::create(builder, loc, vector ? SplatElementsAttr::get(vector, Attribute(one)) : one);
  }

  OpBuilder &builder;
  Location loc;
  Type numbers;
  FloatType element;
  Type integers;
};

} // namespace

/// IEEE 754-2019 minimum or maximum, but for the bits of a NaN. What is chosen with the operands in one order, and what
/// with the operands in the other, differ only for zeros and NaNs:
///   zeros of both signs  their bits differ in the sign: a minimum has it if either has, a maximum if both have
///   a NaN and a number   the bits of either make a NaN again
static Value chooseFloat(OpBuilder &builder, Location loc, bool isMinimum, Value left, Value right) {
  auto choose = [&](Value a, Value b) -> Value {
    auto predicate = isMinimum ? arith::CmpFPredicate::OLT : arith::CmpFPredicate::OGT;
    return arith::SelectOp::create(builder, loc, arith::CmpFOp::create(builder, loc, predicate, a, b), a, b);
  };
  FloatBits bits(builder, loc, left.getType());
  Value one = bits.of(choose(left, right)), other = bits.of(choose(right, left)), either = bits.either(one, other);
  if (isMinimum)
    return bits.number(either);
  return bits.number(bits.differing(either, bits.both(bits.differing(one, other), bits.sign())));
}

static Value combineFloats(OpBuilder &builder, Location loc, KoloReduction reduction, Value left, Value right) {
  switch (reduction) {
  case KOLO_SUM:
  case KOLO_AVERAGE:
    return arith::AddFOp::create(builder, loc, left, right);
  case KOLO_PRODUCT:
    return arith::MulFOp::create(builder, loc, left, right);
  case KOLO_MIN:
  case KOLO_MAX:
    return chooseFloat(builder, loc, reduction == KOLO_MIN, left, right);
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
  return createOneNan(builder, loc, type,
                      createReductionWithAnyNan(builder, loc, type, reduction, left, right, accumulation));
}

Value createOneNan(OpBuilder &builder, Location loc, KoloType type, Value value) {
  if (!isFloat(type))
    return value;
  FloatBits bits(builder, loc, value.getType());
  Value nan = bits.constant(APFloat::getQNaN(bits.semantics()));
  if (type == KOLO_F32 || type == KOLO_F64) {
    Value isNan = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNO, value, value);
    return arith::SelectOp::create(builder, loc, isNan, bits.number(nan), value);
  }
  // Not every processor compares f16 and bf16.
  Value magnitude = bits.both(bits.of(value), bits.magnitude());
  Value infinity = bits.constant(APFloat::getInf(bits.semantics()));
  Value isNan = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, magnitude, infinity);
  return bits.number(arith::SelectOp::create(builder, loc, isNan, nan, bits.of(value)));
}

Value createReductionWithAnyNan(OpBuilder &builder, Location loc, KoloType type, KoloReduction reduction, Value left,
                                Value right, Accumulation accumulation) {
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
  return createOneNan(builder, loc, type, createQuotientWithAnyNan(builder, loc, type, dividend, divisor));
}

Value createQuotientWithAnyNan(OpBuilder &builder, Location loc, KoloType type, Value dividend,
                               const Divisor &divisor) {
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
