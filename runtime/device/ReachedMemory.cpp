#include "device/ReachedMemory.h"

#include "base/Error.h"

#include <unistd.h>

namespace kolo::runtime {
namespace {

/// The driver makes dma-bufs of whole pages.
size_t wholePages(size_t sizeBytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (sizeBytes + page - 1) / page * page;
}

Status flush(const OpenDevice &device) {
  const Relaxed relaxed(device.driver());
  return device.status(device.driver().flushAccesses(device.ordinal()), "flushing accesses of a network");
}

} // namespace

ReachedMemory::~ReachedMemory() {
  if (dmaBuf >= 0)
    close(dmaBuf);
}

Result<ReachedMemory> ReachedMemory::allocate(const std::shared_ptr<OpenDevice> &device, size_t sizeBytes) {
  ReachedMemory made;
  Result<DeviceMemory> memory = DeviceMemory::allocate(device, KOLO_MEMORY_SHARED, wholePages(sizeBytes));
  if (!memory.isOk())
    return memory.status();
  made.memory = std::move(memory).value();
  if (Status status = device->clear(made.data(), made.sizeBytes()); !status.isOk())
    return status;
  int32_t code = device->driver().exportMemory(device->ordinal(), made.data(), made.sizeBytes(), &made.dmaBuf);
  if (Status status = device->status(code, "exporting memory as a dma-buf"); !status.isOk())
    return status;
  return made;
}

Region ReachedMemory::region(bool needsRead) const {
  const OpenDevice &device = memory.device();
  RegionOwner owner;
  owner.kind = std::string_view(device.driver().kind) == "cuda" ? RegionOwner::Kind::Cuda : RegionOwner::Kind::Hip;
  owner.device = device.ordinal();
  owner.dmaBuf = dmaBuf;
  owner.needsRead = needsRead;
  return {static_cast<std::byte *>(data()), sizeBytes(), owner};
}

/// The read is tried first: a call of the driver may have to wait for one that frees memory, which waits for kernels.
Result<ShownBy> tryNetwork(Transport &transport, const std::shared_ptr<OpenDevice> &device) {
  Result<ReachedMemory> memory = ReachedMemory::allocate(device, 1);
  if (!memory.isOk())
    return memory.status();
  const KoloDriverDevice &known = device->description();
  Status status = transport.tryMemory(memory->region(known.needsRead));
  if (status.isOk())
    return known.needsRead ? ShownBy::Read : ShownBy::Arrival;
  if (known.flushesInstead)
    status = transport.tryMemory(memory->region(false));
  return status.isOk() ? Result<ShownBy>(ShownBy::Driver) : Result<ShownBy>(status);
}

std::function<Status()> visibilityOn(std::shared_ptr<OpenDevice> device, ShownBy shown) {
  const bool isFlushed = device->description().needsFlush || shown == ShownBy::Driver;
  return [device = std::move(device), isFlushed] { return isFlushed ? flush(*device) : Status(); };
}

std::function<Status()> readabilityOn(std::shared_ptr<OpenDevice> device) {
  if (!device->description().needsFlushToSend)
    return nullptr;
  return [device = std::move(device)] { return flush(*device); };
}

} // namespace kolo::runtime
