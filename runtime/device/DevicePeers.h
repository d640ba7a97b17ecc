// DevicePeers: memory of this rank in words for its peers, and theirs as it is mapped here.
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

  /// By rank; -1 for those whose addresses are valid here, being in this process.
  void setProcesses(std::vector<int> processes) { pids = std::move(processes); }
  bool haveOwnProcesses() const;

  /// Null memory gives an empty location. DeviceError: it cannot be shared.
  Result<DeviceLocation> describe(void *memory) const;
  /// Where a peer's memory is here; mapped the first time.
  Result<void *> resolve(int peer, const DeviceLocation &location);
  /// Unmaps all.
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
