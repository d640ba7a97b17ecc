#include "targets/gpu/Timeouts.h"

#include "targets/gpu/DeviceFunctions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo::gpu {

/// Turns between two looks, powers of two.
static constexpr int64_t turnsPerClock = 64, turnsPerAbort = 4096, warpThreads = 32;

static Value code(OpBuilder &builder, Location loc, KoloDeviceFailureCode value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}

/// Whether this thread looks at the abort flag in this turn, in which it looks at the clock.
static Value looksAtFlag(OpBuilder &builder, Location loc, Value turn, int64_t pollersPerWarp) {
  auto constant = [&](int64_t value) { return constantI64(builder, loc, value); };
  Value position = arith::AndIOp::create(builder, loc, turn, constant(turnsPerAbort * pollersPerWarp - 1)), own;
  if (pollersPerWarp == 1) {
    own = constant(0);
  } else {
    Value poller = arith::DivUIOp::create(builder, loc, call(builder, loc, threadFunction),
                                          constant(warpThreads / pollersPerWarp));
    Value next = arith::AddIOp::create(builder, loc, poller, constant(1));
    own = arith::MulIOp::create(builder, loc, arith::AndIOp::create(builder, loc, next, constant(pollersPerWarp - 1)),
                                constant(turnsPerAbort));
  }
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, position, own);
}

Patience loseOrKeepPatience(OpBuilder &builder, Location loc, Value invocation, Value turn, Value since,
                            int64_t pollersPerWarp) {
  OpBuilder::InsertionGuard guard(builder);
  Type i64 = builder.getI64Type(), i32 = builder.getI32Type();
  Value zero = constantI64(builder, loc, 0), fine = code(builder, loc, KOLO_DEVICE_OK);
  Value position = arith::AndIOp::create(builder, loc, turn, constantI64(builder, loc, turnsPerClock - 1));
  Value isTurn = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, position, zero);
  auto looked = scf::IfOp::create(builder, loc, TypeRange{i32, i64}, isTurn, /*withElseRegion=*/true);
  builder.setInsertionPointToStart(looked.elseBlock());
  scf::YieldOp::create(builder, loc, ValueRange{fine, since});

  builder.setInsertionPointToStart(looked.thenBlock());
  Value now = call(builder, loc, clockFunction);
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, since, zero);
  Value begin = arith::SelectOp::create(builder, loc, isFirst, now, since);
  Value limit = load(builder, loc, i64, invocation, offsetof(KoloDeviceInvocation, timeoutNs));
  Value isLate = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge,
                                       arith::SubIOp::create(builder, loc, now, begin), limit);
  Value otherwise = arith::SelectOp::create(builder, loc, isLate, code(builder, loc, KOLO_DEVICE_TIMEOUT), fine);
  auto flag = scf::IfOp::create(builder, loc, TypeRange{i32}, looksAtFlag(builder, loc, turn, pollersPerWarp),
                                /*withElseRegion=*/true);
  scf::YieldOp::create(builder, loc, ValueRange{flag.getResult(0), begin});
  builder.setInsertionPointToStart(flag.elseBlock());
  scf::YieldOp::create(builder, loc, otherwise);
  builder.setInsertionPointToStart(flag.thenBlock());
  Value abort = load(builder, loc, pointerType(builder), invocation, offsetof(KoloDeviceInvocation, abort));
  Value isAborted =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, call(builder, loc, peekFunction, {abort}), zero);
  scf::YieldOp::create(
      builder, loc,
      arith::SelectOp::create(builder, loc, isAborted, code(builder, loc, KOLO_DEVICE_ABORTED), otherwise).getResult());
  return {looked.getResult(0), looked.getResult(1)};
}

/// while (value < target && code == 0) { pause; turn += 1; code, since = ...; value = peek }
Polled pollCounter(OpBuilder &builder, Location loc, Value invocation, Value counter, Value target) {
  OpBuilder::InsertionGuard guard(builder);
  Type i64 = builder.getI64Type(), i32 = builder.getI32Type();
  Value zero = constantI64(builder, loc, 0), fine = code(builder, loc, KOLO_DEVICE_OK);
  Value first = call(builder, loc, peekFunction, {counter});
  SmallVector<Type> types{i64, i64, i32, i64};
  SmallVector<Location> locations(types.size(), loc);
  auto loop = scf::WhileOp::create(builder, loc, types, ValueRange{first, zero, fine, zero});
  Block *before = builder.createBlock(&loop.getBefore(), {}, types, locations);
  Value isMissing = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, before->getArgument(0), target);
  Value isWaiting = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, before->getArgument(2), fine);
  scf::ConditionOp::create(builder, loc, arith::AndIOp::create(builder, loc, isMissing, isWaiting),
                           before->getArguments());
  Block *body = builder.createBlock(&loop.getAfter(), {}, types, locations);
  call(builder, loc, pauseFunction, {body->getArgument(1)});
  Value turn = arith::AddIOp::create(builder, loc, body->getArgument(1), constantI64(builder, loc, 1));
  Patience left = loseOrKeepPatience(builder, loc, invocation, turn, body->getArgument(3), /*pollersPerWarp=*/1);
  scf::YieldOp::create(builder, loc,
                       ValueRange{call(builder, loc, peekFunction, {counter}), turn, left.code, left.since});
  return {loop.getResult(0), loop.getResult(2)};
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
