// The cpu target: from programs in channel form to code for this host, in process.
#pragma once

#include "codec/Codec.h"
#include "compiler/Pipeline.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace llvm {
class Module;
}

namespace kolo::cpu {

/// Registers what compileHost needs with a context. Once per context.
void loadCpuTarget(mlir::MLIRContext &context);

/// A program that was lowered.
struct HostProgram {
  std::string name;
  llvm::SmallVector<mlir::Location> statements; // in the order of the numbers that failing waits report
};

/// The host's code of a plugin: a shared library of `object` and `kernels` needs no other library.
struct HostCode {
  std::string cpu;                            // what the code requires, as the loader knows it: "x86-64-v3"
  llvm::SmallVector<char, 0> object;          // ELF; defines KOLO_PLUGIN_SYMBOL
  llvm::SmallVector<llvm::StringRef> kernels; // more objects; static memory
  std::vector<HostProgram> programs;          // in the order of the table of entry points
  llvm::SmallVector<codec::Codec> codecs;     // likewise
};

/// How the host's code is made.
struct HostOptions {
  const PipelineOptions &pipeline;
  /// The level of x86-64 that the code is for, "x86-64-v3" or "x86-64-v4". Empty: level 3, and conversions and
  /// reductions for both, of which the host that loads the plugin takes the best.
  std::string cpu = {};
};

/// Whether HostOptions::cpu may have this name.
bool isCpuLevel(llvm::StringRef name);

/// Compiles every program of a module in channel form, which stays as it is. `addTables` may add constants and exported
/// functions to the code before it is optimized. Errors: this host lacks instructions that the target needs; lowering
/// failed, of which the context's diagnostics say more.
llvm::Expected<HostCode> compileHost(mlir::ModuleOp programs, const HostOptions &options,
                                     llvm::function_ref<void(llvm::Module &)> addTables);

/// What the host's code can be written as: an object file, or text to read.
enum class CodeForm { Object, Assembly, LlvmIr };

/// The host's code of the same programs as text, after LLVM's optimizer, without tables that others add. Errors as
/// compileHost.
llvm::Expected<std::string> emitText(mlir::ModuleOp programs, const HostOptions &options, CodeForm form);

} // namespace kolo::cpu
