// The order of the passes that all device targets share.
#pragma once

#include "compiler/Pipeline.h"
#include "targets/DeviceCode.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

#include <memory>

namespace kolo::gpu {

/// From channel form to the LLVM dialect. `definePrimitives` is the target's pass that gives the primitives their
/// bodies; null: they stay declarations. Blocks have a multiple of groupSize threads: see DeviceAbi.h. A fuse gathers
/// up to listEntries addresses, from 2 to 128, before it uses them.
void buildGpuPipeline(mlir::OpPassManager &manager, const PipelineOptions &options, const DeviceOptions &device,
                      std::unique_ptr<mlir::Pass> definePrimitives, int64_t groupSize = 64, int64_t listEntries = 128);

/// Registers the passes, and the pipeline, with primitives that are only declared, as --kolo-gpu.
void registerGpuPasses();

} // namespace kolo::gpu
