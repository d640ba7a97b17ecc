#include "device/OpenDevice.h"

#include "base/Error.h"
#include "base/OwnFolder.h"
#include "base/Variable.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <mutex>

namespace kolo::runtime {
namespace {

/// By DeviceKind.
struct Library {
  const char *file;
  const char *variable;   // names the vendor's library
  const char *management; // names the one that knows devices which are invisible here, if there is one
};
constexpr Library libraries[] = {{"libkolo_cuda.so", "KOLO_CUDA_DRIVER", "KOLO_NVML"},
                                 {"libkolo_hip.so", "KOLO_HIP_DRIVER", nullptr}};

Result<const KoloDeviceDriver *> load(const Library &library) {
  std::string path = ownFolder() + "/" + library.file;
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    return error(StatusCode::DeviceError, "no devices of this kind: {}", reason ? reason : path);
  }
  auto entry = reinterpret_cast<KoloDeviceDriverEntry>(dlsym(handle, KOLO_DEVICE_DRIVER_SYMBOL));
  const KoloDeviceDriver *driver = entry ? entry() : nullptr;
  if (!driver || driver->version != KOLO_DEVICE_DRIVER_VERSION) {
    dlclose(handle);
    return error(StatusCode::DeviceError, "{} is not of this version of the runtime", path);
  }
  return driver;
}

} // namespace

Result<const KoloDeviceDriver *> openDriver(DeviceKind kind) {
  static std::mutex mutex;
  static const KoloDeviceDriver *opened[std::size(libraries)] = {};
  auto index = static_cast<size_t>(kind);
  if (index >= std::size(libraries))
    return error(StatusCode::InvalidArgument, "{} is not a kind of device", index);
  std::scoped_lock lock(mutex);
  if (opened[index])
    return opened[index];
  Result<const KoloDeviceDriver *> driver = load(libraries[index]);
  if (!driver.isOk())
    return driver;
  const char *path = variable(libraries[index].variable);
  const char *management = libraries[index].management ? variable(libraries[index].management) : nullptr;
  if ((*driver)->open(path, management) != KOLO_DRIVER_OK)
    return error(StatusCode::DeviceError, "{}{}", path ? std::string(libraries[index].variable) + ": " : "",
                 (*driver)->lastError());
  opened[index] = *driver;
  return driver;
}

Result<std::shared_ptr<OpenDevice>> OpenDevice::open(DeviceKind kind, int ordinal) {
  Result<const KoloDeviceDriver *> driver = openDriver(kind);
  if (!driver.isOk())
    return driver.status();
  static std::mutex mutex;
  static std::map<std::pair<const KoloDeviceDriver *, int>, std::weak_ptr<OpenDevice>> opened;
  std::scoped_lock lock(mutex);
  std::weak_ptr<OpenDevice> &known = opened[{*driver, ordinal}];
  if (std::shared_ptr<OpenDevice> device = known.lock())
    return device;
  std::shared_ptr<OpenDevice> device(new OpenDevice(**driver, ordinal));
  if (Status status = device->status((*driver)->openDevice(ordinal, &device->properties), "opening it"); !status.isOk())
    return status;
  if (Status status = device->status((*driver)->createStream(ordinal, &device->stream), "making a stream");
      !status.isOk())
    return status;
  known = device;
  return device;
}

OpenDevice::~OpenDevice() {
  if (stream)
    (void)table->destroyStream(number, stream);
}

Status OpenDevice::status(int32_t code, std::string_view what) const {
  switch (code) {
  case KOLO_DRIVER_OK:
    return {};
  case KOLO_DRIVER_OUT_OF_MEMORY:
    return error(StatusCode::OutOfMemory, "{} device {}: {}: {}", table->kind, number, what, table->lastError());
  case KOLO_DRIVER_BAD_IMAGE:
    return error(StatusCode::BadPlugin, "{} device {}: {}: {}", table->kind, number, what, table->lastError());
  case KOLO_DRIVER_BAD_ARGUMENT:
  case KOLO_DRIVER_ELSEWHERE:
    return error(StatusCode::InvalidArgument, "{} device {}: {}: {}", table->kind, number, what, table->lastError());
  default:
    return error(StatusCode::DeviceError, "{} device {}: {}: {}", table->kind, number, what, table->lastError());
  }
}

