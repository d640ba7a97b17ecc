// DeviceLaunches: the last launch of each rank of this process outside of graphs, and the events that tell of it.
#pragma once

#include "device/DeviceRanks.h"

#include <memory>
#include <span>
#include <vector>

namespace kolo::runtime {

/// Ranks of one device that one launch runs: indices of DeviceRanks::locals, which follow each other on that device.
using LaunchGroup = std::span<const size_t>;

class DeviceLaunches {
public:
  explicit DeviceLaunches(const DeviceRanks &allRanks) : ranks(allRanks) {}
  /// Called once, when the devices are open.
  Status open();

  /// Has the stream wait for launches of these ranks in other streams.
  Status orderAfterEarlier(LaunchGroup group, StreamHandle stream) const;
  /// Records that these ranks have just launched in the stream.
  Status note(LaunchGroup group, StreamHandle stream);
  /// Never blocks.
  Result<bool> areDone() const;
  /// One event for each rank that has launched. While its owner keeps it, no later launch records it.
  std::vector<std::shared_ptr<const DeviceEvent>> lastEvents() const;

private:
  struct LastLaunch {
    std::shared_ptr<const DeviceEvent> event; // recorded after it, for all its ranks; null: there was none
    StreamHandle stream = nullptr;
  };
  Status addEvent(size_t device);
  Result<std::shared_ptr<const DeviceEvent>> eventFor(LaunchGroup group);

  const DeviceRanks &ranks;
  std::vector<LastLaunch> lasts;                                       // by local rank
  std::vector<std::vector<std::shared_ptr<const DeviceEvent>>> events; // [device]: all that `lasts` may have
};

} // namespace kolo::runtime
