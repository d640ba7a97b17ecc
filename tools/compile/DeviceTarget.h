// The targets for devices that a program has. Private to this folder, but for programs that have none.
#pragma once

#include "targets/PendingImage.h"

#include "mlir/IR/BuiltinOps.h"

#include <span>
#include <string>

namespace kolo {
struct PipelineOptions;
}

namespace kolo::tools {

struct NamedDeviceTarget {
  const char *kind, *example;
  llvm::Expected<PendingImage> (*startImage)(mlir::ModuleOp, const PipelineOptions &, const DeviceOptions &,
                                             llvm::StringRef);
  llvm::Expected<std::string> (*emitAssembly)(mlir::ModuleOp, const PipelineOptions &, const DeviceOptions &,
                                              llvm::StringRef);
};

/// All of them, where the program links kolo_tools_optional. One that does not, such as kolo-core, defines this itself.
std::span<const NamedDeviceTarget> deviceTargets();

} // namespace kolo::tools
