// DeviceLauncher: launches a plan: one launch per device and stream, or per piece, ordered after earlier launches.
#pragma once

#include "device/DeviceLaunches.h"
#include "device/DevicePlaces.h"
#include "device/DevicePlan.h"
#include "device/DeviceRanks.h"

#include <span>

namespace kolo::runtime {

class DeviceLauncher {
public:
  DeviceLauncher(DeviceRanks &allRanks, const DevicePlaces &allPlaces, DeviceLaunches &ownLaunches)
      : ranks(allRanks), places(allPlaces), launches(ownLaunches) {}
  ~DeviceLauncher() { closeSideStreams(); }
  DeviceLauncher(const DeviceLauncher &) = delete;
  DeviceLauncher &operator=(const DeviceLauncher &) = delete;

  /// Whether the streams of one call, by local rank, let all its launches run at once. InvalidArgument.
  Status checkStreams(std::span<const StreamHandle> streams) const;
  /// Queues the call in the streams. Blocks for nothing. With a meeting, the cause if a peer has aborted.
  Status launch(DevicePlan &plan, std::span<const StreamHandle> streams);
  /// Called when all launches are done.
  void closeSideStreams();

private:
  /// What runs pieces of a staged call side by side: streams for the copies, and events by turn.
  struct SideStreams {
    void *in = nullptr, *out = nullptr;
    DeviceEvent begun, copiedIn[2], ran[2], copiedOut[2];
  };
  Status openSideStreams();
  Status launchOnDevice(DevicePlan &plan, size_t device, std::span<const StreamHandle> streams);
  Status launchDirect(DevicePlan &plan, LaunchGroup group, StreamHandle stream);
  Status launchStaged(DevicePlan &plan, StreamHandle stream);
  Status launchPieces(const DevicePlan &plan, StreamHandle stream, bool mayOverlap);
  Status launchPiece(const DevicePlan &plan, int64_t index, StreamHandle stream, bool isOverlapped);
  Status sharePlaces(const DevicePlan &plan, StreamHandle stream) const;
  Status launchKernel(const DevicePlan &plan, const DeviceTable &table, LaunchGroup group, StreamHandle stream) const;
  Status copyPiece(const DevicePlan &plan, int64_t index, bool isInput, StreamHandle stream) const;

  DeviceRanks &ranks;
  const DevicePlaces &places;
  DeviceLaunches &launches;
  SideStreams side;
};

} // namespace kolo::runtime
