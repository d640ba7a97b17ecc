// What a code object says of itself. Private to this folder.
#ifndef KOLO_TARGETS_HIP_INTERNAL_H
#define KOLO_TARGETS_HIP_INTERNAL_H

#include "targets/DeviceCode.h"

#include "llvm/Support/Error.h"

namespace kolo::hip {

/// The resources of these kernels, in their order, from a code object's metadata.
llvm::Expected<std::vector<DeviceImage::Resources>> readResources(llvm::StringRef codeObject,
                                                                  const std::vector<DeviceKernel> &kernels);

} // namespace kolo::hip

#endif
