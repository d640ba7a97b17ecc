// From a recorded choreography to the choreography phase of the dialect.
#pragma once

#include "dsl/Recording.h"
#include "ir/Kolo.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace kolo::dsl {

/// Emits the statements that have no mistake, into a module of its own, for these mesh sizes (one per dimension each).
/// Every op carries the author's location; in a building block, a CallSiteLoc that names its callers. The module is
/// empty when the definition itself is mistaken.
mlir::OwningOpRef<mlir::ModuleOp> emitChoreography(mlir::MLIRContext &context, const Recording &recording,
                                                   llvm::ArrayRef<std::vector<int64_t>> meshes);

} // namespace kolo::dsl
