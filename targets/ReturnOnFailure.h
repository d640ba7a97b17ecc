// Leaves a function early, from inside of loops. Shared by the targets.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace kolo {

/// Makes every caller of the functions that may fail, which give an i32, return that value at once when it is not zero.
/// Requires loops that are branches already, since a structured loop cannot be left in the middle, and callers that
/// return an i32.
void returnOnFailure(mlir::ModuleOp module, llvm::function_ref<bool(llvm::StringRef name)> mayFail);

} // namespace kolo
