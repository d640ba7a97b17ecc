// Kernels on the host: the code that all device targets share, compiled for this processor. Threads of the host stand
// for the threads of blocks. The primitives are those of the stand-in for a device's driver.
#pragma once

#include "kolo/runtime/DeviceAbi.h"
#include "targets/DeviceCode.h"

#include "mlir/IR/BuiltinOps.h"

#include <memory>
#include <string>

namespace llvm::orc {
class LLJIT;
}

namespace kolo::test {

/// A launch of one rank: lanes blocks of threads threads.
struct LaunchShape {
  int64_t lanes = 1, threads = 1;
};

class Emulator {
public:
  /// Compiles the programs of a module in channel form, which stays as it is. Fails the process when that fails.
  /// Launches have a multiple of groupSize threads; a fuse gathers so many addresses.
  Emulator(mlir::ModuleOp programs, const DeviceOptions &options, int64_t groupSize, int64_t listEntries);
  ~Emulator();

  /// Returns when all threads have ended. Several ranks may be launched from threads of the caller.
  void launch(const std::string &kernel, const LaunchShape &shape, const KoloDeviceInvocation &invocation);

private:
  int64_t listEntries;
  bool hasPackets;
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

} // namespace kolo::test
