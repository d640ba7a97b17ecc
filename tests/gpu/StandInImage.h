// Compiled kernels for the stand-in driver of tests/runtime/device: the code that all device targets share, as a
// library of the host.
#pragma once

#include "targets/DeviceCode.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace kolo::test {

/// An image that claims to be PTX for sm_70. The driver has to run blocks of a multiple of standInThreads threads.
inline constexpr int64_t standInThreads = 2;
llvm::Expected<DeviceImage> compileForStandIn(mlir::ModuleOp programs, const DeviceOptions &options);

} // namespace kolo::test
