// When a thread that polls gives up, and what it leaves for the host. Private to the device targets.
#pragma once

#include "mlir/IR/Builders.h"

namespace kolo::gpu {

/// What a thread that polls knows of its wait.
struct Patience {
  mlir::Value code;  // a KoloDeviceFailureCode, i32: why to end polling, or KOLO_DEVICE_OK to go on
  mlir::Value since; // i64: when the wait began, by the device's clock; 0 before the first look at it
};
/// Who polls together: a thread by itself, or warps whose threads do so side by side.
enum class Pollers : uint8_t { Thread, Warps };
/// After this many turns, i64, of polling. It looks at the clock every 64 turns. It looks at the abort flag, which is
/// far away in host memory, every 4096 turns, and then of a warp's threads at most one does, each in its turn: a
/// warp ends within 131072 turns, some tenths of a second.
Patience loseOrKeepPatience(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value invocation, mlir::Value turn,
                            mlir::Value since, Pollers pollers);

/// Fields of a KoloDeviceFailure: the code i32, all others i64.
struct Failure {
  mlir::Value code, peer, semaphore, statement, expected, found;
};
/// For one thread of the block: fills this lane's KoloDeviceFailure, unless an earlier call did, and lets a timeout end
/// the other lanes too.
void noteFailure(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value invocation, const Failure &failure);

} // namespace kolo::gpu
