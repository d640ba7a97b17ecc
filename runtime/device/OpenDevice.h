// OpenDevice and what belongs to one: memory, events, a stream. Calls of the driver, with Statuses.
#pragma once

#include "device/DeviceDriver.h"
#include "kolo/runtime/Device.h"

#include <map>
#include <memory>
#include <mutex>
#include <string_view>

namespace kolo::runtime {

class OpenDevice {
public:
  /// DeviceError, InvalidArgument (no such device).
  static Result<std::shared_ptr<OpenDevice>> open(DeviceKind kind, int ordinal);
  ~OpenDevice();
  OpenDevice(const OpenDevice &) = delete;
  OpenDevice &operator=(const OpenDevice &) = delete;

  const KoloDeviceDriver &driver() const { return *table; }
  int ordinal() const { return number; }
  const KoloDriverDevice &description() const { return properties; }

  /// What a driver's code means; `what` was being done.
  Status status(int32_t code, std::string_view what) const;

  /// Blocking, on a stream that waits for no other.
  Status copy(void *dst, const void *src, size_t sizeBytes) const;
  Status clear(void *dst, size_t sizeBytes) const;

  /// Memory that peers can use, allocated here: noted, looked up, forgotten. From any thread.
  void noteOwn(void *base, size_t sizeBytes);
  void forgetOwn(void *base);
  bool isOwn(const void *address) const;

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

  /// Contents are undefined, and those of the host's memory zero. OutOfMemory, DeviceError.
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

  static Result<DeviceEvent> create(std::shared_ptr<OpenDevice> device);
  Status record(void *stream) const;
  /// Whether all that it was last recorded after is done.
  Result<bool> isDone() const;
  void *handle() const { return event; }

private:
  std::shared_ptr<OpenDevice> owner;
  void *event = nullptr;
};

} // namespace kolo::runtime
