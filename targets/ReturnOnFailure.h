// Leaves a function early, from inside of loops. Shared by the targets.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace kolo {

/// Functions that may fail give an i32. Makes every caller of one return that value at once when it is not zero.
/// Requires callers that return an i32. Requires branches in place of structured loops, which cannot be left early.
void returnOnFailure(mlir::ModuleOp module, llvm::function_ref<bool(llvm::StringRef name)> mayFail);

} // namespace kolo
