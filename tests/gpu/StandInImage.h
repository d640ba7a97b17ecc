// Compiled kernels for the stand-in driver of tests/runtime/device: the code that all device targets share, as a
// library of the host.
#pragma once

#include "compiler/Schedule.h"
#include "targets/DeviceCode.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace kolo::test {

/// An image that claims to be PTX for sm_70. The driver has to run blocks of a multiple of standInThreads threads: see
/// Support.h.
llvm::Expected<DeviceImage> compileForStandIn(mlir::ModuleOp programs, const DeviceOptions &options);

/// All types and reductions.
DeviceOptions everything();
/// By its name: "bulk", "ll" or "ll128".
Protocol protocolOf(const std::string &name);

} // namespace kolo::test
