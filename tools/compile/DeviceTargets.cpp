// The targets for devices that there are: a new one is a row here.
#include "tools/compile/DeviceTarget.h"

#include "targets/cuda/CudaTarget.h"
#include "targets/hip/HipTarget.h"

namespace kolo::tools {

std::span<const NamedDeviceTarget> deviceTargets() {
  static constexpr NamedDeviceTarget targets[] = {{"cuda", "sm_90", cuda::startImage, cuda::emitAssembly},
                                                  {"hip", "gfx90a", hip::startImage, hip::emitAssembly}};
  return targets;
}

} // namespace kolo::tools
