// Where the one NaN of a type is made costs most of what it costs:
//   f32, f64             once, when a combination is stored
//   sums of f16, bf16    in f32, before the sum is rounded
//   min, max of f16, bf16  once; until then, elements are places in the order of all numbers
#include "targets/cpu/kernels/Carried.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

namespace kolo::cpu {

/// The type with another element.
static Type withElement(Type type, Type element) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? Type(VectorType::get(vector.getShape(), element)) : element;
}

/// The same bits, of a value or of every value of a vector, as another type.
Value Carried::as(Type element, Value value) {
  Type wanted = withElement(value.getType(), element);
  return wanted == value.getType() ? value : arith::BitcastOp::create(builder, loc, wanted, value).getResult();
}

Value Carried::chosen(Value condition, function_ref<Value()> then, function_ref<Value()> otherwise) {
  OpBuilder::InsertionGuard guard(builder);
  auto buildWith = [](function_ref<Value()> build) {
    return [=](OpBuilder &inner, Location at) { scf::YieldOp::create(inner, at, build()); };
  };
  return scf::IfOp::create(builder, loc, condition, buildWith(then), buildWith(otherwise)).getResult(0);
}

Value Carried::constant(Value like, int64_t number) {
  TypedAttr one = builder.getIntegerAttr(getElementTypeOrSelf(like.getType()), number);
  auto vector = dyn_cast<VectorType>(like.getType());
  return arith::ConstantOp::create(builder, loc, vector ? SplatElementsAttr::get(vector, Attribute(one)) : one);
}

Value Carried::widened(Value bits) {
  Type wide = withElement(bits.getType(), builder.getF32Type());
  return arith::ExtFOp::create(builder, loc, wide, as(number(), bits));
}

/// To nearest, ties to even. The one NaN of f32 becomes that of the type.
Value Carried::narrowed(Value number) {
  if (type == KOLO_F16)
    return as(stored(),
              arith::TruncFOp::create(builder, loc, withElement(number.getType(), builder.getF16Type()), number));
  constexpr int64_t droppedBits = 16, almostHalf = 0x7fff;
  Value bits = as(builder.getI32Type(), number), dropped = constant(bits, droppedBits);
  Value isOdd =
      arith::AndIOp::create(builder, loc, arith::ShRUIOp::create(builder, loc, bits, dropped), constant(bits, 1));
  Value half = arith::AddIOp::create(builder, loc, isOdd, constant(bits, almostHalf));
  Value rounded = arith::ShRUIOp::create(builder, loc, arith::AddIOp::create(builder, loc, bits, half), dropped);
  return arith::TruncIOp::create(builder, loc, withElement(bits.getType(), stored()), rounded);
}

/// Of numbers below zero, other bits for a larger magnitude make a smaller integer.
Value Carried::withOtherMagnitude(Value bits) {
  Value sign = arith::ShRSIOp::create(builder, loc, bits, constant(bits, 15));
  return arith::XOrIOp::create(builder, loc, bits, arith::AndIOp::create(builder, loc, sign, constant(bits, 0x7fff)));
}

/// Integers with a sign order like numbers then, NaNs being at both ends. As many are added as bring the NaNs to one
/// end, since the addition wraps: the upper one for a maximum, the lower one for a minimum.
int64_t Carried::offsetOfOrder() const {
  int64_t nansOfOneSign = type == KOLO_F16 ? 0x3ff : 0x7f;
  return reduction == KOLO_MAX ? 0x8000 - nansOfOneSign : 0x8000 + nansOfOneSign;
}

/// The place of a number among all numbers, without a sign: IEEE 754-2019's minimum and maximum are those of places.
Value Carried::ordered(Value bits) {
  Value integer = withOtherMagnitude(bits);
  return arith::AddIOp::create(builder, loc, integer, constant(integer, int16_t(offsetOfOrder())));
}

Value Carried::unordered(Value place) {
  return withOtherMagnitude(arith::SubIOp::create(builder, loc, place, constant(place, int16_t(offsetOfOrder()))));
}

Value Carried::combine(Value left, Value right) {
  if (isOrdered())
    return reduction == KOLO_MIN ? arith::MinUIOp::create(builder, loc, left, right).getResult()
                                 : arith::MaxUIOp::create(builder, loc, left, right).getResult();
  if (isWidened()) {
    // An average's NaN becomes the one NaN later; but the integers that round bf16 know no other.
    bool isLast = reduction != KOLO_AVERAGE || type == KOLO_BF16;
    auto create = isLast ? createReduction : createReductionWithAnyNan;
    return narrowed(create(builder, loc, KOLO_F32, reduction, widened(left), widened(right), Accumulation::F32));
  }
  return createReductionWithAnyNan(builder, loc, type, reduction, left, right);
}

Value Carried::finish(Value value, Value isCombined) {
  if (!isFloat(type) || isWidened())
    return value;
  if (isOrdered())
    value = unordered(value);
  return chosen(
      isCombined, [&] { return as(stored(), createOneNan(builder, loc, type, as(number(), value))); },
      [&] { return value; });
}

Value Carried::finishAverage(Value sum, Value isCombined, const Divisor &divisor) {
  if (!isWidened())
    return createQuotient(builder, loc, type, sum, divisor);
  Value quotient = createQuotientWithAnyNan(builder, loc, KOLO_F32, widened(sum), divisor);
  auto withOneNan = [&] { return createOneNan(builder, loc, KOLO_F32, quotient); };
  // A quotient of the one NaN is the one NaN.
  return narrowed(type == KOLO_F16 ? withOneNan() : chosen(isCombined, [&] { return quotient; }, withOneNan));
}

} // namespace kolo::cpu
