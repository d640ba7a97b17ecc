// When functions that call moves compute what does not change: a value that is kept over a call takes registers from
// the move. EmitCode uses this.
#pragma once

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/PassManager.h"

namespace kolo::gpu {

/// Calls `visit` for all loops of a module, outer ones first.
void forEachLoop(llvm::Module &module, llvm::function_ref<void(llvm::Loop &)> visit);

/// For the optimizer: loops around calls compute in every iteration what does not change.
void keepInLoopsAroundMoves(llvm::Module &module);

/// Functions with this attribute have an invocation as their first argument, or kernels all invocations of a launch.
inline constexpr llvm::StringLiteral invocationAttribute = "kolo-invocation";

/// Runs last, but for the merging of what is equal. What such a function reads of its invocation, which nothing changes
/// while the kernel runs, and values of a few operations on that, come right before each use: behind a call they are
/// computed again.
struct ComputeAgainAfterMoves : llvm::PassInfoMixin<ComputeAgainAfterMoves> {
  llvm::PreservedAnalyses run(llvm::Module &module, llvm::ModuleAnalysisManager &);
  static bool isRequired() { return true; }
};

} // namespace kolo::gpu
