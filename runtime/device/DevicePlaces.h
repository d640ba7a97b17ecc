// DevicePlaces: where the buffers of a call are for all ranks: in windows, or in internal memory piece by piece. Every
// rank decides that alone, from what ranks must agree on.
#pragma once

#include "device/DevicePlan.h"
#include "device/DeviceRanks.h"
#include "device/DeviceResources.h"
#include "device/DeviceWindows.h"

#include <span>

namespace kolo::runtime {

class DevicePlaces {
public:
  DevicePlaces(const DeviceRanks &allRanks, const DeviceWindows &allWindows, const DeviceResources &internal)
      : ranks(allRanks), windows(allWindows), resources(internal) {}

  /// The memory by which a plugin selects a program: see DeviceCommunicator::run. A buffer that only the root has
  /// counts for nothing, because other ranks do not know where it is.
  MemoryKind memoryFor(CollectiveKind collective, std::span<const RankBuffers> buffers) const;
  /// What this rank calls with.
  LocatedBuffers locate(const RankBuffers &own) const;
  /// Decides where the buffers of a checked plan are, and how it is cut into pieces. InvalidArgument.
  Status placeBuffers(DevicePlan &plan) const;

  /// The address of a buffer of a rank of this host, as mapped here. Null: nobody here accesses it.
  void *bufferOf(const DevicePlan &plan, const DevicePlan::Pieces &pieces, size_t turn, size_t role, int rank) const;
  /// Where this rank shares where its blocks are. Of a plan that shares places.
  void *sharedPlacesOf(const DevicePlan &plan) const {
    return resources.at(plan.pieces.shape->places, ranks.placeHere(ranks.numbers.front()));
  }
  /// All that a table of these pieces points to.
  TableAddresses addressesOf(const DevicePlan &plan, const DevicePlan::Pieces &pieces, size_t turn) const;

private:
  Status placeInWindows(DevicePlan &plan) const;
  Status placeBlocks(DevicePlan &plan) const;
  void cutIntoPieces(DevicePlan &plan) const;
  void *userBufferOf(const DevicePlan &plan, bool isInput, int rank) const;
  void *placesOf(const DevicePlan &plan, const DevicePlan::Pieces &pieces, size_t role, int rank) const;

  const DeviceRanks &ranks;
  const DeviceWindows &windows;
  const DeviceResources &resources;
};

} // namespace kolo::runtime
