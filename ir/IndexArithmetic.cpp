// Small index computations that more than one folder builds.
#include "ir/IndexArithmetic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace kolo {

Value createConstant(OpBuilder &builder, Location loc, int64_t value) {
  return arith::ConstantIndexOp::create(builder, loc, value);
}
Value createAdd(OpBuilder &builder, Location loc, Value a, Value b) {
  return arith::AddIOp::create(builder, loc, a, b);
}
Value createSub(OpBuilder &builder, Location loc, Value a, Value b) {
  return arith::SubIOp::create(builder, loc, a, b);
}
Value createMul(OpBuilder &builder, Location loc, Value a, Value b) {
  return arith::MulIOp::create(builder, loc, a, b);
}

Value createModulo(OpBuilder &builder, Location loc, Value value, Value divisor) {
  Value zero = createConstant(builder, loc, 0);
  Value remainder = arith::RemSIOp::create(builder, loc, value, divisor);
  Value isNegative = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, remainder, zero);
  return arith::SelectOp::create(builder, loc, isNegative, createAdd(builder, loc, remainder, divisor), remainder);
}

Value createRoundDown(OpBuilder &builder, Location loc, Value value, Value powerOfTwo) {
  Value mask = createSub(builder, loc, createConstant(builder, loc, 0), powerOfTwo);
  return arith::AndIOp::create(builder, loc, value, mask);
}

Value createAnd(OpBuilder &builder, Location loc, Value a, Value b) {
  if (!a || !b)
    return a ? a : b;
  return arith::AndIOp::create(builder, loc, a, b);
}

Value createLinear(OpBuilder &builder, Location loc, ValueRange coordinates, ValueRange sizes) {
  if (coordinates.empty())
    return createConstant(builder, loc, 0);
  Value linear = coordinates.front();
  for (auto [coordinate, size] : llvm::drop_begin(llvm::zip_equal(coordinates, sizes)))
    linear = createAdd(builder, loc, createMul(builder, loc, linear, size), coordinate);
  return linear;
}

bool dependsOn(ValueRange values, Value value) {
  SmallVector<Value> pending(values);
  llvm::DenseSet<Value> seen;
  while (!pending.empty()) {
    Value next = pending.pop_back_val();
    if (next == value)
      return true;
    if (Operation *definition = next.getDefiningOp(); definition && seen.insert(next).second)
      llvm::append_range(pending, definition->getOperands());
  }
  return false;
}

} // namespace kolo
