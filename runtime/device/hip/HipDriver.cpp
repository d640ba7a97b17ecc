// libkolo_hip.so: KoloDeviceDriver by HIP.
#include "base/Variable.h"
#include "device/hip/HipApi.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace kolo::device {
namespace {

int32_t countDevices(int32_t *number) {
  KOLO_HIP(hipGetDeviceCount, number);
  return KOLO_DRIVER_OK;
}

int32_t openDevice(int32_t device, KoloDriverDevice *description) {
  int count = 0;
  KOLO_HIP(hipGetDeviceCount, &count);
  if (device < 0 || device >= count)
    return fail(KOLO_DRIVER_BAD_ARGUMENT, ("device " + std::to_string(device)).c_str(),
                ("there are " + std::to_string(count)).c_str());
  KOLO_CURRENT(device);
  hipDeviceProp_t properties = {};
  KOLO_HIP(hipGetDeviceProperties, &properties, device);
  hipDevice_t handle = 0;
  KOLO_HIP(hipDeviceGet, &handle, device);
  hipUUID uuid = {};
  KOLO_HIP(hipDeviceGetUuid, &uuid, handle);
  *description = {};
  std::snprintf(description->name, sizeof(description->name), "%s", properties.name);
  std::snprintf(description->architecture, sizeof(description->architecture), "%s", properties.gcnArchName);
  static_assert(sizeof(uuid.bytes) == sizeof(description->uuid));
  std::memcpy(description->uuid, uuid.bytes, sizeof(description->uuid));
  description->memoryBytes = properties.totalGlobalMem;
  description->numMultiprocessors = properties.multiProcessorCount;
  const char *queues = runtime::variable("GPU_MAX_HW_QUEUES");
  constexpr int32_t usual = 4;
  int32_t asked = queues ? std::atoi(queues) : usual;
  description->numQueues = asked >= 1 ? asked : usual;
  description->canLaunchTogether = properties.cooperativeLaunch && hip.launchTogether;
  return KOLO_DRIVER_OK; // this library allocates no virtual memory
}

int32_t enablePeer(int32_t device, int32_t peer) {
  KOLO_CURRENT(device);
  hipError_t result = hip.hipDeviceEnablePeerAccess(peer, 0);
  return result == hipErrorPeerAccessAlreadyEnabled ? int32_t(KOLO_DRIVER_OK)
                                                    : check(result, "hipDeviceEnablePeerAccess");
}

/// No code for AMD devices uses LL128.
int32_t keepsLines(int32_t, const uint8_t *, int32_t *answer) {
  *answer = 0;
  return KOLO_DRIVER_OK;
}

int32_t copy(int32_t device, void *dst, const void *src, uint64_t sizeBytes, void *stream) {
  KOLO_CURRENT(device);
  KOLO_HIP(hipMemcpyAsync, dst, src, sizeBytes, hipMemcpyDefault, static_cast<hipStream_t>(stream));
  return KOLO_DRIVER_OK;
}

int32_t clear(int32_t device, void *dst, uint64_t sizeBytes, void *stream) {
  KOLO_CURRENT(device);
  KOLO_HIP(hipMemsetAsync, dst, 0, sizeBytes, static_cast<hipStream_t>(stream));
  return KOLO_DRIVER_OK;
}

int32_t createStream(int32_t device, void **stream) {
  KOLO_CURRENT(device);
  hipStream_t made = nullptr;
  KOLO_HIP(hipStreamCreateWithFlags, &made, hipStreamNonBlocking);
  *stream = made;
  return KOLO_DRIVER_OK;
}

int32_t destroyStream(int32_t device, void *stream) {
  KOLO_CURRENT(device);
  KOLO_HIP(hipStreamDestroy, static_cast<hipStream_t>(stream));
  return KOLO_DRIVER_OK;
}

int32_t waitForStream(int32_t device, void *stream) {
  KOLO_CURRENT(device);
  KOLO_HIP(hipStreamSynchronize, static_cast<hipStream_t>(stream));
  return KOLO_DRIVER_OK;
}

int32_t isCapturing(int32_t device, void *stream, int32_t *answer) {
  KOLO_CURRENT(device);
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  KOLO_HIP(hipStreamIsCapturing, static_cast<hipStream_t>(stream), &status);
  *answer = status != hipStreamCaptureStatusNone;
  return KOLO_DRIVER_OK;
}

int32_t enterRelaxed(int32_t *mode) {
  hipStreamCaptureMode exchanged = hipStreamCaptureModeRelaxed;
  KOLO_HIP(hipThreadExchangeStreamCaptureMode, &exchanged);
  *mode = exchanged;
  return KOLO_DRIVER_OK;
}

int32_t leaveRelaxed(int32_t mode) {
  auto exchanged = static_cast<hipStreamCaptureMode>(mode);
  KOLO_HIP(hipThreadExchangeStreamCaptureMode, &exchanged);
  return KOLO_DRIVER_OK;
}

int32_t createEvent(int32_t device, int32_t isTimed, void **event) {
  KOLO_CURRENT(device);
  hipEvent_t made = nullptr;
  KOLO_HIP(hipEventCreateWithFlags, &made, isTimed ? hipEventDefault : hipEventDisableTiming);
  *event = made;
  return KOLO_DRIVER_OK;
}

int32_t destroyEvent(int32_t device, void *event) {
  KOLO_CURRENT(device);
  KOLO_HIP(hipEventDestroy, static_cast<hipEvent_t>(event));
  return KOLO_DRIVER_OK;
}

int32_t recordEvent(int32_t device, void *event, void *stream) {
  KOLO_CURRENT(device);
  KOLO_HIP(hipEventRecord, static_cast<hipEvent_t>(event), static_cast<hipStream_t>(stream));
  return KOLO_DRIVER_OK;
}

int32_t queryEvent(int32_t device, void *event) {
  KOLO_CURRENT(device);
  KOLO_HIP(hipEventQuery, static_cast<hipEvent_t>(event));
  return KOLO_DRIVER_OK;
}

int32_t waitForEvent(int32_t device, void *stream, void *event) {
  KOLO_CURRENT(device);
  KOLO_HIP(hipStreamWaitEvent, static_cast<hipStream_t>(stream), static_cast<hipEvent_t>(event), 0);
  return KOLO_DRIVER_OK;
}

int32_t elapsed(int32_t device, void *start, void *end, float *milliseconds) {
  KOLO_CURRENT(device);
  KOLO_HIP(hipEventElapsedTime, milliseconds, static_cast<hipEvent_t>(start), static_cast<hipEvent_t>(end));
  return KOLO_DRIVER_OK;
}

int32_t loadModule(int32_t device, const void *image, void **module) {
  KOLO_CURRENT(device);
  hipModule_t loaded = nullptr;
  KOLO_HIP(hipModuleLoadData, &loaded, image);
  *module = loaded;
  return KOLO_DRIVER_OK;
}

int32_t unloadModule(int32_t device, void *module) {
  KOLO_CURRENT(device);
  KOLO_HIP(hipModuleUnload, static_cast<hipModule_t>(module));
  return KOLO_DRIVER_OK;
}

int32_t findKernel(int32_t device, void *module, const char *name, KoloDriverKernel *kernel) {
  KOLO_CURRENT(device);
  hipFunction_t function = nullptr;
  KOLO_HIP(hipModuleGetFunction, &function, static_cast<hipModule_t>(module), name);
  // This also loads the code now. At the first launch, loading might wait for kernels that wait for this one.
  KOLO_HIP(hipFuncGetAttribute, &kernel->maxThreads, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
  kernel->handle = function;
  return KOLO_DRIVER_OK;
}

int32_t countResident(int32_t device, const KoloDriverKernel *kernel, uint32_t numThreads, int64_t *numBlocks) {
  KOLO_CURRENT(device);
  int perMultiprocessor = 0;
  KOLO_HIP(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, &perMultiprocessor,
           static_cast<hipFunction_t>(kernel->handle), static_cast<int>(numThreads), 0);
  hipDeviceProp_t properties = {};
  KOLO_HIP(hipGetDeviceProperties, &properties, device);
  *numBlocks = int64_t(perMultiprocessor) * properties.multiProcessorCount;
  return KOLO_DRIVER_OK;
}

int32_t launch(int32_t device, const KoloDriverLaunch *launch) {
  KOLO_CURRENT(device);
  auto function = static_cast<hipFunction_t>(launch->kernel->handle);
  auto stream = static_cast<hipStream_t>(launch->stream);
  const void *argument = launch->argument;
  void *arguments[] = {&argument};
  if (launch->isTogether)
    return check(
        hip.launchTogether(function, launch->gridX, launch->gridY, 1, launch->numThreads, 1, 1, 0, stream, arguments),
        "hipModuleLaunchCooperativeKernel");
  KOLO_HIP(hipModuleLaunchKernel, function, launch->gridX, launch->gridY, 1, launch->numThreads, 1, 1, 0, stream,
           arguments, nullptr);
  return KOLO_DRIVER_OK;
}

constexpr KoloDeviceDriver driver = {
    .version = KOLO_DEVICE_DRIVER_VERSION,
    .acceptsForeignMemory = 0,
    .kind = "hip",
    .lastError = lastError,
    .open = openHip,
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
