// The cpu target: from IR to a plugin file, in process.
#pragma once

#include "compiler/Pipeline.h"
#include "targets/DeviceCode.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace kolo::cpu {

/// Registers what compilePlugin needs with a context. Once per context.
void loadCpuTarget(mlir::MLIRContext &context);

/// Compiles the programs of a module in channel form, which stays as it is, for devices.
using DeviceCompiler = llvm::function_ref<llvm::Expected<DeviceCode>(mlir::ModuleOp)>;

/// Compiles every program of the module, in choreography or in channel form, for this host's CPU, and writes a plugin
/// to `path`, which is replaced only when everything went well. The author's mistakes go to the context's diagnostics;
/// the error then says only that there were some. What `devices` gives is packed beside the host's code; null: nothing.
llvm::Error compilePlugin(mlir::ModuleOp module, const PipelineOptions &options, llvm::StringRef path,
                          DeviceCompiler devices = nullptr);

/// The same of a module that is in channel form already, and proved, whatever schedules led to it.
llvm::Error packPlugin(mlir::ModuleOp programs, const PipelineOptions &options, llvm::StringRef path,
                       DeviceCompiler devices = nullptr);

/// An attribute of the module: the manifest's `selection`, an array of dictionaries with the same fields; an entry
/// without `upToBytes` has no end.
inline constexpr llvm::StringLiteral selectionName = "kolo.selection";

/// The level of the x86-64 architecture, or another name that the loader knows, that code for this host is compiled
/// for.
llvm::Expected<std::string> hostCpuLevel();

} // namespace kolo::cpu
