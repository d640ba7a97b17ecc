// From programs in channel form to a device's code, with LLVM's own optimizer and code generators. Used by the device
// targets.
#pragma once

#include "targets/PendingImage.h"
#include "targets/gpu/GpuPipeline.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/FunctionExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"

namespace llvm {
class Function;
}

namespace kolo::gpu {

/// The properties of one device target.
struct DeviceTarget {
  llvm::StringRef name; // "cuda"
  llvm::StringRef triple, architecture, features;
  std::function<std::unique_ptr<mlir::Pass>()> createDefinePrimitives;
  std::function<void(llvm::Function &)> markKernel; // makes a function one that can be launched
  llvm::CodeGenFileType fileType;
};

/// Gives assembly text or an object file. May run on any thread, beside others: it touches no MLIR.
using PendingCode = llvm::unique_function<llvm::Expected<std::string>()>;

/// Lowers all programs of a module in channel form, which stays as it is. The slow part, optimization and code
/// generation, is left to the caller. Error: an architecture that LLVM does not know.
llvm::Expected<PendingCode> startCode(mlir::ModuleOp module, const PipelineOptions &options,
                                      const DeviceOptions &device, const DeviceTarget &target);

} // namespace kolo::gpu
