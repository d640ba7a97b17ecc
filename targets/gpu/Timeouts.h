// When a thread that polls gives up, and what it leaves for the host. Private to the device targets.
#pragma once

#include "mlir/IR/Builders.h"

namespace kolo::gpu {

/// Why to end polling after this many turns, i64, of it: a KoloDeviceFailureCode, i32, which is KOLO_DEVICE_OK to go
/// on.
mlir::Value whyToGiveUp(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value invocation, mlir::Value turn);

/// Fields of a KoloDeviceFailure: the code i32, all others i64.
struct Failure {
  mlir::Value code, peer, semaphore, statement, expected, found;
};
/// For one thread of the block: fills this lane's KoloDeviceFailure, unless an earlier call did, and lets a timeout end
/// the other lanes too.
void noteFailure(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value invocation, const Failure &failure);

} // namespace kolo::gpu
