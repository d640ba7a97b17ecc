// CudaApi: the functions of the CUDA driver that libkolo_cuda calls. It looks them up in libcuda when it opens that
// library.
#pragma once

#include "device/DriverError.h"

#include <cuda.h>

namespace kolo::device {

/// The names are those of the oldest versions that have the types of cuda.h, so that older drivers have them.
#define KOLO_CUDA_FUNCTIONS(X)                                                                                         \
  X(cuInit, "cuInit")                                                                                                  \
  X(cuGetErrorString, "cuGetErrorString")                                                                              \
  X(cuDeviceGetCount, "cuDeviceGetCount")                                                                              \
  X(cuDeviceGet, "cuDeviceGet")                                                                                        \
  X(cuDeviceGetName, "cuDeviceGetName")                                                                                \
  X(cuDeviceGetUuid, "cuDeviceGetUuid_v2")                                                                             \
  X(cuDeviceGetAttribute, "cuDeviceGetAttribute")                                                                      \
  X(cuDeviceTotalMem, "cuDeviceTotalMem_v2")                                                                           \
  X(cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer")                                                                    \
  X(cuDeviceGetP2PAttribute, "cuDeviceGetP2PAttribute")                                                                \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")                                                              \
  X(cuCtxPushCurrent, "cuCtxPushCurrent_v2")                                                                           \
  X(cuCtxPopCurrent, "cuCtxPopCurrent_v2")                                                                             \
  X(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess")                                                                    \
  X(cuMemAlloc, "cuMemAlloc_v2")                                                                                       \
  X(cuMemFree, "cuMemFree_v2")                                                                                         \
  X(cuMemHostAlloc, "cuMemHostAlloc")                                                                                  \
  X(cuMemFreeHost, "cuMemFreeHost")                                                                                    \
  X(cuMemcpyAsync, "cuMemcpyAsync")                                                                                    \
  X(cuMemsetD8Async, "cuMemsetD8Async")                                                                                \
  X(cuMemGetAddressRange, "cuMemGetAddressRange_v2")                                                                   \
  X(cuPointerGetAttribute, "cuPointerGetAttribute")                                                                    \
  X(cuIpcGetMemHandle, "cuIpcGetMemHandle")                                                                            \
  X(cuIpcOpenMemHandle, "cuIpcOpenMemHandle_v2")                                                                       \
  X(cuIpcCloseMemHandle, "cuIpcCloseMemHandle")                                                                        \
  X(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity")                                                    \
  X(cuMemAddressReserve, "cuMemAddressReserve")                                                                        \
  X(cuMemAddressFree, "cuMemAddressFree")                                                                              \
  X(cuMemCreate, "cuMemCreate")                                                                                        \
  X(cuMemRelease, "cuMemRelease")                                                                                      \
  X(cuMemMap, "cuMemMap")                                                                                              \
  X(cuMemUnmap, "cuMemUnmap")                                                                                          \
  X(cuMemSetAccess, "cuMemSetAccess")                                                                                  \
  X(cuMemGetAccess, "cuMemGetAccess")                                                                                  \
  X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle")                                                        \
  X(cuMemExportToShareableHandle, "cuMemExportToShareableHandle")                                                      \
  X(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle")                                                  \
  X(cuStreamCreate, "cuStreamCreate")                                                                                  \
  X(cuStreamDestroy, "cuStreamDestroy_v2")                                                                             \
  X(cuStreamSynchronize, "cuStreamSynchronize")                                                                        \
  X(cuStreamIsCapturing, "cuStreamIsCapturing")                                                                        \
  X(cuStreamWaitEvent, "cuStreamWaitEvent")                                                                            \
  X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode")                                            \
  X(cuEventCreate, "cuEventCreate")                                                                                    \
  X(cuEventDestroy, "cuEventDestroy_v2")                                                                               \
  X(cuEventRecord, "cuEventRecord")                                                                                    \
  X(cuEventQuery, "cuEventQuery")                                                                                      \
  X(cuEventElapsedTime, "cuEventElapsedTime")                                                                          \
  X(cuModuleLoadData, "cuModuleLoadData")                                                                              \
  X(cuModuleUnload, "cuModuleUnload")                                                                                  \
  X(cuModuleGetFunction, "cuModuleGetFunction")                                                                        \
  X(cuFuncGetAttribute, "cuFuncGetAttribute")                                                                          \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor")                        \
  X(cuLaunchKernel, "cuLaunchKernel")                                                                                  \
  X(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel")

/// Null where the driver is older than they are.
#define KOLO_CUDA_LATER_FUNCTIONS(X) X(cuMemPoolGetAccess, "cuMemPoolGetAccess") /* CUDA 11.2 */

struct CudaApi {
#define KOLO_DECLARE(function, symbol) decltype(&::function) function = nullptr;
  KOLO_CUDA_FUNCTIONS(KOLO_DECLARE)
  KOLO_CUDA_LATER_FUNCTIONS(KOLO_DECLARE)
#undef KOLO_DECLARE
};
extern CudaApi cuda;

/// KOLO_DRIVER_OK for success; otherwise keeps the text that `what` failed, and returns its code.
int32_t check(CUresult result, const char *what);

/// KOLO_DRIVER_FAILED: the library or one of its functions is missing, or there is no device.
int32_t openCuda(const char *path, const char *management);

/// Whether the devices with these uuids, of 16 bytes, have NVLink between them, as NVIDIA's management library says. It
/// also knows devices that are invisible to this process. False: it does not say so, or there is none.
bool haveNvlink(const uint8_t *uuid, const uint8_t *peer);

/// Makes the device's primary context current for a scope. Contexts stay retained: modules and memory live in them.
class Current {
public:
  explicit Current(int32_t device);
  ~Current();
  Current(const Current &) = delete;
  Current &operator=(const Current &) = delete;
  /// KOLO_DRIVER_OK when the context is current. The caller checks this before it calls CUDA.
  int32_t status() const { return code; }

private:
  int32_t code;
};

/// Returns from the calling function with the code of a failed call.
#define KOLO_CUDA(function, ...)                                                                                       \
  if (int32_t code = check(cuda.function(__VA_ARGS__), #function); code != KOLO_DRIVER_OK)                             \
  return code
#define KOLO_CURRENT(device)                                                                                           \
  Current current(device);                                                                                             \
  if (current.status() != KOLO_DRIVER_OK)                                                                              \
  return current.status()

inline CUdeviceptr toDevice(const void *memory) { return reinterpret_cast<CUdeviceptr>(memory); }
inline void *fromDevice(CUdeviceptr memory) { return reinterpret_cast<void *>(memory); }
inline CUstream toStream(void *stream) { return static_cast<CUstream>(stream); }
inline CUevent toEvent(void *event) { return static_cast<CUevent>(event); }

// Memory; see KoloDeviceDriver. In CudaMemory.cpp.
int32_t allocate(int32_t device, int32_t kind, uint64_t sizeBytes, void **memory);
int32_t release(int32_t device, int32_t kind, void *memory);
int32_t locate(int32_t device, const void *address, KoloDriverRange *range);
int32_t isOpenTo(int32_t device, const void *address, int32_t peer, int32_t *answer);
int32_t share(int32_t device, void *base, KoloDriverHandle *handle);
int32_t unshare(int32_t device, const KoloDriverHandle *handle);
int32_t openShared(int32_t device, const KoloDriverHandle *handle, void **memory);
int32_t closeShared(int32_t device, const KoloDriverHandle *handle, void *memory);

// Memory of the virtual memory interface, in CudaVirtual.cpp. The context must be current.
int32_t allocateVirtual(int32_t device, uint64_t sizeBytes, void **memory);
int32_t releaseVirtual(void *memory);
/// Whether `base` is such memory; if so, it also makes the handle.
bool shareVirtual(void *base, KoloDriverHandle *handle, int32_t *code);
void unshareVirtual(const KoloDriverHandle *handle);
int32_t openVirtual(int32_t device, const KoloDriverHandle *handle, void **memory);

} // namespace kolo::device
