// The functions of HIP that are used here, found in libamdhip64 when it is opened.
#pragma once

#include "device/DriverError.h"

#define __HIP_PLATFORM_AMD__
#define __HIP_DISABLE_CPP_FUNCTIONS__ // overloads, of which no address can be taken
#include <hip/hip_runtime_api.h>

namespace kolo::device {

// Names are looked up as the header, where it renames them with their types, has it.
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
  /// hipModuleLaunchCooperativeKernel, which older headers and libraries do not have; null: not there.
  hipError_t (*launchTogether)(hipFunction_t, unsigned int gridX, unsigned int gridY, unsigned int gridZ,
                               unsigned int blockX, unsigned int blockY, unsigned int blockZ, unsigned int sharedBytes,
                               hipStream_t, void **arguments) = nullptr;
};
extern HipApi hip;

/// KOLO_DRIVER_OK, or notes that `what` failed with this result.
int32_t check(hipError_t result, const char *what);

/// KOLO_DRIVER_FAILED: the library or a function is not there, or there is no device.
int32_t openHip(const char *path);

/// Makes a device the thread's current one for a scope.
class Current {
public:
  explicit Current(int32_t device);
  ~Current();
  Current(const Current &) = delete;
  Current &operator=(const Current &) = delete;
  /// KOLO_DRIVER_OK when it is. To be asked before anything else.
  int32_t status() const { return code; }

private:
  int32_t code;
  int before = 0;
};

/// Leaves the function with the code of a call that failed.
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
int32_t share(int32_t device, void *base, KoloDriverHandle *handle);
int32_t openShared(int32_t device, const KoloDriverHandle *handle, void **memory);
int32_t closeShared(int32_t device, const KoloDriverHandle *handle, void *memory);

} // namespace kolo::device
