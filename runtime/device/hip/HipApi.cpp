#include "device/hip/HipApi.h"

#include <dlfcn.h>

#include <mutex>

namespace kolo::device {

HipApi hip;

int32_t check(hipError_t result, const char *what) {
  if (result == hipSuccess)
    return KOLO_DRIVER_OK;
  const char *text = hip.hipGetErrorString ? hip.hipGetErrorString(result) : "unknown error";
  switch (result) {
  case hipErrorOutOfMemory:
    return fail(KOLO_DRIVER_OUT_OF_MEMORY, what, text);
  case hipErrorNotReady:
    return KOLO_DRIVER_NOT_READY;
  case hipErrorInvalidImage:
  case hipErrorInvalidKernelFile:
  case hipErrorNoBinaryForGpu:
  case hipErrorSharedObjectInitFailed:
    return fail(KOLO_DRIVER_BAD_IMAGE, what, text);
  default:
    return fail(KOLO_DRIVER_FAILED, what, text);
  }
}

namespace {

#define KOLO_TEXT(value) #value
#define KOLO_TEXT_OF(macro) KOLO_TEXT(macro)

/// Of the version that the header is from: structs differ between versions.
constexpr const char *usualName = "libamdhip64.so." KOLO_TEXT_OF(HIP_VERSION_MAJOR);

int32_t load(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    return fail(KOLO_DRIVER_FAILED, "HIP cannot be loaded", reason ? reason : path);
  }
#define KOLO_FIND(function)                                                                                            \
  hip.function = reinterpret_cast<decltype(hip.function)>(dlsym(library, KOLO_TEXT_OF(function)));                     \
  if (!hip.function)                                                                                                   \
    return fail(KOLO_DRIVER_FAILED, path, "it has no " KOLO_TEXT_OF(function));
  KOLO_HIP_FUNCTIONS(KOLO_FIND)
#undef KOLO_FIND
  hip.launchTogether =
      reinterpret_cast<decltype(hip.launchTogether)>(dlsym(library, "hipModuleLaunchCooperativeKernel"));
  return check(hip.hipInit(0), "hipInit");
}

} // namespace

int32_t openHip(const char *path, const char *) {
  static std::mutex mutex;
  static bool isOpen = false;
  std::scoped_lock lock(mutex);
  if (isOpen)
    return KOLO_DRIVER_OK;
  int32_t code = load(path ? path : usualName);
  isOpen = code == KOLO_DRIVER_OK;
  return code;
}

Current::Current(int32_t device) {
  code = check(hip.hipGetDevice(&before), "hipGetDevice");
  if (code == KOLO_DRIVER_OK)
    code = check(hip.hipSetDevice(device), "hipSetDevice");
}

Current::~Current() {
  if (code == KOLO_DRIVER_OK)
    (void)hip.hipSetDevice(before);
}

} // namespace kolo::device
