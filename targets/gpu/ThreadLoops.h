// Loops whose iterations the threads of a block share. Private to the device targets.
#pragma once

#include "ir/Kolo.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

namespace kolo::gpu {

/// The signal, the wait or the move of a loop that has arithmetic beside it, and gives no results; null for another
/// loop.
mlir::Operation *onlyExchangeOf(mlir::scf::ForOp loop);

/// What lowers a loop of the program to one of the kernel: `mapping` has the kernel's values for the program's.
struct LoopLowering {
  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::IRMapping &mapping;
  llvm::function_ref<void(mlir::Operation &)> lowerArithmetic;
};
/// Builds a loop over [first, end) with the step of `loop`, of which thread t of T takes iterations t, t + T, ...
/// Lowers the arithmetic of `loop` in it, and leaves the builder behind that.
mlir::scf::ForOp createLoopByThread(const LoopLowering &lowering, mlir::scf::ForOp loop, mlir::Value first,
                                    mlir::Value end, mlir::ValueRange state);

} // namespace kolo::gpu
