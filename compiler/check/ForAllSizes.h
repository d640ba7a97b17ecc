// Proves a program for all sizes of one dimension of its mesh. sizes/README.md has the argument.
#pragma once

#include "compiler/check/Verdict.h"

namespace kolo {

/// From 16 on, or from a smaller size on, as `options.sizes` asks. `mesh` gives the sizes along the other dimensions.
/// Never emits diagnostics.
AllSizes proveForAllSizes(ProgramOp program, llvm::ArrayRef<int64_t> mesh, size_t dim, const CheckOptions &options);

} // namespace kolo
