// HipApi: the functions of HIP that libkolo_hip calls, which it looks up in libamdhip64 when it opens that library; and
// Hip, which names them for VendorDriver.
#pragma once

#include "device/VendorDriver.h"

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
  X(hipHostRegister)                                                                                                   \
  X(hipHostUnregister)                                                                                                 \
  X(hipHostGetDevicePointer)                                                                                           \
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

/// Makes a device the thread's current one for a scope.
class HipCurrent {
public:
  explicit HipCurrent(int32_t device);
  ~HipCurrent();
  HipCurrent(const HipCurrent &) = delete;
  HipCurrent &operator=(const HipCurrent &) = delete;
  /// KOLO_DRIVER_OK when the device is current. The caller checks this before it calls HIP.
  int32_t status() const { return code; }

private:
  int32_t code;
  int before = 0;
};

struct Hip {
  using Api = HipApi;
  using Result = hipError_t;
  using Current = HipCurrent;
  using Pointer = hipDeviceptr_t;
  using AllocationId = unsigned int;
  using IpcHandle = hipIpcMemHandle_t;
  using Stream = hipStream_t;
  using Event = hipEvent_t;
  using Module = hipModule_t;
  using Kernel = hipFunction_t;
  using CaptureStatus = hipStreamCaptureStatus;
  using CaptureMode = hipStreamCaptureMode;

#define KOLO_TEXT(value) #value
#define KOLO_TEXT_OF(macro) KOLO_TEXT(macro)
  static constexpr const char *deviceKind = "hip";
  /// Of the version that the header is from: structs differ between versions.
  static constexpr const char *usualPath = "libamdhip64.so." KOLO_TEXT_OF(HIP_VERSION_MAJOR);
  static constexpr const char *cannotBeLoaded = "HIP cannot be loaded";
  static constexpr uint32_t acceptsForeignMemory = 0;
  static constexpr Result success = hipSuccess, notReady = hipErrorNotReady, outOfMemory = hipErrorOutOfMemory;
  static constexpr auto allocationId = HIP_POINTER_ATTRIBUTE_BUFFER_ID;
  static constexpr auto maxThreads = HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
  static constexpr unsigned int enablesPeers = hipIpcMemLazyEnablePeerAccess;
  static constexpr unsigned int forAllDevices = hipHostRegisterPortable | hipHostRegisterMapped;
  static constexpr unsigned int nonBlocking = hipStreamNonBlocking;
  static constexpr unsigned int timed = hipEventDefault, untimed = hipEventDisableTiming;
  static constexpr CaptureStatus noCapture = hipStreamCaptureStatusNone;
  static constexpr CaptureMode relaxed = hipStreamCaptureModeRelaxed;

  static constexpr VendorFunction initialize{&HipApi::hipInit, "hipInit"};
  static constexpr VendorFunction countDevices{&HipApi::hipGetDeviceCount, "hipGetDeviceCount"};
  static constexpr VendorFunction pointerAttribute{&HipApi::hipPointerGetAttribute, "hipPointerGetAttribute"};
  static constexpr VendorFunction addressRange{&HipApi::hipMemGetAddressRange, "hipMemGetAddressRange"};
  static constexpr VendorFunction getIpcHandle{&HipApi::hipIpcGetMemHandle, "hipIpcGetMemHandle"};
  static constexpr VendorFunction openIpcHandle{&HipApi::hipIpcOpenMemHandle, "hipIpcOpenMemHandle"};
  static constexpr VendorFunction closeIpcHandle{&HipApi::hipIpcCloseMemHandle, "hipIpcCloseMemHandle"};
  static constexpr VendorFunction registerHost{&HipApi::hipHostRegister, "hipHostRegister"};
  static constexpr VendorFunction unregisterHost{&HipApi::hipHostUnregister, "hipHostUnregister"};
  static constexpr VendorFunction hostAddress{&HipApi::hipHostGetDevicePointer, "hipHostGetDevicePointer"};
  static constexpr VendorFunction setBytes{&HipApi::hipMemsetAsync, "hipMemsetAsync"};
  static constexpr VendorFunction createStream{&HipApi::hipStreamCreateWithFlags, "hipStreamCreateWithFlags"};
  static constexpr VendorFunction destroyStream{&HipApi::hipStreamDestroy, "hipStreamDestroy"};
  static constexpr VendorFunction synchronizeStream{&HipApi::hipStreamSynchronize, "hipStreamSynchronize"};
  static constexpr VendorFunction captureStatus{&HipApi::hipStreamIsCapturing, "hipStreamIsCapturing"};
  static constexpr VendorFunction exchangeCaptureMode{&HipApi::hipThreadExchangeStreamCaptureMode,
                                                      "hipThreadExchangeStreamCaptureMode"};
  static constexpr VendorFunction createEvent{&HipApi::hipEventCreateWithFlags, "hipEventCreateWithFlags"};
  static constexpr VendorFunction destroyEvent{&HipApi::hipEventDestroy, "hipEventDestroy"};
  static constexpr VendorFunction recordEvent{&HipApi::hipEventRecord, "hipEventRecord"};
  static constexpr VendorFunction queryEvent{&HipApi::hipEventQuery, "hipEventQuery"};
  static constexpr VendorFunction waitForEvent{&HipApi::hipStreamWaitEvent, "hipStreamWaitEvent"};
  static constexpr VendorFunction elapsed{&HipApi::hipEventElapsedTime, "hipEventElapsedTime"};
  static constexpr VendorFunction loadModule{&HipApi::hipModuleLoadData, "hipModuleLoadData"};
  static constexpr VendorFunction unloadModule{&HipApi::hipModuleUnload, "hipModuleUnload"};
  static constexpr VendorFunction findKernel{&HipApi::hipModuleGetFunction, "hipModuleGetFunction"};
  static constexpr VendorFunction kernelAttribute{&HipApi::hipFuncGetAttribute, "hipFuncGetAttribute"};
  static constexpr VendorFunction residentBlocks{&HipApi::hipModuleOccupancyMaxActiveBlocksPerMultiprocessor,
                                                 "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor"};
  static constexpr VendorFunction launch{&HipApi::hipModuleLaunchKernel, "hipModuleLaunchKernel"};
  static constexpr VendorFunction launchTogether{&HipApi::launchTogether, "hipModuleLaunchCooperativeKernel"};

  static Pointer toDevice(const void *memory) { return const_cast<void *>(memory); }
  static void *fromDevice(Pointer memory) { return memory; }

  // HipApi.cpp.
  static inline HipApi api;
  static const char *textOf(Result result);
  static bool isBadImage(Result result);
  static void setManagement(const char *) {}
  /// Null, or the name of a function that the library lacks.
  static const char *findFunctions(void *library);

  // HipDriver.cpp. The device must be current for `describe`.
  static int32_t describe(int32_t device, KoloDriverDevice *description);
  static int32_t countMultiprocessors(int32_t device, int32_t *number);
  static int32_t enablePeer(int32_t device, int32_t peer);
  static int32_t keepsLines(int32_t device, const uint8_t *uuid, int32_t *answer);
  static int32_t flushAccesses(int32_t device);
  static int32_t copy(int32_t device, void *dst, const void *src, uint64_t sizeBytes, void *stream);

  // HipMemory.cpp. `findOwner` gives the device of an address.
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
#define KOLO_HIP(function, ...) KOLO_TRY(check<Hip>(Hip::api.function(__VA_ARGS__), #function))

} // namespace kolo::device
