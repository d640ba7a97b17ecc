// DevicePeers: locations of this rank's device memory for its peers, and the mappings of their memory here.
#pragma once

#include "device/DeviceMeeting.h"
#include "device/OpenDevice.h"

#include <map>
#include <memory>
#include <utility>

namespace kolo::runtime {

/// An allocation of a peer, mapped here until the last owner of this goes.
class DeviceImport {
public:
  DeviceImport(std::shared_ptr<OpenDevice> onDevice, const KoloDriverHandle &ofMemory, void *mapped)
      : device(std::move(onDevice)), handle(ofMemory), base(mapped) {}
  ~DeviceImport() { (void)device->driver().closeShared(device->ordinal(), &handle, base); }
  DeviceImport(const DeviceImport &) = delete;
  DeviceImport &operator=(const DeviceImport &) = delete;

  void *at(uint64_t offsetBytes) const { return static_cast<std::byte *>(base) + offsetBytes; }

private:
  std::shared_ptr<OpenDevice> device;
  KoloDriverHandle handle;
  void *base;
};

class DevicePeers {
public:
  explicit DevicePeers(std::shared_ptr<OpenDevice> ownDevice) : device(std::move(ownDevice)) {}

  /// Process numbers by rank; -1 for ranks of this process, whose addresses are valid here.
  void setProcesses(std::vector<int> processes) { pids = std::move(processes); }

  /// Null memory gives an empty location. DeviceError: the memory cannot be shared.
  Result<DeviceLocation> describe(void *memory) const;
  /// Called when peers have resolved a location that this rank described, or will not.
  void forget(const DeviceLocation &location) const;
  /// The address of a peer's memory in this process. `import` is null for ranks of this process. DeviceError.
  Result<void *> resolve(int peer, const DeviceLocation &location, std::shared_ptr<const DeviceImport> &import);

private:
  bool haveOwnProcesses() const;

  std::shared_ptr<OpenDevice> device;
  std::vector<int> pids;
  std::map<std::pair<int, uint64_t>, std::weak_ptr<const DeviceImport>> imports; // by rank and id
};

} // namespace kolo::runtime
