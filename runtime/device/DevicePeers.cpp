#include "device/DevicePeers.h"

#include "base/Error.h"

#include <unistd.h>

#include <algorithm>

namespace kolo::runtime {

bool DevicePeers::haveOwnProcesses() const {
  return std::ranges::any_of(peers, [](const Peer &peer) { return peer.pid >= 0; });
}

Result<DeviceLocation> DevicePeers::describe(void *memory) const {
  DeviceLocation location;
  location.address = reinterpret_cast<uint64_t>(memory);
  if (!memory || !haveOwnProcesses())
    return location;
  KoloDriverRange range = {};
  const KoloDeviceDriver &driver = device->driver();
  if (Status status = device->status(driver.locate(device->ordinal(), memory, &range), "looking memory up");
      !status.isOk())
    return status;
  location.id = range.id;
  location.offsetBytes = location.address - reinterpret_cast<uint64_t>(range.base);
  Status status = device->status(driver.share(device->ordinal(), range.base, &location.handle),
                                 "sharing memory with other processes");
  if (!status.isOk())
    return status;
  if (Status left = leaveDescriptor(location); !left.isOk()) {
    forget(location);
    return left;
  }
  return location;
}

/// For every other process, if the memory is shared by one. They take it after the next exchange.
Status DevicePeers::leaveDescriptor(const DeviceLocation &location) const {
  for (const Peer &peer : peers)
    if (location.handle.fd >= 0 && peer.pid >= 0)
      if (Status status = DeviceDescriptors::leave(peer.descriptors, rank, location.id, location.handle.fd);
          !status.isOk())
        return status;
  return {};
}

void DevicePeers::forget(const DeviceLocation &location) const {
  if (location.id != 0)
    (void)device->driver().unshare(device->ordinal(), &location.handle);
}

Result<void *> DevicePeers::resolve(size_t place, const DeviceLocation &location,
                                    std::shared_ptr<const DeviceImport> &import) {
  const int peer = peers[place].rank, pid = peers[place].pid;
  if (pid < 0)
    return reinterpret_cast<void *>(location.address);
  KoloDriverHandle handle = location.handle;
  if (handle.fd >= 0) {
    Result<int> fd = descriptors.take(peer, pid, location.id);
    if (!fd.isOk())
      return fd.status();
    handle.fd = *fd;
  }
  struct Taken { // by the driver, if it opens the memory, once more
    int fd;
    ~Taken() {
      if (fd >= 0)
        close(fd);
    }
  } taken = {handle.fd};
  std::weak_ptr<const DeviceImport> &known = imports[{peer, location.id}];
  import = known.lock();
  if (!import) {
    void *base = nullptr;
    Status status = device->status(device->driver().openShared(device->ordinal(), &handle, &base),
                                   fmt::format("mapping memory of rank {}", peer));
    if (!status.isOk())
      return status;
    import = std::make_shared<const DeviceImport>(device, handle, base);
    known = import;
  }
  return import->at(location.offsetBytes);
}

} // namespace kolo::runtime
