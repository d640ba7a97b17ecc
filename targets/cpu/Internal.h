// The steps from the LLVM dialect to object code. Private to this folder, and to tests that make code for the host.
#pragma once

#include "codec/Codec.h"
#include "compiler/Pipeline.h"
#include "targets/cpu/CpuTarget.h"
#include "targets/cpu/KernelObjects.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <string>

namespace llvm {
class Module;
}
namespace mlir {
class OpPassManager;
}

namespace kolo::cpu {

/// Adds the table of entry points, for programs of these names with these codecs, and the function that returns it.
/// The kernels are for programs that reduce, and may be none.
void addEntryTable(llvm::Module &module, llvm::ArrayRef<std::string> programs, llvm::ArrayRef<codec::Codec> codecs,
                   llvm::ArrayRef<KernelObject> kernels);

/// Makes the functions with such names, which are the module's own, for x86-64-v3 and for x86-64-v4, the host choosing
/// when the plugin is loaded.
void makeForEachProcessor(llvm::Module &module, llvm::function_ref<bool(llvm::StringRef)> isWanted);

struct CodeOptions {
  std::string cpu;
  bool optimize = true, sanitizeThread = false;
  CodeForm form = CodeForm::Object;
  /// Names of functions that the code has for both kinds of processors; null: of none.
  llvm::function_ref<bool(llvm::StringRef)> isForEachProcessor = nullptr;
};
/// Optimizes a module, instruments it for the thread sanitizer if asked, and gives an object file, or text.
llvm::Expected<llvm::SmallVector<char, 0>> emitObject(llvm::Module &module, const CodeOptions &options);

/// Conversions to the LLVM dialect, in this order: of ops with regions, then of all other ops.
void addControlFlowConversions(mlir::OpPassManager &manager);
void addLlvmConversions(mlir::OpPassManager &manager);

} // namespace kolo::cpu
