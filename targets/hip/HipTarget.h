// The hip target: code objects for AMD devices, in process.
#pragma once

#include "targets/gpu/EmitCode.h"

namespace kolo::hip {

/// Begins to compile every program of a module in channel form, which stays as it is, for an architecture: "gfx90a" or
/// "gfx942".
llvm::Expected<PendingImage> startImage(mlir::ModuleOp module, const PipelineOptions &options,
                                        const DeviceOptions &device, llvm::StringRef architecture);

/// The assembly of every program, as text.
llvm::Expected<std::string> emitAssembly(mlir::ModuleOp module, const PipelineOptions &options,
                                         const DeviceOptions &device, llvm::StringRef architecture);

/// Registers the target's pass, and the pipeline to the LLVM dialect as --kolo-hip.
void registerHipPasses();

} // namespace kolo::hip
