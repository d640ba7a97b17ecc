// DevicePeers: locations of this rank's device memory for its peers, and the mappings of their memory here.
#pragma once

#include "device/DeviceMeeting.h"
#include "device/OpenDevice.h"

#include <map>
#include <utility>

namespace kolo::runtime {

class DevicePeers {
public:
  explicit DevicePeers(std::shared_ptr<OpenDevice> ownDevice) : device(std::move(ownDevice)) {}
  ~DevicePeers() { closeAll(); }
  DevicePeers(const DevicePeers &) = delete;
  DevicePeers &operator=(const DevicePeers &) = delete;

  /// Process numbers by rank; -1 for ranks of this process, whose addresses are valid here.
  void setProcesses(std::vector<int> processes) { pids = std::move(processes); }
  bool haveOwnProcesses() const;

  /// Null memory gives an empty location. DeviceError: the memory cannot be shared.
  Result<DeviceLocation> describe(void *memory) const;
  /// The address of a peer's memory in this process. Maps an allocation the first time. DeviceError.
  Result<void *> resolve(int peer, const DeviceLocation &location);
  /// Unmaps all memory of peers.
  void closeAll();

private:
  struct Import {
    KoloDriverHandle handle;
    void *base;
  };
  std::shared_ptr<OpenDevice> device;
  std::vector<int> pids;
  std::map<std::pair<int, uint64_t>, Import> imports; // by rank and id
};

} // namespace kolo::runtime
