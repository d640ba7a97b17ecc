// libkolo_cuda.so: KoloDeviceDriver by the CUDA driver API.
#include "base/Variable.h"
#include "device/cuda/CudaApi.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace kolo::device {
namespace {

int32_t attribute(CUdevice_attribute which, CUdevice device, int32_t *value) {
  return check(cuda.cuDeviceGetAttribute(value, which, device), "cuDeviceGetAttribute");
}

int32_t countDevices(int32_t *number) {
  KOLO_CUDA(cuDeviceGetCount, number);
  return KOLO_DRIVER_OK;
}

int32_t describe(CUdevice device, KoloDriverDevice *description) {
  *description = {};
  KOLO_CUDA(cuDeviceGetName, description->name, sizeof(description->name), device);
  CUuuid uuid = {};
  KOLO_CUDA(cuDeviceGetUuid, &uuid, device);
  std::memcpy(description->uuid, uuid.bytes, sizeof(description->uuid));
  size_t memoryBytes = 0;
  KOLO_CUDA(cuDeviceTotalMem, &memoryBytes, device);
  description->memoryBytes = memoryBytes;
  int32_t major = 0, minor = 0;
  const struct {
    CUdevice_attribute which;
    int32_t *value;
  } wanted[] = {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
                {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
                {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &description->numMultiprocessors},
                {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, &description->canLaunchTogether},
                {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &description->hasVirtualMemory}};
  for (const auto &[which, value] : wanted)
    if (int32_t code = attribute(which, device, value); code != KOLO_DRIVER_OK)
      return code;
  // What streams share, as the driver reads the variable when it makes the device's context.
  const char *connections = runtime::variable("CUDA_DEVICE_MAX_CONNECTIONS");
  constexpr int32_t usual = 8, most = 32;
  int32_t asked = connections ? std::atoi(connections) : usual;
  description->numQueues = asked >= 1 && asked <= most ? asked : usual;
  std::snprintf(description->architecture, sizeof(description->architecture), "sm_%d%d", major, minor);
  return KOLO_DRIVER_OK;
}

int32_t openDevice(int32_t device, KoloDriverDevice *description) {
  int count = 0;
  KOLO_CUDA(cuDeviceGetCount, &count);
  if (device < 0 || device >= count)
    return fail(KOLO_DRIVER_BAD_ARGUMENT, ("device " + std::to_string(device)).c_str(),
                ("there are " + std::to_string(count)).c_str());
  KOLO_CURRENT(device);
  CUdevice handle = 0;
  KOLO_CUDA(cuDeviceGet, &handle, device);
  return describe(handle, description);
}

int32_t enablePeer(int32_t device, int32_t peer) {
  CUcontext theirs = nullptr;
  {
    KOLO_CURRENT(peer);
    KOLO_CUDA(cuCtxPopCurrent, &theirs);
    KOLO_CUDA(cuCtxPushCurrent, theirs);
  }
  KOLO_CURRENT(device);
  CUresult result = cuda.cuCtxEnablePeerAccess(theirs, 0);
  return result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED ? int32_t(KOLO_DRIVER_OK)
                                                          : check(result, "cuCtxEnablePeerAccess");
}

/// Lines arrive whole on the device itself and over NVLink. Native atomics between two devices show that they have
/// NVLink, because PCIe has none between devices. Of a device that is invisible to this process, as where each rank
/// sees one alone, the management library knows that.
int32_t keepsLines(int32_t device, const uint8_t *uuid, int32_t *answer) {
  *answer = 0;
  CUdevice own = 0;
  KOLO_CUDA(cuDeviceGet, &own, device);
  int count = 0;
  KOLO_CUDA(cuDeviceGetCount, &count);
  CUuuid mine = {};
  KOLO_CUDA(cuDeviceGetUuid, &mine, own);
  bool isVisible = false;
  for (int number = 0; number < count && !isVisible; ++number) {
    CUdevice peer = 0;
    KOLO_CUDA(cuDeviceGet, &peer, number);
    CUuuid theirs = {};
    KOLO_CUDA(cuDeviceGetUuid, &theirs, peer);
    if (std::memcmp(theirs.bytes, uuid, sizeof(theirs.bytes)) != 0)
      continue;
    isVisible = true;
    if (number == device)
      *answer = 1;
    else
      KOLO_CUDA(cuDeviceGetP2PAttribute, answer, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, own, peer);
  }
  if (!isVisible)
    *answer = haveNvlink(reinterpret_cast<const uint8_t *>(mine.bytes), uuid);
  return KOLO_DRIVER_OK;
}

int32_t copy(int32_t device, void *dst, const void *src, uint64_t sizeBytes, void *stream) {
  KOLO_CURRENT(device);
  KOLO_CUDA(cuMemcpyAsync, toDevice(dst), toDevice(src), sizeBytes, toStream(stream));
  return KOLO_DRIVER_OK;
}

int32_t clear(int32_t device, void *dst, uint64_t sizeBytes, void *stream) {
  KOLO_CURRENT(device);
  KOLO_CUDA(cuMemsetD8Async, toDevice(dst), 0, sizeBytes, toStream(stream));
  return KOLO_DRIVER_OK;
}

int32_t createStream(int32_t device, void **stream) {
  KOLO_CURRENT(device);
  CUstream made = nullptr;
  KOLO_CUDA(cuStreamCreate, &made, CU_STREAM_NON_BLOCKING);
  *stream = made;
  return KOLO_DRIVER_OK;
}

int32_t destroyStream(int32_t device, void *stream) {
  KOLO_CURRENT(device);
  KOLO_CUDA(cuStreamDestroy, toStream(stream));
  return KOLO_DRIVER_OK;
}

int32_t waitForStream(int32_t device, void *stream) {
  KOLO_CURRENT(device);
  KOLO_CUDA(cuStreamSynchronize, toStream(stream));
  return KOLO_DRIVER_OK;
}

int32_t isCapturing(int32_t device, void *stream, int32_t *answer) {
  KOLO_CURRENT(device);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  KOLO_CUDA(cuStreamIsCapturing, toStream(stream), &status);
  *answer = status != CU_STREAM_CAPTURE_STATUS_NONE;
  return KOLO_DRIVER_OK;
}

int32_t enterRelaxed(int32_t *mode) {
  CUstreamCaptureMode exchanged = CU_STREAM_CAPTURE_MODE_RELAXED;
  KOLO_CUDA(cuThreadExchangeStreamCaptureMode, &exchanged);
  *mode = exchanged;
  return KOLO_DRIVER_OK;
}

int32_t leaveRelaxed(int32_t mode) {
  auto exchanged = static_cast<CUstreamCaptureMode>(mode);
  KOLO_CUDA(cuThreadExchangeStreamCaptureMode, &exchanged);
  return KOLO_DRIVER_OK;
}

int32_t createEvent(int32_t device, int32_t isTimed, void **event) {
  KOLO_CURRENT(device);
  CUevent made = nullptr;
  KOLO_CUDA(cuEventCreate, &made, isTimed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
  *event = made;
  return KOLO_DRIVER_OK;
}

int32_t destroyEvent(int32_t device, void *event) {
  KOLO_CURRENT(device);
  KOLO_CUDA(cuEventDestroy, toEvent(event));
  return KOLO_DRIVER_OK;
}

int32_t recordEvent(int32_t device, void *event, void *stream) {
  KOLO_CURRENT(device);
  KOLO_CUDA(cuEventRecord, toEvent(event), toStream(stream));
  return KOLO_DRIVER_OK;
}

int32_t queryEvent(int32_t device, void *event) {
  KOLO_CURRENT(device);
  KOLO_CUDA(cuEventQuery, toEvent(event));
  return KOLO_DRIVER_OK;
}

int32_t waitForEvent(int32_t device, void *stream, void *event) {
  KOLO_CURRENT(device);
  KOLO_CUDA(cuStreamWaitEvent, toStream(stream), toEvent(event), CU_EVENT_WAIT_DEFAULT);
  return KOLO_DRIVER_OK;
}

int32_t elapsed(int32_t device, void *start, void *end, float *milliseconds) {
  KOLO_CURRENT(device);
  KOLO_CUDA(cuEventElapsedTime, milliseconds, toEvent(start), toEvent(end));
  return KOLO_DRIVER_OK;
}

int32_t loadModule(int32_t device, const void *image, void **module) {
  KOLO_CURRENT(device);
  CUmodule loaded = nullptr;
  KOLO_CUDA(cuModuleLoadData, &loaded, image);
  *module = loaded;
  return KOLO_DRIVER_OK;
}

int32_t unloadModule(int32_t device, void *module) {
  KOLO_CURRENT(device);
  KOLO_CUDA(cuModuleUnload, static_cast<CUmodule>(module));
  return KOLO_DRIVER_OK;
}

int32_t findKernel(int32_t device, void *module, const char *name, KoloDriverKernel *kernel) {
  KOLO_CURRENT(device);
  CUfunction function = nullptr;
  KOLO_CUDA(cuModuleGetFunction, &function, static_cast<CUmodule>(module), name);
  // This also loads the code now. At the first launch, loading might wait for kernels that wait for this one.
  KOLO_CUDA(cuFuncGetAttribute, &kernel->maxThreads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
  kernel->handle = function;
  return KOLO_DRIVER_OK;
}

int32_t countResident(int32_t device, const KoloDriverKernel *kernel, uint32_t numThreads, int64_t *numBlocks) {
  KOLO_CURRENT(device);
  int perMultiprocessor = 0;
  KOLO_CUDA(cuOccupancyMaxActiveBlocksPerMultiprocessor, &perMultiprocessor, static_cast<CUfunction>(kernel->handle),
            static_cast<int>(numThreads), 0);
  CUdevice handle = 0;
  KOLO_CUDA(cuDeviceGet, &handle, device);
  int32_t numMultiprocessors = 0;
  if (int32_t code = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, handle, &numMultiprocessors);
      code != KOLO_DRIVER_OK)
    return code;
  *numBlocks = int64_t(perMultiprocessor) * numMultiprocessors;
  return KOLO_DRIVER_OK;
}

int32_t launch(int32_t device, const KoloDriverLaunch *launch) {
  KOLO_CURRENT(device);
  auto function = static_cast<CUfunction>(launch->kernel->handle);
  const void *argument = launch->argument;
  void *arguments[] = {&argument};
  if (launch->isTogether) {
    KOLO_CUDA(cuLaunchCooperativeKernel, function, launch->gridX, launch->gridY, 1, launch->numThreads, 1, 1, 0,
              toStream(launch->stream), arguments);
    return KOLO_DRIVER_OK;
  }
  KOLO_CUDA(cuLaunchKernel, function, launch->gridX, launch->gridY, 1, launch->numThreads, 1, 1, 0,
            toStream(launch->stream), arguments, nullptr);
  return KOLO_DRIVER_OK;
}

constexpr KoloDeviceDriver driver = {
    .version = KOLO_DEVICE_DRIVER_VERSION,
    .acceptsForeignMemory = 1,
    .kind = "cuda",
    .lastError = lastError,
    .open = openCuda,
    .countDevices = countDevices,
    .openDevice = openDevice,
    .enablePeer = enablePeer,
    .keepsLines = keepsLines,
    .allocate = allocate,
    .release = release,
    .locate = locate,
    .isOpenTo = isOpenTo,
    .share = share,
    .unshare = unshare,
    .openShared = openShared,
    .closeShared = closeShared,
    .copy = copy,
    .clear = clear,
    .createStream = createStream,
    .destroyStream = destroyStream,
    .waitForStream = waitForStream,
    .isCapturing = isCapturing,
    .enterRelaxed = enterRelaxed,
    .leaveRelaxed = leaveRelaxed,
    .createEvent = createEvent,
    .destroyEvent = destroyEvent,
    .recordEvent = recordEvent,
    .queryEvent = queryEvent,
    .waitForEvent = waitForEvent,
    .elapsed = elapsed,
    .loadModule = loadModule,
    .unloadModule = unloadModule,
    .findKernel = findKernel,
    .countResident = countResident,
    .launch = launch,
};

} // namespace
} // namespace kolo::device

extern "C" __attribute__((visibility("default"))) const KoloDeviceDriver *kolo_device_driver() {
  return &kolo::device::driver;
}
