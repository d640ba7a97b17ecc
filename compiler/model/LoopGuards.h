// Loops that go through many iterations and take steps in few of them: all steps lie under one condition. Used by Code,
// so that a rank's trace takes time of its steps.
#pragma once

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <optional>

namespace kolo {

/// The condition that all steps of a loop lie under: the same one in all iterations, or one that holds in one iteration
/// at most.
struct LoopGuard {
  mlir::Value condition; // of all iterations; null: there is one iteration, as follows
  mlir::Value wanted;    // the iteration in which base + index, modulo the size, is this
  mlir::Value base;      // null: the index itself is `wanted`
  mlir::Value size;
  bool isSubtracted = false; // base - index
};

/// Whether index arithmetic has a result whatever its operands are on a mesh: it divides by no zero, for example.
bool cannotFail(mlir::Operation *op);

/// Nothing if there is no such condition, or if an iteration without steps could be a mistake. `isInvariant`: of a
/// value that is the same in all iterations, and known before the first.
std::optional<LoopGuard> findGuard(mlir::scf::ForOp loop, llvm::function_ref<bool(mlir::Value)> isInvariant);

} // namespace kolo
