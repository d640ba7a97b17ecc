#include "device/hip/HipApi.h"

#include <dlfcn.h>

#include <algorithm>
#include <iterator>

namespace kolo::device {

const char *Hip::textOf(hipError_t result) {
  return api.hipGetErrorString ? api.hipGetErrorString(result) : "unknown error";
}

bool Hip::isBadImage(hipError_t result) {
  constexpr hipError_t ofImages[] = {hipErrorInvalidImage, hipErrorInvalidKernelFile, hipErrorNoBinaryForGpu,
                                     hipErrorSharedObjectInitFailed};
  return std::ranges::find(ofImages, result) != std::end(ofImages);
}

const char *Hip::findFunctions(void *library) {
#define KOLO_FIND(function)                                                                                            \
  api.function = reinterpret_cast<decltype(api.function)>(dlsym(library, KOLO_TEXT_OF(function)));                     \
  if (!api.function)                                                                                                   \
    return KOLO_TEXT_OF(function);
  KOLO_HIP_FUNCTIONS(KOLO_FIND)
#undef KOLO_FIND
  api.launchTogether =
      reinterpret_cast<decltype(api.launchTogether)>(dlsym(library, "hipModuleLaunchCooperativeKernel"));
  return nullptr;
}

HipCurrent::HipCurrent(int32_t device) {
  code = check<Hip>(Hip::api.hipGetDevice(&before), "hipGetDevice");
  if (code == KOLO_DRIVER_OK)
    code = check<Hip>(Hip::api.hipSetDevice(device), "hipSetDevice");
}

HipCurrent::~HipCurrent() {
  if (code == KOLO_DRIVER_OK)
    (void)Hip::api.hipSetDevice(before);
}

} // namespace kolo::device
