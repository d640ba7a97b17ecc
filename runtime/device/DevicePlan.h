// DevicePlan: a call that was resolved and agreed on, with all memory that its launches read, kept for repetitions.
#pragma once

#include "Call.h"
#include "CallIdentity.h"
#include "device/DeviceImages.h"
#include "device/OpenDevice.h"
#include "kolo/runtime/DeviceAbi.h"

#include <memory>
#include <span>
#include <vector>

namespace kolo::runtime {

/// One of the ranks of this object's process.
struct LocalRank {
  int rank = 0;
  size_t device = 0;      // index among the devices of this communicator
  size_t position = 0;    // among the ranks that are on this device
  DeviceEvent launched;   // recorded after its last launch outside of graphs
  void *stream = nullptr; // of that launch
  bool hasLaunched = false;
};

/// The counters of one program, for the ranks of this process in their order: see KoloDeviceInvocation. They start at
/// zero.
struct DeviceCounters {
  struct OfRank {
    DeviceMemory semaphores, sent, awaited;
  };
  std::vector<OfRank> ranks;
};

/// Scratch memory and packet buffers of the ranks of this process. Calls share them only if they have the same program,
/// mesh, count, element size and root. Nothing orders the accesses of two calls on different devices, except the proof
/// that a program is right back to back with itself.
struct DeviceScratch {
  std::vector<DeviceMemory> ranks;
  std::vector<DeviceMemory> packets, packetCalls; // zero at first; see KoloDeviceInvocation
};

/// One rank's buffers. Memory that was freed and came again at the same address is in another allocation.
struct LocatedBuffers {
  const void *input = nullptr;
  void *output = nullptr;
  // KoloDriverRange::id, where peers in other processes map this rank's memory; else 0.
  uint64_t inputAllocation = 0, outputAllocation = 0;
  bool operator==(const LocatedBuffers &) const = default;
};

struct DevicePlan {
  DevicePlan(std::shared_ptr<const PluginState> ofPlugin, const CallArguments &arguments)
      : plugin(std::move(ofPlugin)), request(plugin->load, arguments) {}

  std::shared_ptr<const PluginState> plugin;
  KeptCall request;                    // without pointers
  std::vector<LocatedBuffers> buffers; // by local rank
  std::vector<uint64_t> numbers;       // see DeviceState::exchangeNumbers
  bool isCaptured = false;             // a graph may launch it at any time

  std::vector<Call> calls;                                // by local rank
  std::vector<std::shared_ptr<const LoadedImage>> images; // by device
  std::shared_ptr<DeviceCounters> counters;
  std::shared_ptr<DeviceScratch> scratch;
  std::vector<DeviceMemory> aside; // by local rank: a copy of the input, if the program cannot run in place

  // By device: the invocations of its ranks, and the tables that these point to.
  std::vector<DeviceMemory> tables;
  DeviceMemory failures; // in host memory: [local rank][lane]

  const KoloDeviceFailure &failureOf(size_t local, int lane, int numLanes) const {
    return static_cast<const KoloDeviceFailure *>(
        failures.data())[local * static_cast<size_t>(numLanes) + static_cast<size_t>(lane)];
  }
  void *inputOf(size_t local) const { return aside[local].data() ? aside[local].data() : calls[local].input; }
};

/// What the tables hold apart from the plan: addresses of the memory of all ranks, by rank.
struct PlanAddresses {
  std::vector<void *> buffers[KOLO_NUM_BUFFER_ROLES];
  std::vector<void *> semaphores;
  uint64_t *abort = nullptr;
  uint64_t pollLimit = 1;
  int numLanes = 1;
};

/// Writes the tables of a plan to its devices, and allocates its failure records. Blocking. OutOfMemory, DeviceError.
Status writeTables(DevicePlan &plan, std::span<const LocalRank> locals,
                   std::span<const std::shared_ptr<OpenDevice>> devices, const PlanAddresses &addresses);

} // namespace kolo::runtime
