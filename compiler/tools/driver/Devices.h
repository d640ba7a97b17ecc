// Device targets by name, and the images that plugins carry.
#pragma once

#include "driver/Compile.h"

#include "llvm/Support/Error.h"

namespace kolo {
struct PipelineOptions;
}

namespace kolo::tools {

/// Understands "cpu,cuda:sm_90,hip:gfx90a": the devices in it. Throws ToolError (Usage); the host's part, cpu, has to
/// be there, since it is what sizes buffers and what results are compared with.
std::vector<DeviceArchitecture> parseTargets(const std::string &text);

/// "f16,f32" and "sum,max", or "all". Throws ToolError (Usage), naming `flag`.
std::vector<KoloType> parseTypes(const std::string &text, const std::string &flag);
std::vector<KoloReduction> parseReductions(const std::string &text, const std::string &flag);

/// Code for the request's devices, of programs in channel form. Throws ToolError (Usage): see assemble.
llvm::Expected<DeviceCode> compileDevices(mlir::ModuleOp programs, const PipelineOptions &options,
                                          const CompileRequest &request);

/// The assembly of the programs for the first of the request's devices of a kind, "cuda" or "hip".
llvm::Expected<std::string> emitAssembly(mlir::ModuleOp programs, const PipelineOptions &options,
                                         const CompileRequest &request, const std::string &kind);

/// Writes the images of a plugin to a folder, which is made if need be, as KIND-ARCHITECTURE.FORMAT, without running
/// any of its code. Gives their paths. Throws ToolError (Usage).
std::vector<std::string> extractImages(const std::string &plugin, const std::string &folder);

} // namespace kolo::tools
