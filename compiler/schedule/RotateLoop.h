// Rotation of a loop, so that what ends one iteration stands beside what begins the next. Used by FuseMoves.
#pragma once

#include "ir/Kolo.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace kolo {

/// Rotates a loop at an op of its body that `first` begins: the same ops in the same order.
///   Before:  for %i = a to b { A(%i); first(%i); B(%i) }
///   After:   for %i = a to min(a+1, b) { A(a) }; for %i = a to b-1 { first(%i); B(%i); A(%i+1) };
///            for %i = max(b-1, a) to b { first(b-1); B(b-1) }
/// The step is 1, and the loop has no results. Gives the loop in the middle. All three are cleaned up: equal offsets
/// are equal values, and the outer two name no index. Arithmetic may stand on both sides.
mlir::scf::ForOp rotateLoop(mlir::scf::ForOp loop, mlir::Operation *first);

} // namespace kolo
