// Device targets by name, and the images that plugins carry.
#pragma once

#include "tools/compile/Compile.h"

#include "llvm/Support/Error.h"

namespace kolo {
struct PipelineOptions;
}

namespace kolo::tools {

/// What code is for.
struct Targets {
  std::string cpu; // CompileRequest::cpu
  std::vector<DeviceArchitecture> devices;
};
/// Understands "cpu,cuda:sm_90,hip:gfx90a" and "cpu:x86-64-v4". Throws ToolError (Usage); the host's part, cpu, has to
/// be there, since it is what sizes buffers and what results are compared with.
Targets parseTargets(const std::string &text);

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
/// any of its code. Writes nowhere else, whatever the plugin's manifest says. Gives their paths. Throws ToolError
/// (Usage); before anything is written, if the manifest is not as it must be.
std::vector<std::string> extractImages(const std::string &plugin, const std::string &folder);

} // namespace kolo::tools
