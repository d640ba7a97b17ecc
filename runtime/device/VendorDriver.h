// VendorDriver: the functions of KoloDeviceDriver that are the same for every vendor but for names and types. Each
// driver library instantiates them for its Vendor, a struct that gives the names, and has the others itself.
#pragma once

#include "device/DriverError.h"

#include <dlfcn.h>

#include <cstring>
#include <mutex>

namespace kolo::device {

/// A function of the vendor's API, which the library looked up, and its name in errors.
template <class Api, class Pointer> struct VendorFunction {
  Pointer Api::*pointer;
  const char *name;
};

/// KOLO_DRIVER_OK for success; otherwise keeps the text that `what` failed, and returns its code.
template <class Vendor> int32_t check(typename Vendor::Result result, const char *what) {
  if (result == Vendor::success)
    return KOLO_DRIVER_OK;
  if (result == Vendor::notReady)
    return KOLO_DRIVER_NOT_READY;
  if (result == Vendor::outOfMemory)
    return fail(KOLO_DRIVER_OUT_OF_MEMORY, what, Vendor::textOf(result));
  return fail(Vendor::isBadImage(result) ? KOLO_DRIVER_BAD_IMAGE : KOLO_DRIVER_FAILED, what, Vendor::textOf(result));
}

template <class Vendor, class Pointer, class... Arguments>
int32_t call(VendorFunction<typename Vendor::Api, Pointer> function, Arguments... arguments) {
  return check<Vendor>((Vendor::api.*function.pointer)(arguments...), function.name);
}

/// Returns from the calling function with the code of a failed call.
#define KOLO_TRY(...)                                                                                                  \
  if (int32_t code = __VA_ARGS__; code != KOLO_DRIVER_OK)                                                              \
  return code
/// Makes a device current for a scope.
#define KOLO_CURRENT(Vendor, device)                                                                                   \
  typename Vendor::Current current(device);                                                                            \
  KOLO_TRY(current.status())

/// Calls with the device current.
template <class Vendor, class Pointer, class... Arguments>
int32_t callOn(int32_t device, VendorFunction<typename Vendor::Api, Pointer> function, Arguments... arguments) {
  KOLO_CURRENT(Vendor, device);
  return call<Vendor>(function, arguments...);
}

/// The same for a function that makes a handle.
template <class Vendor, class Handle, class Pointer, class Argument>
int32_t create(int32_t device, VendorFunction<typename Vendor::Api, Pointer> function, void **handle,
               Argument argument) {
  Handle made = nullptr;
  KOLO_TRY(callOn<Vendor>(device, function, &made, argument));
  *handle = made;
  return KOLO_DRIVER_OK;
}

/// Looks all functions up in the vendor's library.
template <class Vendor> int32_t load(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    return fail(KOLO_DRIVER_FAILED, Vendor::cannotBeLoaded, reason ? reason : path);
  }
  if (const char *missing = Vendor::findFunctions(library))
    return fail(KOLO_DRIVER_FAILED, path, (std::string("it has no ") + missing).c_str());
  return call<Vendor>(Vendor::initialize, 0u);
}

template <class Vendor> int32_t open(const char *path, const char *management) {
  static std::mutex mutex;
  static bool isOpen = false;
  std::scoped_lock lock(mutex);
  if (isOpen)
    return KOLO_DRIVER_OK;
  Vendor::setManagement(management);
  KOLO_TRY(load<Vendor>(path ? path : Vendor::usualPath));
  isOpen = true;
  return KOLO_DRIVER_OK;
}

template <class Vendor> int32_t countDevices(int32_t *number) { return call<Vendor>(Vendor::countDevices, number); }

template <class Vendor> int32_t openDevice(int32_t device, KoloDriverDevice *description) {
  int count = 0;
  KOLO_TRY(call<Vendor>(Vendor::countDevices, &count));
  if (device < 0 || device >= count)
    return fail(KOLO_DRIVER_BAD_ARGUMENT, ("device " + std::to_string(device)).c_str(),
                ("there are " + std::to_string(count)).c_str());
  KOLO_CURRENT(Vendor, device);
  *description = {};
  return Vendor::describe(device, description);
}

template <class Vendor> int32_t locate(int32_t device, const void *address, KoloDriverRange *range) {
  KOLO_CURRENT(Vendor, device);
  const typename Vendor::Pointer pointer = Vendor::toDevice(address);
  int ordinal = -1;
  KOLO_TRY(Vendor::findOwner(pointer, &ordinal));
  if (ordinal != device)
    return fail(KOLO_DRIVER_ELSEWHERE, "it", ("is memory of device " + std::to_string(ordinal)).c_str());
  typename Vendor::AllocationId id = 0;
  KOLO_TRY(call<Vendor>(Vendor::pointerAttribute, &id, Vendor::allocationId, pointer));
  typename Vendor::Pointer base = {};
  size_t sizeBytes = 0;
  KOLO_TRY(call<Vendor>(Vendor::addressRange, &base, &sizeBytes, pointer));
  *range = {Vendor::fromDevice(base), sizeBytes, id};
  return KOLO_DRIVER_OK;
}

