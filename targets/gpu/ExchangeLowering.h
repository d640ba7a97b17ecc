// The lowering of signals and waits, and of loops of them over peers. Private to the pass LowerPrograms.
#pragma once

#include "targets/ChannelLowering.h"
#include "targets/gpu/DeviceFunctions.h"
#include "targets/gpu/ThreadLoops.h"

namespace kolo::gpu {

/// Of one program, in the function at hand. All threads of the block have met after what each function builds.
class ExchangeLowering {
public:
  ExchangeLowering(const LoopLowering &ofLoops, ProgramOp ofProgram, const StatementTable &itsStatements,
                   mlir::Value itsInvocation);

  void lowerSignal(SignalOp signal);
  void lowerWait(WaitOp wait);
  /// One barrier for all signals: each thread publishes what the block wrote, to peers of its own. Not over a staged
  /// network, where thread 0 signals.
  void lowerSignals(mlir::scf::ForOp loop, SignalOp signal);
  /// A thread that has given up waits for no other peer.
  void lowerWaits(mlir::scf::ForOp loop, WaitOp wait);

private:
  mlir::Value number(int64_t value) { return constantI64(builder, loc, value); }
  mlir::Value integer(mlir::Value index) { return toInteger(builder, loc, loops.mapping.lookupOrDefault(index)); }
  mlir::Value statementOf(mlir::Operation *op) { return number(statements.numberOf(op->getLoc())); }
  mlir::Value numSemaphores() { return number(int64_t(program.getSemaphores())); }
  llvm::SmallVector<mlir::Value> operandsOf(SignalOp signal);
  mlir::scf::ForOp createLoopByThread(mlir::scf::ForOp loop, mlir::ValueRange state);

  const LoopLowering &loops;
  mlir::OpBuilder &builder;
  mlir::Location loc;
  ProgramOp program;
  const StatementTable &statements;
  mlir::Value invocation;
  const ExchangeFunctionNames &names;
};

} // namespace kolo::gpu
