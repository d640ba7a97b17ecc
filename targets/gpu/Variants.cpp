// Which kernels a module's programs become.
#include "targets/gpu/Variants.h"

using namespace mlir;

namespace kolo::gpu {

bool reduces(ProgramOp program) {
  return program.walk([](ChannelReduceOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// `$` is a letter in the assembly languages of all devices, and none in names that authors give.
static std::string kernelName(StringRef program, KoloType type, KoloReduction reduction) {
  return (program + "$" + nameOf(reduction) + "$" + nameOf(type)).str();
}

std::vector<DeviceKernel> listKernels(ModuleOp module, const DeviceOptions &options) {
  std::vector<DeviceKernel> kernels;
  for (auto program : module.getOps<ProgramOp>()) {
    std::string name = program.getSymName().str();
    if (!reduces(program)) {
      kernels.push_back({name, name});
      continue;
    }
    for (KoloType type : options.types)
      for (KoloReduction reduction : options.reductions)
        kernels.push_back({kernelName(name, type, reduction), name, type, reduction});
  }
  return kernels;
}

} // namespace kolo::gpu
