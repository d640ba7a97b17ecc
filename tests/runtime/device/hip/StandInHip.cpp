// A stand-in for HIP: the functions that libkolo_hip uses, by those of the stand-in for CUDA's driver. Devices are
// "gfx90a", and their code objects are what the stand-in driver runs.
#define __HIP_PLATFORM_AMD__
#define __HIP_DISABLE_CPP_FUNCTIONS__
#include <hip/hip_runtime_api.h>

#include <cuda.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#undef cuEventElapsedTime // the stand-in has the older one
extern "C" CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);

namespace {

thread_local int currentDevice = 0;
std::atomic<unsigned int> lastFlags = 0;
unsigned int hostDataPaths[16] = {}; // a register of each device, if it has one: KOLO_STANDIN_HDP

/// While it lives, the current device's context is current for the stand-in driver.
class OnDevice {
public:
  OnDevice() {
    CUcontext context = nullptr;
    cuDevicePrimaryCtxRetain(&context, currentDevice);
    cuCtxPushCurrent(context);
  }
  ~OnDevice() {
    CUcontext context = nullptr;
    cuCtxPopCurrent(&context);
  }
  OnDevice(const OnDevice &) = delete;
  OnDevice &operator=(const OnDevice &) = delete;
};

hipError_t toHip(CUresult result) {
  switch (result) {
  case CUDA_SUCCESS:
    return hipSuccess;
  case CUDA_ERROR_OUT_OF_MEMORY:
    return hipErrorOutOfMemory;
  case CUDA_ERROR_NOT_READY:
    return hipErrorNotReady;
  case CUDA_ERROR_INVALID_PTX:
  case CUDA_ERROR_INVALID_IMAGE:
  case CUDA_ERROR_NO_BINARY_FOR_GPU:
  case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    return hipErrorInvalidImage;
  case CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED:
    return hipErrorPeerAccessAlreadyEnabled;
  default:
    return hipErrorInvalidValue;
  }
}

template <class Call> hipError_t onDevice(Call call) {
  OnDevice on;
  return toHip(call());
}

CUdeviceptr toCuda(const void *address) { return reinterpret_cast<CUdeviceptr>(address); }
CUstream toCuda(hipStream_t stream) { return reinterpret_cast<CUstream>(stream); }
CUevent toCuda(hipEvent_t event) { return reinterpret_cast<CUevent>(event); }
CUmodule toCuda(hipModule_t module) { return reinterpret_cast<CUmodule>(module); }
CUfunction toCuda(hipFunction_t function) { return reinterpret_cast<CUfunction>(function); }

hipError_t allocate(void **memory, size_t sizeBytes) {
  return onDevice([&] { return cuMemAlloc(reinterpret_cast<CUdeviceptr *>(memory), sizeBytes); });
}

} // namespace

