// What passes that move statements take along: numbers and buffers, which nothing waits for.
#pragma once

#include "ir/Kolo.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace kolo {

/// Arithmetic, or the buffer of a variant's slots.
inline bool isArithmetic(mlir::Operation &op) {
  return op.getNumRegions() == 0 && (mlir::isMemoryEffectFree(&op) || mlir::isa<BufferOp>(op));
}

} // namespace kolo