Status OpenDevice::copy(void *dst, const void *src, size_t sizeBytes) const {
  if (sizeBytes == 0)
    return {};
  if (Status copied = status(table->copy(number, dst, src, sizeBytes, stream), "copying"); !copied.isOk())
    return copied;
  return status(table->waitForStream(number, stream), "copying");
}

Status OpenDevice::clear(void *dst, size_t sizeBytes) const {
  if (Status cleared = status(table->clear(number, dst, sizeBytes, stream), "clearing memory"); !cleared.isOk())
    return cleared;
  return status(table->waitForStream(number, stream), "clearing memory");
}

void OpenDevice::noteOwn(void *base, size_t sizeBytes) {
  std::scoped_lock lock(mutex);
  own[reinterpret_cast<uintptr_t>(base)] = sizeBytes;
}

void OpenDevice::forgetOwn(void *base) {
  std::scoped_lock lock(mutex);
  own.erase(reinterpret_cast<uintptr_t>(base));
}

size_t OpenDevice::leftInOwn(const void *address) const {
  std::scoped_lock lock(mutex);
  auto after = own.upper_bound(reinterpret_cast<uintptr_t>(address));
  if (after == own.begin())
    return 0;
  auto [base, sizeBytes] = *std::prev(after);
  size_t offset = reinterpret_cast<uintptr_t>(address) - base;
  return offset < sizeBytes ? sizeBytes - offset : 0;
}

Result<DeviceMemory> DeviceMemory::allocate(std::shared_ptr<OpenDevice> device, KoloMemoryKind kind, size_t sizeBytes) {
  DeviceMemory memory;
  int32_t code = device->driver().allocate(device->ordinal(), kind, sizeBytes, &memory.base);
  if (code != KOLO_DRIVER_OK)
    return device->status(code, fmt::format("allocating {} bytes", sizeBytes));
  memory.owner = std::move(device);
  memory.memoryKind = kind;
  memory.size = sizeBytes;
  if (kind == KOLO_MEMORY_HOST)
    std::memset(memory.base, 0, sizeBytes);
  if (kind == KOLO_MEMORY_SHARED || kind == KOLO_MEMORY_VIRTUAL)
    memory.owner->noteOwn(memory.base, sizeBytes);
  return memory;
}

DeviceMemory::~DeviceMemory() {
  if (!base)
    return;
  owner->forgetOwn(base);
  (void)owner->driver().release(owner->ordinal(), memoryKind, base);
}

void DeviceMemory::swap(DeviceMemory &other) noexcept {
  std::swap(owner, other.owner);
  std::swap(memoryKind, other.memoryKind);
  std::swap(base, other.base);
  std::swap(size, other.size);
}

Result<DeviceEvent> DeviceEvent::create(std::shared_ptr<OpenDevice> device, Timing timing) {
  DeviceEvent made;
  int32_t code = device->driver().createEvent(device->ordinal(), timing == Timing::Timed, &made.event);
  Status status = device->status(code, "making an event");
  if (!status.isOk())
    return status;
  made.owner = std::move(device);
  return made;
}

DeviceEvent::~DeviceEvent() {
  if (event)
    (void)owner->driver().destroyEvent(owner->ordinal(), event);
}

Status DeviceEvent::record(void *stream) const {
  return owner->status(owner->driver().recordEvent(owner->ordinal(), event, stream), "recording an event");
}

Result<bool> DeviceEvent::isDone() const {
  int32_t code = owner->driver().queryEvent(owner->ordinal(), event);
  if (code == KOLO_DRIVER_NOT_READY)
    return false;
  if (Status status = owner->status(code, "waiting for what was launched"); !status.isOk())
    return status;
  return true;
}

} // namespace kolo::runtime
