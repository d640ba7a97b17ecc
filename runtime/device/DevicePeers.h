// DevicePeers: locations of this rank's device memory for its peers, and the mappings of their memory here.
#pragma once

#include "device/DeviceDescriptors.h"
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
  /// Of a rank of this host: its process, -1 for one of this process, whose addresses are valid here; and where this
  /// rank leaves descriptors for it.
  struct Peer {
    int rank = 0;
    int pid = -1;
    DescriptorName descriptors = {};
  };
  DevicePeers(std::shared_ptr<OpenDevice> ownDevice, int ownRank, DeviceDescriptors ownDescriptors,
              std::vector<Peer> byPlace)
      : device(std::move(ownDevice)), rank(ownRank), descriptors(std::move(ownDescriptors)), peers(std::move(byPlace)) {
  }

  /// Null memory gives an empty location. DeviceError: the memory cannot be shared. SystemError: nor its descriptor.
  Result<DeviceLocation> describe(void *memory) const;
  /// Called when peers have resolved a location that this rank described, or will not.
  void forget(const DeviceLocation &location) const;
  /// The address of memory of the peer at this place of the host in this process. `import` is null for ranks of this
  /// process. DeviceError, SystemError.
  Result<void *> resolve(size_t place, const DeviceLocation &location, std::shared_ptr<const DeviceImport> &import);

private:
  bool haveOwnProcesses() const;

  Status leaveDescriptor(const DeviceLocation &location) const;

  std::shared_ptr<OpenDevice> device;
  int rank;
  DeviceDescriptors descriptors;
  std::vector<Peer> peers;
  std::map<std::pair<int, uint64_t>, std::weak_ptr<const DeviceImport>> imports; // by rank and id
};

} // namespace kolo::runtime
