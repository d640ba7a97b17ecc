// What a code object says of itself. Private to this folder.
#pragma once

#include "targets/DeviceCode.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace kolo::hip {

/// What the kernels of the module's programs take, in their order, from a code object's metadata.
llvm::Expected<std::vector<DeviceImage::Resources>> readResources(llvm::StringRef codeObject, mlir::ModuleOp programs);

} // namespace kolo::hip
