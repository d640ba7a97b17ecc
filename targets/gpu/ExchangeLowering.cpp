#include "targets/gpu/ExchangeLowering.h"

#include "compiler/project/Relations.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace kolo::gpu {

ExchangeLowering::ExchangeLowering(const LoopLowering &ofLoops, ProgramOp ofProgram,
                                   const StatementTable &itsStatements, Value itsInvocation)
    : loops(ofLoops), builder(ofLoops.builder), loc(ofLoops.loc), program(ofProgram), statements(itsStatements),
      invocation(itsInvocation), names(usesStagedNetwork(ofProgram) ? networkFunctions : hostFunctions) {}

/// The statement only where thread 0 may wait for room in its queue.
SmallVector<Value> ExchangeLowering::operandsOf(SignalOp signal) {
  SmallVector<Value> operands{invocation, integer(signal.getRank()), number(int64_t(signal.getSemaphore())),
                              numSemaphores()};
  if (usesStagedNetwork(program))
    operands.push_back(statementOf(signal));
  return operands;
}

void ExchangeLowering::lowerSignal(SignalOp signal) { call(builder, loc, names.signal, operandsOf(signal)); }

void ExchangeLowering::lowerWait(WaitOp wait) {
  call(builder, loc, names.wait,
       {invocation, integer(wait.getRank()), number(int64_t(wait.getSemaphore())), numSemaphores(), statementOf(wait)});
}

scf::ForOp ExchangeLowering::createLoopByThread(scf::ForOp loop, ValueRange state) {
  auto mapped = [&](Value value) { return loops.mapping.lookupOrDefault(value); };
  return gpu::createLoopByThread(loops, loop, mapped(loop.getLowerBound()), mapped(loop.getUpperBound()), state);
}

void ExchangeLowering::lowerSignals(scf::ForOp loop, SignalOp signal) {
  OpBuilder::InsertionGuard guard(builder);
  call(builder, loc, publishFunction);
  call(builder, loc, barrierFunction);
  createLoopByThread(loop, {});
  call(builder, loc, names.signalOne, operandsOf(signal));
}

void ExchangeLowering::lowerWaits(scf::ForOp loop, WaitOp wait) {
  Value zero = number(0), semaphore = number(int64_t(wait.getSemaphore())), number = numSemaphores();
  scf::ForOp made; // carries why this thread has given up, and waiting for which peer
  {
    OpBuilder::InsertionGuard guard(builder);
    made = createLoopByThread(loop, {zero, zero});
    ValueRange state = made.getRegionIterArgs();
    Value peer = integer(wait.getRank());
    Value isWaiting = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, state[0], zero);
    auto asked = scf::IfOp::create(builder, loc, state.getTypes(), isWaiting, /*withElseRegion=*/true);
    scf::YieldOp::create(builder, loc, asked.getResults());
    builder.setInsertionPointToStart(asked.elseBlock());
    scf::YieldOp::create(builder, loc, state);
    builder.setInsertionPointToStart(asked.thenBlock());
    Value code = call(builder, loc, names.waitOne, {invocation, peer, semaphore, number});
    scf::YieldOp::create(builder, loc, ValueRange{code, peer});
  }
  call(builder, loc, names.waitEnd,
       {invocation, made.getResult(0), made.getResult(1), semaphore, number, statementOf(wait)});
}

} // namespace kolo::gpu
