// When a thread that polls gives up, and what it leaves for the host. Private to the device targets.
#pragma once

#include "mlir/IR/Builders.h"

namespace kolo::gpu {

/// What a thread that polls knows of its wait.
struct Patience {
  mlir::Value code;  // a KoloDeviceFailureCode, i32: why to end polling, or KOLO_DEVICE_OK to go on
  mlir::Value since; // i64: when the wait began, by the device's clock; 0 before the first look at it
};
/// After this many turns, i64, of polling. It looks at the clock every 64 turns. The abort flag is far away, in memory
/// of the host. Every 4096 turns one of the warp's pollers looks at it, each in its turn; they are a power of two and
/// spread evenly. So a warp of 32 pollers ends within 131072 turns, some tenths of a second.
Patience loseOrKeepPatience(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value invocation, mlir::Value turn,
                            mlir::Value since, int64_t pollersPerWarp);

/// What a counter was last, and 0 or the KoloDeviceFailureCode for which nothing is waited for any more, i32.
struct Polled {
  mlir::Value value, code;
};
/// One thread: reads a counter with `peek` until it has reached the target.
Polled pollCounter(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value invocation, mlir::Value counter,
                   mlir::Value target);

/// Fields of a KoloDeviceFailure: the code i32, all others i64.
struct Failure {
  mlir::Value code, peer, semaphore, statement, expected, found;
};
/// For one thread of the block: fills this lane's KoloDeviceFailure, unless an earlier call did, and lets a timeout end
/// the other lanes too.
void noteFailure(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value invocation, const Failure &failure);

} // namespace kolo::gpu
