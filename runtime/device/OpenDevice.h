// OpenDevice, DeviceMemory, DeviceEvent: one device, its memory and its events. They call the driver and return
// Statuses. Relaxed: for calls while a stream is captured.
#pragma once

#include "device/DeviceDriver.h"
#include "kolo/runtime/Device.h"

#include <map>
#include <memory>
#include <mutex>
#include <string_view>

namespace kolo::runtime {

/// Opens libkolo_cuda.so or libkolo_hip.so beside the runtime, and the vendor's library, when they are first used. Both
/// stay open until the process ends. DeviceError: a library is missing or cannot be used; the message says which and
/// why.
Result<const KoloDeviceDriver *> openDriver(DeviceKind kind);

class OpenDevice {
public:
  /// Communicators of a process share the object: its stream takes one of the device's hardware queues. DeviceError,
  /// InvalidArgument (no device has this ordinal).
  static Result<std::shared_ptr<OpenDevice>> open(DeviceKind kind, int ordinal);
  ~OpenDevice();
  OpenDevice(const OpenDevice &) = delete;
  OpenDevice &operator=(const OpenDevice &) = delete;

  const KoloDeviceDriver &driver() const { return *table; }
  int ordinal() const { return number; }
  const KoloDriverDevice &description() const { return properties; }

  /// The Status for a driver's code, with lastError. `what` names the operation.
  Status status(int32_t code, std::string_view what) const;

  /// Block until they are done, on a stream that waits for no other.
  Status copy(void *dst, const void *src, size_t sizeBytes) const;
  Status clear(void *dst, size_t sizeBytes) const;

  /// Memory that the runtime allocated for use by peers: note it, forget it, find it. Any thread may call them.
  void noteOwn(void *base, size_t sizeBytes);
  void forgetOwn(void *base);
  /// The bytes from an address to the end of such memory; 0: the address is in none.
  size_t leftInOwn(const void *address) const;

private:
  OpenDevice(const KoloDeviceDriver &driverTable, int deviceNumber) : table(&driverTable), number(deviceNumber) {}

  const KoloDeviceDriver *table;
  int number;
  KoloDriverDevice properties = {};
  void *stream = nullptr;
  mutable std::mutex mutex;
  std::map<uintptr_t, size_t> own; // size by base
};

/// Owns an allocation.
class DeviceMemory {
public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory &&other) noexcept { swap(other); }
  DeviceMemory &operator=(DeviceMemory &&other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory();

  /// Memory of the host is zeroed; other content is undefined. OutOfMemory, DeviceError.
  static Result<DeviceMemory> allocate(std::shared_ptr<OpenDevice> device, KoloMemoryKind kind, size_t sizeBytes);

  void *data() const { return base; }
  size_t sizeBytes() const { return size; }
  const OpenDevice &device() const { return *owner; }

private:
  void swap(DeviceMemory &other) noexcept;

  std::shared_ptr<OpenDevice> owner;
  KoloMemoryKind memoryKind = KOLO_MEMORY_PRIVATE;
  void *base = nullptr;
  size_t size = 0;
};

/// Owns an event.
class DeviceEvent {
public:
  DeviceEvent() = default;
  DeviceEvent(DeviceEvent &&other) noexcept
      : owner(std::move(other.owner)), event(std::exchange(other.event, nullptr)) {}
  DeviceEvent &operator=(DeviceEvent &&other) noexcept {
    std::swap(owner, other.owner);
    std::swap(event, other.event);
    return *this;
  }
  ~DeviceEvent();

  /// An event without a time takes the device less to record.
  enum class Timing : uint8_t { Untimed, Timed };
  static Result<DeviceEvent> create(std::shared_ptr<OpenDevice> device, Timing timing = Timing::Untimed);
  Status record(void *stream) const;
  /// Whether all work before the last `record` is done. Never blocks.
  Result<bool> isDone() const;
  void *handle() const { return event; }

private:
  std::shared_ptr<OpenDevice> owner;
  void *event = nullptr;
};

/// While one lives, a capture in this or another thread neither records nor forbids calls of the driver.
class Relaxed {
public:
  explicit Relaxed(const KoloDeviceDriver &table) : driver(table) {
    isRelaxed = driver.enterRelaxed(&mode) == KOLO_DRIVER_OK;
  }
  ~Relaxed() {
    if (isRelaxed)
      (void)driver.leaveRelaxed(mode);
  }
  Relaxed(const Relaxed &) = delete;
  Relaxed &operator=(const Relaxed &) = delete;

private:
  const KoloDeviceDriver &driver;
  int32_t mode = 0;
  bool isRelaxed = false;
};

} // namespace kolo::runtime
