// DeviceChecks: the checks of a call and of memory that a process makes by itself.
#pragma once

#include "device/DevicePlaces.h"
#include "device/DevicePlan.h"
#include "device/DeviceRanks.h"

namespace kolo::runtime {

/// Checks a new call, and notes in the plan what follows from it alone: the calls of the local ranks, their images, and
/// where the buffers are. InvalidArgument, BadPlugin, OutOfMemory, DeviceError.
Status checkPlan(DevicePlan &plan, const DeviceRanks &ranks, const DevicePlaces &places);

/// As DeviceCommunicator::carries.
Status checkProgram(const PluginState &plugin, const CallArguments &arguments, const DeviceRanks &ranks);

/// Who accesses memory; as mapped: at other addresses.
enum class DeviceAccess : uint8_t { ByOwnRank, ByPeers, ByPeersAsMapped };

struct NamedMemory {
  const char *name;
  const void *address;
  size_t sizeBytes;
};

/// Whether a local rank's memory can be accessed so. InvalidArgument, DeviceError.
Status checkBuffer(const DeviceRanks &ranks, size_t local, const NamedMemory &memory, DeviceAccess access);

} // namespace kolo::runtime
