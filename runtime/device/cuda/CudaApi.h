// CudaApi: the functions of the CUDA driver that libkolo_cuda calls, which it looks up in libcuda when it opens that
// library; and Cuda, which names them for VendorDriver.
#pragma once

#include "device/VendorDriver.h"

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
  X(cuMemHostRegister, "cuMemHostRegister_v2")                                                                         \
  X(cuMemHostUnregister, "cuMemHostUnregister")                                                                        \
  X(cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2")                                                         \
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
#define KOLO_CUDA_LATER_FUNCTIONS(X)                                                                                   \
  X(cuMemPoolGetAccess, "cuMemPoolGetAccess")                       /* CUDA 11.2 */                                    \
  X(cuFlushGPUDirectRDMAWrites, "cuFlushGPUDirectRDMAWrites")       /* CUDA 11.3 */                                    \
  X(cuMemGetHandleForAddressRange, "cuMemGetHandleForAddressRange") /* CUDA 11.7 */

struct CudaApi {
#define KOLO_DECLARE(function, symbol) decltype(&::function) function = nullptr;
  KOLO_CUDA_FUNCTIONS(KOLO_DECLARE)
  KOLO_CUDA_LATER_FUNCTIONS(KOLO_DECLARE)
#undef KOLO_DECLARE
};

/// Whether the devices with these uuids, of 16 bytes, have NVLink between them, as NVIDIA's management library says. It
/// also knows devices that are invisible to this process. False: it does not say so, or there is none.
bool haveNvlink(const uint8_t *uuid, const uint8_t *peer);

/// Makes the device's primary context current for a scope. Contexts stay retained: modules and memory live in them.
class CudaContext {
public:
  explicit CudaContext(int32_t device);
  ~CudaContext();
  CudaContext(const CudaContext &) = delete;
  CudaContext &operator=(const CudaContext &) = delete;
  /// KOLO_DRIVER_OK when the context is current. The caller checks this before it calls CUDA.
  int32_t status() const { return code; }

private:
  int32_t code;
};

struct Cuda {
  using Api = CudaApi;
  using Result = CUresult;
  using Current = CudaContext;
  using Pointer = CUdeviceptr;
  using AllocationId = unsigned long long;
  using IpcHandle = CUipcMemHandle;
  using Stream = CUstream;
  using Event = CUevent;
  using Module = CUmodule;
  using Kernel = CUfunction;
  using CaptureStatus = CUstreamCaptureStatus;
  using CaptureMode = CUstreamCaptureMode;

  static constexpr const char *deviceKind = "cuda", *usualPath = "libcuda.so.1";
  static constexpr const char *cannotBeLoaded = "the CUDA driver cannot be loaded";
  static constexpr uint32_t acceptsForeignMemory = 1;
  static constexpr Result success = CUDA_SUCCESS, notReady = CUDA_ERROR_NOT_READY;
  static constexpr Result outOfMemory = CUDA_ERROR_OUT_OF_MEMORY;
  static constexpr auto allocationId = CU_POINTER_ATTRIBUTE_BUFFER_ID;
  static constexpr auto maxThreads = CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
  static constexpr unsigned int enablesPeers = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;
  static constexpr unsigned int forAllDevices = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  static constexpr unsigned int nonBlocking = CU_STREAM_NON_BLOCKING;
  static constexpr unsigned int timed = CU_EVENT_DEFAULT, untimed = CU_EVENT_DISABLE_TIMING;
  static constexpr CaptureStatus noCapture = CU_STREAM_CAPTURE_STATUS_NONE;
  static constexpr CaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

  static constexpr VendorFunction initialize{&CudaApi::cuInit, "cuInit"};
  static constexpr VendorFunction countDevices{&CudaApi::cuDeviceGetCount, "cuDeviceGetCount"};
  static constexpr VendorFunction pointerAttribute{&CudaApi::cuPointerGetAttribute, "cuPointerGetAttribute"};
  static constexpr VendorFunction addressRange{&CudaApi::cuMemGetAddressRange, "cuMemGetAddressRange"};
  static constexpr VendorFunction getIpcHandle{&CudaApi::cuIpcGetMemHandle, "cuIpcGetMemHandle"};
  static constexpr VendorFunction openIpcHandle{&CudaApi::cuIpcOpenMemHandle, "cuIpcOpenMemHandle"};
  static constexpr VendorFunction closeIpcHandle{&CudaApi::cuIpcCloseMemHandle, "cuIpcCloseMemHandle"};
  static constexpr VendorFunction registerHost{&CudaApi::cuMemHostRegister, "cuMemHostRegister"};
  static constexpr VendorFunction unregisterHost{&CudaApi::cuMemHostUnregister, "cuMemHostUnregister"};
  static constexpr VendorFunction hostAddress{&CudaApi::cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer"};
  static constexpr VendorFunction setBytes{&CudaApi::cuMemsetD8Async, "cuMemsetD8Async"};
  static constexpr VendorFunction createStream{&CudaApi::cuStreamCreate, "cuStreamCreate"};
  static constexpr VendorFunction destroyStream{&CudaApi::cuStreamDestroy, "cuStreamDestroy"};
  static constexpr VendorFunction synchronizeStream{&CudaApi::cuStreamSynchronize, "cuStreamSynchronize"};
  static constexpr VendorFunction captureStatus{&CudaApi::cuStreamIsCapturing, "cuStreamIsCapturing"};
  static constexpr VendorFunction exchangeCaptureMode{&CudaApi::cuThreadExchangeStreamCaptureMode,
                                                      "cuThreadExchangeStreamCaptureMode"};
  static constexpr VendorFunction createEvent{&CudaApi::cuEventCreate, "cuEventCreate"};
  static constexpr VendorFunction destroyEvent{&CudaApi::cuEventDestroy, "cuEventDestroy"};
  static constexpr VendorFunction recordEvent{&CudaApi::cuEventRecord, "cuEventRecord"};
  static constexpr VendorFunction queryEvent{&CudaApi::cuEventQuery, "cuEventQuery"};
  static constexpr VendorFunction waitForEvent{&CudaApi::cuStreamWaitEvent, "cuStreamWaitEvent"};
  static constexpr VendorFunction elapsed{&CudaApi::cuEventElapsedTime, "cuEventElapsedTime"};
  static constexpr VendorFunction loadModule{&CudaApi::cuModuleLoadData, "cuModuleLoadData"};
  static constexpr VendorFunction unloadModule{&CudaApi::cuModuleUnload, "cuModuleUnload"};
  static constexpr VendorFunction findKernel{&CudaApi::cuModuleGetFunction, "cuModuleGetFunction"};
  static constexpr VendorFunction kernelAttribute{&CudaApi::cuFuncGetAttribute, "cuFuncGetAttribute"};
  static constexpr VendorFunction residentBlocks{&CudaApi::cuOccupancyMaxActiveBlocksPerMultiprocessor,
                                                 "cuOccupancyMaxActiveBlocksPerMultiprocessor"};
  static constexpr VendorFunction launch{&CudaApi::cuLaunchKernel, "cuLaunchKernel"};
  static constexpr VendorFunction launchTogether{&CudaApi::cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel"};

  static Pointer toDevice(const void *memory) { return reinterpret_cast<Pointer>(memory); }
  static void *fromDevice(Pointer memory) { return reinterpret_cast<void *>(memory); }

  // CudaApi.cpp.
  static inline CudaApi api;
  static const char *textOf(Result result);
  static bool isBadImage(Result result);
  static void setManagement(const char *path);
  /// Null, or the name of a function that the library lacks.
  static const char *findFunctions(void *library);

  // CudaDriver.cpp. The context must be current for `describe`.
  static int32_t describe(int32_t device, KoloDriverDevice *description);
  static int32_t countMultiprocessors(int32_t device, int32_t *number);
  static int32_t enablePeer(int32_t device, int32_t peer);
  static int32_t keepsLines(int32_t device, const uint8_t *uuid, int32_t *answer);
  static int32_t flushAccesses(int32_t device);
  static int32_t copy(int32_t device, void *dst, const void *src, uint64_t sizeBytes, void *stream);

  // CudaMemory.cpp. `findOwner` gives the device of an address.
  static int32_t allocate(int32_t device, int32_t kind, uint64_t sizeBytes, void **memory);
  static int32_t release(int32_t device, int32_t kind, void *memory);
  static int32_t findOwner(Pointer address, int32_t *device);
  static int32_t isOpenTo(int32_t device, const void *address, int32_t peer, int32_t *answer);
  static int32_t share(int32_t device, void *base, KoloDriverHandle *handle);
  static int32_t unshare(int32_t device, const KoloDriverHandle *handle);
  static int32_t openShared(int32_t device, const KoloDriverHandle *handle, void **memory);
  static int32_t closeShared(int32_t device, const KoloDriverHandle *handle, void *memory);
  static int32_t exportMemory(int32_t device, void *memory, uint64_t sizeBytes, int32_t *fd);
};

/// Returns from the calling function with the code of a failed call.
#define KOLO_CUDA(function, ...) KOLO_TRY(check<Cuda>(Cuda::api.function(__VA_ARGS__), #function))

inline int32_t check(CUresult result, const char *what) { return check<Cuda>(result, what); }

// Memory of the virtual memory interface, in CudaVirtual.cpp. The context must be current.
int32_t allocateVirtual(int32_t device, uint64_t sizeBytes, void **memory);
int32_t releaseVirtual(void *memory);
/// Whether `base` is such memory; if so, it also makes the handle.
bool shareVirtual(void *base, KoloDriverHandle *handle, int32_t *code);
void unshareVirtual(const KoloDriverHandle *handle);
int32_t openVirtual(int32_t device, const KoloDriverHandle *handle, void **memory);

} // namespace kolo::device
