// The cuda target: PTX for NVIDIA devices, in process.
#pragma once

#include "targets/gpu/EmitCode.h"

namespace kolo::cuda {

/// Begins to compile every program of a module in channel form, which stays as it is, for an architecture: "sm_70" or
/// later, or "sm_90a" and the like.
llvm::Expected<PendingImage> startImage(mlir::ModuleOp module, const PipelineOptions &options,
                                        const DeviceOptions &device, llvm::StringRef architecture);

/// The PTX of every program, as text.
llvm::Expected<std::string> emitAssembly(mlir::ModuleOp module, const PipelineOptions &options,
                                         const DeviceOptions &device, llvm::StringRef architecture);

/// Registers the target's pass, and the pipeline to the LLVM dialect as --kolo-cuda.
void registerCudaPasses();

} // namespace kolo::cuda
