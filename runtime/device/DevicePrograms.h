// DevicePrograms: what the calls of each program have in common: counters, and the records of failures.
#pragma once

#include "device/DeviceHeap.h"
#include "device/DevicePlan.h"
#include "device/DeviceRanks.h"

#include <map>
#include <memory>
#include <utility>

namespace kolo::runtime {

using ProgramKey = std::pair<PluginContent, int32_t>; // and the program's number in the plugin

class DevicePrograms {
public:
  explicit DevicePrograms(const DeviceRanks &allRanks) : ranks(allRanks) {}

  bool contains(const DevicePlan &plan) const { return programs.contains(keyOf(plan)); }
  /// The bytes of the semaphores that a new program needs, at least one.
  size_t semaphoreBytes(const DevicePlan &plan) const;
  /// Gives the plan its program, and makes it with these semaphores and cells if it is new. OutOfMemory, DeviceError.
  Status give(DevicePlan &plan, HeapBlock semaphores, CellRange cells);
  /// Called where a plan that `give` made a program for is refused after all.
  void forget(const DevicePlan &plan) { programs.erase(keyOf(plan)); }

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
  static ProgramKey keyOf(const DevicePlan &plan) { return {plan.plugin->content, plan.calls.front().key.program}; }
  LaneFailure findFailure() const;

  const DeviceRanks &ranks;
  std::map<ProgramKey, std::shared_ptr<DeviceProgram>> programs;
};

/// Private memory of a device, cleared, with room for at least one counter. OutOfMemory, DeviceError.
Result<DeviceMemory> allocateCleared(const std::shared_ptr<OpenDevice> &device, size_t sizeBytes);

} // namespace kolo::runtime
