// DevicePrograms: what the calls of each program have in common: counters, and the records of failures.
#pragma once

#include "device/DeviceHeap.h"
#include "device/DevicePlan.h"
#include "device/DeviceRanks.h"

#include <map>
#include <memory>
#include <utility>

namespace kolo::runtime {

class DevicePrograms {
public:
  explicit DevicePrograms(const DeviceRanks &allRanks) : ranks(allRanks) {}

  bool contains(const DevicePlan &plan) const { return programs.contains(plan.countersKey()); }
  /// The bytes of the semaphores that a new program needs, at least one.
  size_t semaphoreBytes(const DevicePlan &plan) const;
  /// Gives the plan its program, and makes it with these semaphores and cells if it is new. Null: it has no cells, so
  /// that no rank of another host is a peer. OutOfMemory, DeviceError.
  Status give(DevicePlan &plan, HeapBlock semaphores, const DeviceCells *cells);
  /// Called where a plan that `give` made a program for is refused after all.
  void forget(const DevicePlan &plan) { programs.erase(plan.countersKey()); }

  /// The first timeout that a lane has noted, or else another failure of a lane, with the code of `otherwise`. Without
  /// any it returns `otherwise`.
  Status failureOr(const Status &otherwise) const;

private:
  /// What a lane noted.
  struct LaneFailure {
    const KoloDeviceFailure *noted = nullptr;
    const DeviceProgram *program = nullptr;
    size_t local = 0;
    int lane = 0;
  };
  size_t countersBytes(const DevicePlan &plan, size_t numPeers) const;
  Status makeCounters(const DevicePlan &plan, DeviceProgram &made) const;
  Status shareCalls(const ProgramKey &program, DeviceProgram &made) const;
  Status writePlaces(DeviceProgram &made) const;
  LaneFailure findFailure() const;

  const DeviceRanks &ranks;
  std::map<CountersKey, std::shared_ptr<DeviceProgram>> programs;
};

/// Private memory of a device, cleared, with room for at least one counter. OutOfMemory, DeviceError.
Result<DeviceMemory> allocateCleared(const std::shared_ptr<OpenDevice> &device, size_t sizeBytes);

} // namespace kolo::runtime
