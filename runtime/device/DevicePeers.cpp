#include "device/DevicePeers.h"

#include "Error.h"

#include <algorithm>

namespace kolo::runtime {

bool DevicePeers::haveOwnProcesses() const {
  return std::any_of(pids.begin(), pids.end(), [](int pid) { return pid >= 0; });
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
  return location;
}

void DevicePeers::forget(const DeviceLocation &location) const {
  if (location.id != 0)
    (void)device->driver().unshare(device->ordinal(), &location.handle);
}

Result<void *> DevicePeers::resolve(int peer, const DeviceLocation &location,
                                    std::shared_ptr<const DeviceImport> &import) {
  if (pids[static_cast<size_t>(peer)] < 0)
    return reinterpret_cast<void *>(location.address);
  std::weak_ptr<const DeviceImport> &known = imports[{peer, location.id}];
  import = known.lock();
  if (!import) {
    void *base = nullptr;
    Status status = device->status(device->driver().openShared(device->ordinal(), &location.handle, &base),
                                   fmt::format("mapping memory of rank {}", peer));
    if (!status.isOk())
      return status;
    import = std::make_shared<const DeviceImport>(device, location.handle, base);
    known = import;
  }
  return import->at(location.offsetBytes);
}

} // namespace kolo::runtime
