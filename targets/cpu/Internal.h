// The steps between the LLVM dialect and a plugin file. Private to this folder.
#pragma once

#include "compiler/Pipeline.h"
#include "targets/DeviceCode.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace llvm {
class Module;
}
namespace mlir {
class OpPassManager;
}

namespace kolo::cpu {

/// The manifest of the module's channel programs, and of what goes with them for devices, as JSON.
llvm::Expected<std::string> writeManifest(mlir::ModuleOp module, const PipelineOptions &options,
                                          const DeviceCode &devices);

/// Adds the table of entry points, for programs of these names, and the function that returns it; with all kernels, if
/// some program reduces.
void addEntryTable(llvm::Module &module, llvm::ArrayRef<std::string> programs, bool reduces,
                   const PipelineOptions &options);

/// Adds the images of devices, their table, and the function that returns it: see DeviceAbi.h.
void addDeviceTable(llvm::Module &module, llvm::ArrayRef<std::string> programs, const DeviceCode &devices);
/// Where the images are in the section that holds them all: bytes from its beginning, for every image in turn.
inline constexpr llvm::StringLiteral imageSection = ".kolo.images";
std::vector<uint64_t> imageOffsets(const DeviceCode &devices);

struct CodeOptions {
  std::string cpu;
  bool optimize = true, sanitizeThread = false;
};
/// Optimizes a module, instruments it if that is asked for, and makes an object file of it.
llvm::Expected<llvm::SmallVector<char, 0>> emitObject(llvm::Module &module, const CodeOptions &options);

/// Conversions to the LLVM dialect, in this order: of what has regions, then of everything that is left.
void addControlFlowConversions(mlir::OpPassManager &manager);
void addLlvmConversions(mlir::OpPassManager &manager);

/// Links an object, and the kernels, to a shared library that needs no other, and writes it with its manifest as a
/// plugin. Where code is instrumented, the library needs the sanitizer's functions of the process that loads it.
llvm::Error linkPlugin(llvm::ArrayRef<char> object, const std::string &manifest, const PipelineOptions &options,
                       llvm::StringRef path);

llvm::Error makeError(const llvm::Twine &message);

} // namespace kolo::cpu