/// `share`, `openShared` and `closeShared` of memory that has handles for other processes. The device must be current.
template <class Vendor> int32_t shareByHandle(void *base, KoloDriverHandle *handle) {
  typename Vendor::IpcHandle opaque = {};
  static_assert(sizeof(opaque) == sizeof(handle->bytes));
  KOLO_TRY(call<Vendor>(Vendor::getIpcHandle, &opaque, Vendor::toDevice(base)));
  *handle = {};
  handle->fd = -1;
  std::memcpy(handle->bytes, &opaque, sizeof(opaque));
  return KOLO_DRIVER_OK;
}
template <class Vendor> int32_t openByHandle(const KoloDriverHandle *handle, void **memory) {
  typename Vendor::IpcHandle opaque = {};
  std::memcpy(&opaque, handle->bytes, sizeof(opaque));
  typename Vendor::Pointer address = {};
  KOLO_TRY(call<Vendor>(Vendor::openIpcHandle, &address, opaque, Vendor::enablesPeers));
  *memory = Vendor::fromDevice(address);
  return KOLO_DRIVER_OK;
}
template <class Vendor> int32_t closeByHandle(void *memory) {
  return call<Vendor>(Vendor::closeIpcHandle, Vendor::toDevice(memory));
}

template <class Vendor> int32_t unregisterHost(int32_t device, void *memory) {
  return callOn<Vendor>(device, Vendor::unregisterHost, memory);
}
template <class Vendor> int32_t registerHost(int32_t device, void *memory, uint64_t sizeBytes, void **address) {
  KOLO_TRY(callOn<Vendor>(device, Vendor::registerHost, memory, static_cast<size_t>(sizeBytes), Vendor::forAllDevices));
  typename Vendor::Pointer mapped = {};
  if (int32_t code = callOn<Vendor>(device, Vendor::hostAddress, &mapped, memory, 0u); code != KOLO_DRIVER_OK) {
    const std::string why = lastErrorText;
    (void)unregisterHost<Vendor>(device, memory);
    lastErrorText = why;
    return code;
  }
  *address = Vendor::fromDevice(mapped);
  return KOLO_DRIVER_OK;
}

template <class Vendor> int32_t clear(int32_t device, void *dst, uint64_t sizeBytes, void *stream) {
  return callOn<Vendor>(device, Vendor::setBytes, Vendor::toDevice(dst), uint8_t{0}, sizeBytes,
                        static_cast<typename Vendor::Stream>(stream));
}

template <class Vendor> int32_t createStream(int32_t device, void **stream) {
  return create<Vendor, typename Vendor::Stream>(device, Vendor::createStream, stream, Vendor::nonBlocking);
}
template <class Vendor> int32_t destroyStream(int32_t device, void *stream) {
  return callOn<Vendor>(device, Vendor::destroyStream, static_cast<typename Vendor::Stream>(stream));
}
template <class Vendor> int32_t waitForStream(int32_t device, void *stream) {
  return callOn<Vendor>(device, Vendor::synchronizeStream, static_cast<typename Vendor::Stream>(stream));
}

template <class Vendor> int32_t isCapturing(int32_t device, void *stream, int32_t *answer) {
  typename Vendor::CaptureStatus status = Vendor::noCapture;
  KOLO_TRY(callOn<Vendor>(device, Vendor::captureStatus, static_cast<typename Vendor::Stream>(stream), &status));
  *answer = status != Vendor::noCapture;
  return KOLO_DRIVER_OK;
}
template <class Vendor> int32_t enterRelaxed(int32_t *mode) {
  typename Vendor::CaptureMode exchanged = Vendor::relaxed;
  KOLO_TRY(call<Vendor>(Vendor::exchangeCaptureMode, &exchanged));
  *mode = exchanged;
  return KOLO_DRIVER_OK;
}
template <class Vendor> int32_t leaveRelaxed(int32_t mode) {
  auto exchanged = static_cast<typename Vendor::CaptureMode>(mode);
  return call<Vendor>(Vendor::exchangeCaptureMode, &exchanged);
}

template <class Vendor> int32_t createEvent(int32_t device, int32_t isTimed, void **event) {
  return create<Vendor, typename Vendor::Event>(device, Vendor::createEvent, event,
                                                isTimed ? Vendor::timed : Vendor::untimed);
}
template <class Vendor> int32_t destroyEvent(int32_t device, void *event) {
  return callOn<Vendor>(device, Vendor::destroyEvent, static_cast<typename Vendor::Event>(event));
}
template <class Vendor> int32_t recordEvent(int32_t device, void *event, void *stream) {
  return callOn<Vendor>(device, Vendor::recordEvent, static_cast<typename Vendor::Event>(event),
                        static_cast<typename Vendor::Stream>(stream));
}
template <class Vendor> int32_t queryEvent(int32_t device, void *event) {
  return callOn<Vendor>(device, Vendor::queryEvent, static_cast<typename Vendor::Event>(event));
}
template <class Vendor> int32_t waitForEvent(int32_t device, void *stream, void *event) {
  return callOn<Vendor>(device, Vendor::waitForEvent, static_cast<typename Vendor::Stream>(stream),
                        static_cast<typename Vendor::Event>(event), 0u);
}
template <class Vendor> int32_t elapsed(int32_t device, void *start, void *end, float *milliseconds) {
  return callOn<Vendor>(device, Vendor::elapsed, milliseconds, static_cast<typename Vendor::Event>(start),
                        static_cast<typename Vendor::Event>(end));
}

