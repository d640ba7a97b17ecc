// DevicePlans: the plans of a communicator: those that calls find, those that graphs keep, and those that may still
// run.
#pragma once

#include "device/DeviceLaunches.h"
#include "device/DevicePlaces.h"
#include "device/DevicePlan.h"
#include "device/DeviceRanks.h"

#include <memory>
#include <vector>

namespace kolo::runtime {

class DevicePlans {
public:
  DevicePlans(const DeviceRanks &allRanks, const DevicePlaces &allPlaces, const DeviceLaunches &ownLaunches)
      : ranks(allRanks), places(allPlaces), launches(ownLaunches) {}

  /// The plan of a call with these buffers; null: there is none.
  DevicePlan *find(const CallIdentity &call, const std::vector<LocatedBuffers> &buffers);
  /// Writes the tables of a plan that has its internal memory, and keeps it. `abort`: the word that ends kernels.
  Result<DevicePlan *> add(std::unique_ptr<DevicePlan> plan, uint64_t *abort);

  /// Puts plans aside if there are too many.
  void makeRoom();
  /// Frees the plans that no graph uses. Called when all launches outside of graphs are done.
  void free();

private:
  /// Plans whose launches are done when these events are.
  struct RetiredPlans {
    std::vector<std::unique_ptr<DevicePlan>> plans;
    std::vector<std::shared_ptr<const DeviceEvent>> launched;
  };
  Status writeTables(DevicePlan &plan, DevicePlan::Pieces &pieces, uint64_t *abort);
  std::vector<std::shared_ptr<DeviceTable>> &sparesFor(const DevicePlan &plan);
  std::shared_ptr<DeviceTable> takeSpare(const DevicePlan &plan);
  void retire();
  void keepTables(DevicePlan &plan);

  const DeviceRanks &ranks;
  const DevicePlaces &places;
  const DeviceLaunches &launches;
  std::vector<std::unique_ptr<DevicePlan>> plans;
  std::vector<std::unique_ptr<DevicePlan>> captured;        // no call finds them, but graphs launch them
  std::vector<RetiredPlans> retired;                        // no call finds them, but they may still run
  std::vector<std::shared_ptr<DeviceTable>> spareTables[4]; // that no launch reads, by size: see sparesFor
  size_t lastPlan = 0;
};

} // namespace kolo::runtime
