// ReachedMemory: memory of a device that a network's device reads and writes: inboxes and outboxes on several hosts.
#pragma once

#include "device/OpenDevice.h"
#include "network/Transport.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

namespace kolo::runtime {

class ReachedMemory {
public:
  ReachedMemory() = default;
  ReachedMemory(ReachedMemory &&other) noexcept
      : memory(std::move(other.memory)), dmaBuf(std::exchange(other.dmaBuf, -1)) {}
  ReachedMemory &operator=(ReachedMemory &&other) noexcept {
    std::swap(memory, other.memory);
    std::swap(dmaBuf, other.dmaBuf);
    return *this;
  }
  ~ReachedMemory();

  /// Cleared, and at least so many bytes. OutOfMemory, DeviceError.
  static Result<ReachedMemory> allocate(const std::shared_ptr<OpenDevice> &device, size_t sizeBytes);

  void *data() const { return memory.data(); }
  size_t sizeBytes() const { return memory.sizeBytes(); }
  /// As a transport registers it: see RegionOwner::needsRead. This object must outlive the registration.
  Region region(bool needsRead) const;

private:
  DeviceMemory memory;
  int dmaBuf = -1;
};

/// What shows a device what a network has written to its memory: a read of the network's device, unless the driver
/// does.
enum class ShownBy : uint8_t { Arrival, Read, Driver };
/// Whether the network reaches memory of the device, and how it is shown. Errors of both: says why not.
Result<ShownBy> tryNetwork(Transport &transport, const std::shared_ptr<OpenDevice> &device);
/// Registration::makeVisible for memory of the device. It is legal while any thread captures a stream.
std::function<Status()> visibilityOn(std::shared_ptr<OpenDevice> device, ShownBy shown);
/// What must be called before such memory is put from; null: nothing.
std::function<Status()> readabilityOn(std::shared_ptr<OpenDevice> device);

} // namespace kolo::runtime
