// DeviceWindows: memory that all ranks map: the windows that the user registers. Ranks meet here.
#pragma once

#include "device/DeviceHeap.h"
#include "device/DevicePeers.h"
#include "device/DeviceRanks.h"
#include "device/DeviceWatch.h"

#include <map>
#include <optional>
#include <span>

namespace kolo::runtime {

class DeviceWindows {
public:
  DeviceWindows(DeviceRanks &allRanks, DeviceWatch &theWatch) : ranks(allRanks), watch(theWatch) {}
  /// With a meeting: called once all ranks have joined it.
  void setPeers(DevicePeers made) { peers.emplace(std::move(made)); }

  /// See DeviceCommunicator. `addresses`: of all ranks' memory, by rank, as mapped by the caller; empty: this maps it.
  Status add(std::span<void *const> memory, size_t sizeBytes, std::span<void *const> addresses);
  Status remove(std::span<void *const> memory);
  Status forget(std::span<void *const> memory);
  /// Unmaps memory of peers.
  void clear() { windows.clear(); }

  /// Every rank offers memory of `sizeBytes` bytes, or says by `own` why it cannot. On an error no rank has it.
  Result<MappedWindow> mapInternal(std::span<void *const> memory, size_t sizeBytes, const Status &own);

  /// The number of the window that an address is in; 0: none.
  uint64_t numberAt(const void *address) const;
  /// Of an address of this rank in a window.
  DevicePlace placeOf(uint64_t window, const void *address) const;
  /// The bytes from a place to the end of its window.
  size_t leftAt(DevicePlace place) const;
  /// The address of a place in the memory of a rank of this host, as mapped here.
  std::byte *addressAt(DevicePlace place, int rank) const;

private:
  struct NumberedWindow {
    uint64_t number;
    MappedWindow mapped;
  };
  using ByAddress = std::map<uintptr_t, NumberedWindow>; // this process's first address

  Result<MappedWindow> mapAll(DeviceRecord &record, std::span<void *const> memory, Status own,
                              std::span<void *const> addresses);
  Status compareOffers() const;
  Result<MappedWindow> resolveAll(size_t sizeBytes);
  Status check(std::span<void *const> memory, size_t sizeBytes, bool isMapped) const;
  Result<ByAddress::iterator> findAt(std::span<void *const> memory);
  const MappedWindow &mappedOf(uint64_t number) const;

  DeviceRanks &ranks;
  DeviceWatch &watch;
  std::optional<DevicePeers> peers; // with a meeting
  ByAddress windows;
  uint64_t numWindows = 0; // ever registered
};

} // namespace kolo::runtime
