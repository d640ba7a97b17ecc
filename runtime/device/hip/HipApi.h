// HipApi: the functions of HIP that libkolo_hip calls. It looks them up in libamdhip64 when it opens that library.
#pragma once

#include "device/DriverError.h"

#define __HIP_PLATFORM_AMD__
#define __HIP_DISABLE_CPP_FUNCTIONS__ // overloads, which have no single address
#include <hip/hip_runtime_api.h>

namespace kolo::device {

// Functions that the header renames together with their types are looked up by the new name.
#define KOLO_HIP_FUNCTIONS(X)                                                                                          \
  X(hipInit)                                                                                                           \
  X(hipGetErrorString)                                                                                                 \
  X(hipGetDeviceCount)                                                                                                 \
  X(hipGetDeviceProperties)                                                                                            \
  X(hipDeviceGet)                                                                                                      \
  X(hipDeviceGetUuid)                                                                                                  \
  X(hipGetDevice)                                                                                                      \
  X(hipSetDevice)                                                                                                      \
  X(hipDeviceEnablePeerAccess)                                                                                         \
  X(hipMalloc)                                                                                                         \
  X(hipExtMallocWithFlags)                                                                                             \
  X(hipFree)                                                                                                           \
  X(hipHostMalloc)                                                                                                     \
  X(hipHostFree)                                                                                                       \
  X(hipMemcpyAsync)                                                                                                    \
  X(hipMemsetAsync)                                                                                                    \
  X(hipMemGetAddressRange)                                                                                             \
  X(hipPointerGetAttribute)                                                                                            \
  X(hipIpcGetMemHandle)                                                                                                \
  X(hipIpcOpenMemHandle)                                                                                               \
  X(hipIpcCloseMemHandle)                                                                                              \
  X(hipStreamCreateWithFlags)                                                                                          \
  X(hipStreamDestroy)                                                                                                  \
  X(hipStreamSynchronize)                                                                                              \
  X(hipStreamIsCapturing)                                                                                              \
  X(hipStreamWaitEvent)                                                                                                \
  X(hipThreadExchangeStreamCaptureMode)                                                                                \
  X(hipEventCreateWithFlags)                                                                                           \
  X(hipEventDestroy)                                                                                                   \
  X(hipEventRecord)                                                                                                    \
  X(hipEventQuery)                                                                                                     \
  X(hipEventElapsedTime)                                                                                               \
  X(hipModuleLoadData)                                                                                                 \
  X(hipModuleUnload)                                                                                                   \
  X(hipModuleGetFunction)                                                                                              \
  X(hipFuncGetAttribute)                                                                                               \
  X(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor)                                                                \
  X(hipModuleLaunchKernel)

struct HipApi {
#define KOLO_DECLARE(function) decltype(&::function) function = nullptr;
  KOLO_HIP_FUNCTIONS(KOLO_DECLARE)
#undef KOLO_DECLARE
  /// hipModuleLaunchCooperativeKernel; null in older libraries. Older headers lack it, too.
  hipError_t (*launchTogether)(hipFunction_t, unsigned int gridX, unsigned int gridY, unsigned int gridZ,
                               unsigned int blockX, unsigned int blockY, unsigned int blockZ, unsigned int sharedBytes,
                               hipStream_t, void **arguments) = nullptr;
};
extern HipApi hip;

/// KOLO_DRIVER_OK for success; otherwise keeps the text that `what` failed, and returns its code.
int32_t check(hipError_t result, const char *what);

/// KOLO_DRIVER_FAILED: the library or one of its functions is missing, or there is no device.
int32_t openHip(const char *path, const char *management);

/// Makes a device the thread's current one for a scope.
class Current {
public:
  explicit Current(int32_t device);
  ~Current();
  Current(const Current &) = delete;
  Current &operator=(const Current &) = delete;
  /// KOLO_DRIVER_OK when the device is current. The caller checks this before it calls HIP.
  int32_t status() const { return code; }

private:
  int32_t code;
  int before = 0;
};

/// Returns from the calling function with the code of a failed call.
#define KOLO_HIP(function, ...)                                                                                        \
  if (int32_t code = check(hip.function(__VA_ARGS__), #function); code != KOLO_DRIVER_OK)                              \
  return code
#define KOLO_CURRENT(device)                                                                                           \
  Current current(device);                                                                                             \
  if (current.status() != KOLO_DRIVER_OK)                                                                              \
  return current.status()

// Memory; see KoloDeviceDriver. In HipMemory.cpp.
int32_t allocate(int32_t device, int32_t kind, uint64_t sizeBytes, void **memory);
int32_t release(int32_t device, int32_t kind, void *memory);
int32_t locate(int32_t device, const void *address, KoloDriverRange *range);
int32_t isOpenTo(int32_t device, const void *address, int32_t peer, int32_t *answer);
int32_t share(int32_t device, void *base, KoloDriverHandle *handle);
int32_t unshare(int32_t device, const KoloDriverHandle *handle);
int32_t openShared(int32_t device, const KoloDriverHandle *handle, void **memory);
int32_t closeShared(int32_t device, const KoloDriverHandle *handle, void *memory);

} // namespace kolo::device
