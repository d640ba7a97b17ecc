// DeviceRanks: the ranks of a communicator of devices, those of this process with their devices, and where all meet.
#pragma once

#include "device/DeviceMeeting.h"
#include "device/OpenDevice.h"
#include "device/ReachedMemory.h"
#include "kolo/runtime/Device.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kolo::runtime {

/// A lost rank may have done its part before it ended, so launches and transfers here have this time to end by
/// themselves.
inline constexpr int64_t graceMsOfLostPeers = 20;

/// One of the ranks of this object's process.
struct LocalRank {
  int rank = 0;
  size_t device = 0;   // index among the devices of this communicator
  size_t position = 0; // among the ranks that are on this device
};

/// Complete after joining; then only the meeting changes.
struct DeviceRanks {
  /// The device of a rank of this process; null for any other.
  std::shared_ptr<OpenDevice> deviceOf(int rank) const;
  /// By which the driver gives a device more hardware queues.
  const char *queuesVariable() const;
  /// Whether ranks are on several hosts, and whether this one is on another one than the ranks of this process.
  bool areOnHosts() const { return meeting && meeting->hosts().areSeveral(); }
  bool isRemote(int rank) const { return meeting && meeting->hosts().isRemote(rank); }
  /// In the order of their numbers; 0 to size - 1 where all ranks are in this process.
  std::vector<int> ranksHere() const;
  /// The place of one of them.
  size_t placeHere(int rank) const { return static_cast<size_t>(meeting ? meeting->hosts().placeOf(rank) : rank); }
  /// Of any host: the same on all ranks.
  size_t mostRanksOfHost() const;
  /// Of a call, where `ofTable` is what the plugin's selection says: see DeviceOptions::lanes.
  int lanesOf(int ofTable) const;
  /// Of any call.
  int mostLanes() const { return options.lanes ? options.lanes : std::max(defaultLanes, mostTableLanes); }

  DeviceOptions options;
  int size = 0;             // of all processes
  std::vector<int> numbers; // of `locals`
  std::vector<LocalRank> locals;
  std::vector<std::shared_ptr<OpenDevice>> devices;
  std::vector<DeviceId> deviceOfRank; // of the ranks of this host, by place
  std::vector<int> ranksOnDevice;     // by device: ranks of all processes
  std::optional<ShownBy> shownBy;     // on several hosts: inboxes and outboxes are in memory of devices
  std::string whyOnHosts;             // likewise: why they are not, if it was tried
  int ranksOnOwn = 0;                 // with a meeting: of this process, on the device of this rank
  std::vector<int> peerDevices;       // likewise: other devices of this process, whose ranks use addresses of this one
  std::optional<DeviceMeeting> meeting; // if not all ranks are here
};

/// Opens the devices of this process: `ownRanks` are its ranks, and `ordinals` their devices. Replaces options by
/// environment variables. InvalidArgument, DeviceError, OutOfMemory.
Status openDevices(DeviceRanks &ranks, std::span<const int> ordinals, std::span<const int> ownRanks);

} // namespace kolo::runtime
