#include "targets/gpu/Timeouts.h"

#include "targets/gpu/DeviceFunctions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo::gpu {

/// Polls between two looks at the abort flag, which is far away in host memory. A power of two.
static constexpr int64_t pollsPerAbortCheck = 256;

static Value code(OpBuilder &builder, Location loc, KoloDeviceFailureCode value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}

Value whyToGiveUp(OpBuilder &builder, Location loc, Value invocation, Value turn) {
  Value zero = constantI64(builder, loc, 0);
  Value position = arith::AndIOp::create(builder, loc, turn, constantI64(builder, loc, pollsPerAbortCheck - 1));
  Value isTurn = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, position, zero);
  auto looked = scf::IfOp::create(builder, loc, TypeRange(builder.getI64Type()), isTurn, /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(looked.thenBlock());
    Value abort = load(builder, loc, pointerType(builder), invocation, offsetof(KoloDeviceInvocation, abort));
    scf::YieldOp::create(builder, loc, call(builder, loc, peekFunction, {abort}));
    builder.setInsertionPointToStart(looked.elseBlock());
    scf::YieldOp::create(builder, loc, zero);
  }
  Value limit = load(builder, loc, builder.getI64Type(), invocation, offsetof(KoloDeviceInvocation, pollLimit));
  Value isAborted = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, looked.getResult(0), zero);
  Value isLate = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge, turn, limit);
  Value otherwise = arith::SelectOp::create(builder, loc, isLate, code(builder, loc, KOLO_DEVICE_TIMEOUT),
                                            code(builder, loc, KOLO_DEVICE_OK));
  return arith::SelectOp::create(builder, loc, isAborted, code(builder, loc, KOLO_DEVICE_ABORTED), otherwise);
}

void noteFailure(OpBuilder &builder, Location loc, Value invocation, const Failure &failure) {
  OpBuilder::InsertionGuard guard(builder);
  Type pointer = pointerType(builder), i64 = builder.getI64Type();
  Value failures = load(builder, loc, pointer, invocation, offsetof(KoloDeviceInvocation, failures));
  Value offset = arith::MulIOp::create(builder, loc, call(builder, loc, laneFunction),
                                       constantI64(builder, loc, sizeof(KoloDeviceFailure)));
  Value record = advance(builder, loc, failures, offset);
  Value isFirst =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, LLVM::LoadOp::create(builder, loc, i64, record, 8),
                            constantI64(builder, loc, KOLO_DEVICE_OK));
  auto first = scf::IfOp::create(builder, loc, isFirst);
  builder.setInsertionPointToStart(first.thenBlock());
  auto store = [&](size_t field, Value value) {
    LLVM::StoreOp::create(builder, loc, value, advance(builder, loc, record, constantI64(builder, loc, int64_t(field))),
                          8);
  };
  store(offsetof(KoloDeviceFailure, peer), failure.peer);
  store(offsetof(KoloDeviceFailure, semaphore), failure.semaphore);
  store(offsetof(KoloDeviceFailure, statement), failure.statement);
  store(offsetof(KoloDeviceFailure, expected), failure.expected);
  store(offsetof(KoloDeviceFailure, found), failure.found);
  static_assert(offsetof(KoloDeviceFailure, code) == 0);
  call(builder, loc, raiseFunction, {record, arith::ExtUIOp::create(builder, loc, i64, failure.code)});

  builder.setInsertionPointAfter(first);
  Value isLate = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, failure.code,
                                       code(builder, loc, KOLO_DEVICE_TIMEOUT));
  builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isLate).thenBlock());
  Value abort = load(builder, loc, pointer, invocation, offsetof(KoloDeviceInvocation, abort));
  call(builder, loc, raiseFunction, {abort, constantI64(builder, loc, 1)});
}

} // namespace kolo::gpu