extern "C" {

hipError_t hipInit(unsigned int) { return toHip(cuInit(0)); }
const char *hipGetErrorString(hipError_t) { return "an error of the stand-in for HIP"; }
hipError_t hipGetDeviceCount(int *count) { return toHip(cuDeviceGetCount(count)); }
hipError_t hipGetDevice(int *device) { return *device = currentDevice, hipSuccess; }
hipError_t hipSetDevice(int device) { return currentDevice = device, hipSuccess; }
hipError_t hipDeviceGet(hipDevice_t *handle, int device) { return toHip(cuDeviceGet(handle, device)); }

hipError_t hipGetDeviceProperties(hipDeviceProp_t *properties, int device) {
  *properties = {};
  cuDeviceGetName(properties->name, sizeof(properties->name), device);
  std::strcpy(properties->gcnArchName, "gfx90a:sramecc+:xnack-");
  properties->cooperativeLaunch = 1;
  properties->hdpMemFlushCntl = nullptr;
  if (const char *path = std::getenv("KOLO_STANDIN_HDP"); path && *path)
    properties->hdpMemFlushCntl = &hostDataPaths[device];
  cuDeviceTotalMem(&properties->totalGlobalMem, device);
  return toHip(
      cuDeviceGetAttribute(&properties->multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
}

hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device) {
  CUuuid own = {};
  CUresult result = cuDeviceGetUuid(&own, device);
  std::memcpy(uuid->bytes, own.bytes, sizeof(own.bytes));
  return toHip(result);
}

hipError_t hipDeviceEnablePeerAccess(int peer, unsigned int flags) {
  CUcontext context = nullptr;
  cuDevicePrimaryCtxRetain(&context, peer);
  return onDevice([&] { return cuCtxEnablePeerAccess(context, flags); });
}

hipError_t hipMalloc(void **memory, size_t sizeBytes) { return allocate(memory, sizeBytes); }
/// KOLO_STANDIN_UNCACHED=0: an older driver, or a device without such memory. KOLO_STANDIN_FINE=0: neither kind.
hipError_t hipExtMallocWithFlags(void **memory, size_t sizeBytes, unsigned int flags) {
  auto isOff = [](const char *name) { return std::getenv(name) && std::strcmp(std::getenv(name), "0") == 0; };
  constexpr unsigned int uncached = 3; // hipDeviceMallocUncached, which older headers lack
  if (isOff("KOLO_STANDIN_FINE") || (flags == uncached && isOff("KOLO_STANDIN_UNCACHED")))
    return hipErrorInvalidValue;
  lastFlags = flags;
  return allocate(memory, sizeBytes);
}
/// For tests: of the last allocation.
unsigned int standInFlags() { return lastFlags; }
/// For tests: what was stored to the device's register since the last call.
unsigned int standInHostDataPath(int device) {
  return __atomic_exchange_n(&hostDataPaths[device], 0u, __ATOMIC_SEQ_CST);
}
hipError_t hipFree(void *memory) {
  return onDevice([&] { return cuMemFree(toCuda(memory)); });
}
hipError_t hipHostMalloc(void **memory, size_t sizeBytes, unsigned int) {
  return onDevice([&] { return cuMemHostAlloc(memory, sizeBytes, CU_MEMHOSTALLOC_PORTABLE); });
}
hipError_t hipHostFree(void *memory) {
  return onDevice([&] { return cuMemFreeHost(memory); });
}
hipError_t hipHostRegister(void *memory, size_t sizeBytes, unsigned int flags) {
  if (flags != (hipHostRegisterPortable | hipHostRegisterMapped))
    return hipErrorInvalidValue;
  return onDevice(
      [&] { return cuMemHostRegister(memory, sizeBytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP); });
}
hipError_t hipHostUnregister(void *memory) {
  return onDevice([&] { return cuMemHostUnregister(memory); });
}
hipError_t hipHostGetDevicePointer(void **address, void *memory, unsigned int flags) {
  return onDevice([&] { return cuMemHostGetDevicePointer(reinterpret_cast<CUdeviceptr *>(address), memory, flags); });
}
hipError_t hipMemcpyAsync(void *dst, const void *src, size_t sizeBytes, hipMemcpyKind, hipStream_t stream) {
  return onDevice([&] { return cuMemcpyAsync(toCuda(dst), toCuda(src), sizeBytes, toCuda(stream)); });
}
hipError_t hipMemsetAsync(void *dst, int value, size_t sizeBytes, hipStream_t stream) {
  return onDevice(
      [&] { return cuMemsetD8Async(toCuda(dst), static_cast<unsigned char>(value), sizeBytes, toCuda(stream)); });
}
hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *sizeBytes, hipDeviceptr_t address) {
  return onDevice(
      [&] { return cuMemGetAddressRange(reinterpret_cast<CUdeviceptr *>(base), sizeBytes, toCuda(address)); });
}
hipError_t hipPointerGetAttribute(void *value, hipPointer_attribute attribute, hipDeviceptr_t address) {
  if (attribute == HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
    return toHip(cuPointerGetAttribute(value, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, toCuda(address)));
  if (attribute != HIP_POINTER_ATTRIBUTE_BUFFER_ID)
    return hipErrorInvalidValue;
  unsigned long long id = 0;
  CUresult result = cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, toCuda(address));
  *static_cast<unsigned int *>(value) = static_cast<unsigned int>(id);
  return toHip(result);
}

hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *memory) {
  CUipcMemHandle own = {};
  CUresult result = cuIpcGetMemHandle(&own, toCuda(memory));
  std::memcpy(handle, &own, sizeof(own));
  return toHip(result);
}
hipError_t hipIpcOpenMemHandle(void **memory, hipIpcMemHandle_t handle, unsigned int) {
  CUipcMemHandle own = {};
  std::memcpy(&own, &handle, sizeof(own));
  return onDevice([&] {
    return cuIpcOpenMemHandle(reinterpret_cast<CUdeviceptr *>(memory), own, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  });
}
hipError_t hipIpcCloseMemHandle(void *memory) {
  return onDevice([&] { return cuIpcCloseMemHandle(toCuda(memory)); });
}

hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned int flags) {
  return onDevice([&] { return cuStreamCreate(reinterpret_cast<CUstream *>(stream), flags); });
}
hipError_t hipStreamDestroy(hipStream_t stream) {
  return onDevice([&] { return cuStreamDestroy(toCuda(stream)); });
}
hipError_t hipStreamSynchronize(hipStream_t stream) {
  return onDevice([&] { return cuStreamSynchronize(toCuda(stream)); });
}
hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status) {
  CUstreamCaptureStatus own = CU_STREAM_CAPTURE_STATUS_NONE;
  hipError_t result = onDevice([&] { return cuStreamIsCapturing(toCuda(stream), &own); });
  *status = own == CU_STREAM_CAPTURE_STATUS_NONE ? hipStreamCaptureStatusNone : hipStreamCaptureStatusActive;
  return result;
}
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned int flags) {
  return onDevice([&] { return cuStreamWaitEvent(toCuda(stream), toCuda(event), flags); });
}
hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode) {
  auto own = static_cast<CUstreamCaptureMode>(*mode); // numbered alike
  CUresult result = cuThreadExchangeStreamCaptureMode(&own);
  *mode = static_cast<hipStreamCaptureMode>(own);
  return toHip(result);
}

hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags) {
  return onDevice([&] { return cuEventCreate(reinterpret_cast<CUevent *>(event), flags); });
}
hipError_t hipEventDestroy(hipEvent_t event) {
  return onDevice([&] { return cuEventDestroy(toCuda(event)); });
}
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  return onDevice([&] { return cuEventRecord(toCuda(event), toCuda(stream)); });
}
hipError_t hipEventQuery(hipEvent_t event) {
  return onDevice([&] { return cuEventQuery(toCuda(event)); });
}
hipError_t hipEventElapsedTime(float *milliseconds, hipEvent_t start, hipEvent_t end) {
  return toHip(cuEventElapsedTime(milliseconds, toCuda(start), toCuda(end)));
}

hipError_t hipModuleLoadData(hipModule_t *module, const void *image) {
  return onDevice([&] { return cuModuleLoadData(reinterpret_cast<CUmodule *>(module), image); });
}
hipError_t hipModuleUnload(hipModule_t module) {
  return onDevice([&] { return cuModuleUnload(toCuda(module)); });
}
hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name) {
  return onDevice([&] { return cuModuleGetFunction(reinterpret_cast<CUfunction *>(function), toCuda(module), name); });
}
hipError_t hipFuncGetAttribute(int *value, hipFunction_attribute attribute, hipFunction_t function) {
  return attribute == HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
             ? toHip(cuFuncGetAttribute(value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, toCuda(function)))
             : hipErrorInvalidValue;
}
hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *number, hipFunction_t function, int numThreads,
                                                              size_t sharedBytes) {
  return onDevice(
      [&] { return cuOccupancyMaxActiveBlocksPerMultiprocessor(number, toCuda(function), numThreads, sharedBytes); });
}
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned int gridX, unsigned int gridY, unsigned int gridZ,
                                 unsigned int blockX, unsigned int blockY, unsigned int blockZ,
                                 unsigned int sharedBytes, hipStream_t stream, void **arguments, void **extra) {
  return onDevice([&] {
    return cuLaunchKernel(toCuda(function), gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes, toCuda(stream),
                          arguments, extra);
  });
}
hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t function, unsigned int gridX, unsigned int gridY,
                                            unsigned int gridZ, unsigned int blockX, unsigned int blockY,
                                            unsigned int blockZ, unsigned int sharedBytes, hipStream_t stream,
                                            void **arguments) {
  return onDevice([&] {
    return cuLaunchCooperativeKernel(toCuda(function), gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes,
                                     toCuda(stream), arguments);
  });
}
}