template <class Vendor> int32_t loadModule(int32_t device, const void *image, void **module) {
  return create<Vendor, typename Vendor::Module>(device, Vendor::loadModule, module, image);
}
template <class Vendor> int32_t unloadModule(int32_t device, void *module) {
  return callOn<Vendor>(device, Vendor::unloadModule, static_cast<typename Vendor::Module>(module));
}

template <class Vendor> int32_t findKernel(int32_t device, void *module, const char *name, KoloDriverKernel *kernel) {
  KOLO_CURRENT(Vendor, device);
  typename Vendor::Kernel function = nullptr;
  KOLO_TRY(call<Vendor>(Vendor::findKernel, &function, static_cast<typename Vendor::Module>(module), name));
  // This also loads the code now. At the first launch, loading might wait for kernels that wait for this one.
  KOLO_TRY(call<Vendor>(Vendor::kernelAttribute, &kernel->maxThreads, Vendor::maxThreads, function));
  kernel->handle = function;
  return KOLO_DRIVER_OK;
}

template <class Vendor>
int32_t countResident(int32_t device, const KoloDriverKernel *kernel, uint32_t numThreads, int64_t *numBlocks) {
  KOLO_CURRENT(Vendor, device);
  int perMultiprocessor = 0;
  KOLO_TRY(call<Vendor>(Vendor::residentBlocks, &perMultiprocessor,
                        static_cast<typename Vendor::Kernel>(kernel->handle), static_cast<int>(numThreads), 0u));
  int32_t numMultiprocessors = 0;
  KOLO_TRY(Vendor::countMultiprocessors(device, &numMultiprocessors));
  *numBlocks = int64_t(perMultiprocessor) * numMultiprocessors;
  return KOLO_DRIVER_OK;
}

template <class Vendor> int32_t launch(int32_t device, const KoloDriverLaunch *launch) {
  auto function = static_cast<typename Vendor::Kernel>(launch->kernel->handle);
  auto stream = static_cast<typename Vendor::Stream>(launch->stream);
  const void *argument = launch->argument;
  void *arguments[] = {&argument};
  if (launch->isTogether)
    return callOn<Vendor>(device, Vendor::launchTogether, function, launch->gridX, launch->gridY, 1u,
                          launch->numThreads, 1u, 1u, 0u, stream, &arguments[0]);
  return callOn<Vendor>(device, Vendor::launch, function, launch->gridX, launch->gridY, 1u, launch->numThreads, 1u, 1u,
                        0u, stream, &arguments[0], nullptr);
}

/// The functions above, and those that the Vendor has itself.
template <class Vendor>
inline constexpr KoloDeviceDriver driverOf = {
    .version = KOLO_DEVICE_DRIVER_VERSION,
    .acceptsForeignMemory = Vendor::acceptsForeignMemory,
    .kind = Vendor::deviceKind,
    .lastError = lastError,
    .open = open<Vendor>,
    .countDevices = countDevices<Vendor>,
    .openDevice = openDevice<Vendor>,
    .enablePeer = Vendor::enablePeer,
    .keepsLines = Vendor::keepsLines,
    .allocate = Vendor::allocate,
    .release = Vendor::release,
    .locate = locate<Vendor>,
    .isOpenTo = Vendor::isOpenTo,
    .share = Vendor::share,
    .unshare = Vendor::unshare,
    .openShared = Vendor::openShared,
    .closeShared = Vendor::closeShared,
    .registerHost = registerHost<Vendor>,
    .unregisterHost = unregisterHost<Vendor>,
    .exportMemory = Vendor::exportMemory,
    .flushAccesses = Vendor::flushAccesses,
    .copy = Vendor::copy,
    .clear = clear<Vendor>,
    .createStream = createStream<Vendor>,
    .destroyStream = destroyStream<Vendor>,
    .waitForStream = waitForStream<Vendor>,
    .isCapturing = isCapturing<Vendor>,
    .enterRelaxed = enterRelaxed<Vendor>,
    .leaveRelaxed = leaveRelaxed<Vendor>,
    .createEvent = createEvent<Vendor>,
    .destroyEvent = destroyEvent<Vendor>,
    .recordEvent = recordEvent<Vendor>,
    .queryEvent = queryEvent<Vendor>,
    .waitForEvent = waitForEvent<Vendor>,
    .elapsed = elapsed<Vendor>,
    .loadModule = loadModule<Vendor>,
    .unloadModule = unloadModule<Vendor>,
    .findKernel = findKernel<Vendor>,
    .countResident = countResident<Vendor>,
    .launch = launch<Vendor>,
};

} // namespace kolo::device
