// The order of the cpu target's passes.
#pragma once

#include "compiler/Pipeline.h"

namespace kolo::cpu {

/// From channel form to the LLVM dialect.
void buildCpuPipeline(mlir::OpPassManager &manager, const PipelineOptions &options);

/// Registers the passes, and the pipeline as --kolo-cpu.
void registerCpuPasses();

} // namespace kolo::cpu
