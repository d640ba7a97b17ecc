// Device memory of calls: counters per program, scratch memory per shape of a call. Also decides when to free it.
#include "device/DeviceState.h"

#include <algorithm>

namespace kolo::runtime {
namespace {

constexpr size_t mostPlans = 256;
/// Per rank. A single shape may need more, and gets it.
constexpr size_t mostScratchBytes = size_t(1) << 30;

/// Allocates at least one word, so that the memory has its own address.
Result<DeviceMemory> allocateCleared(const std::shared_ptr<OpenDevice> &device, KoloMemoryKind kind, size_t sizeBytes) {
  Result<DeviceMemory> memory = DeviceMemory::allocate(device, kind, std::max<size_t>(sizeBytes, sizeof(uint64_t)));
  if (memory.isOk())
    if (Status status = device->clear(memory->data(), memory->sizeBytes()); !status.isOk())
      return status;
  return memory;
}

/// Bytes of both turns of the packet buffer.
size_t packetMemoryBytes(const Call &call) {
  return call.hasPackets ? 2 * static_cast<size_t>(call.packetBytesFor(call.key.count)) : 0;
}

} // namespace

bool DeviceState::isFull(const DevicePlan &plan) const {
  if (plans.size() >= mostPlans)
    return true;
  if (scratch.contains(scratchKeyOf(plan)))
    return false;
  size_t kept = 0;
  for (const auto &[key, set] : scratch)
    kept += set->ranks.front().sizeBytes() + set->packets.front().sizeBytes();
  return kept > 0 && kept + plan.calls.front().scratchBytes + packetMemoryBytes(plan.calls.front()) > mostScratchBytes;
}

/// Called when no rank runs any of them.
void DeviceState::freePlans() {
  for (std::unique_ptr<DevicePlan> &plan : plans)
    if (plan->isCaptured)
      retired.push_back(std::move(plan));
  plans.clear();
  lastPlan = 0;
  std::erase_if(scratch, [](const auto &entry) { return entry.second.use_count() == 1; });
}

DeviceState::ScratchKey DeviceState::scratchKeyOf(const DevicePlan &plan) {
  const Call &call = plan.calls.front();
  ScratchKey key = {{plan.plugin->content, call.key.program},
                    {},
                    call.key.count,
                    call.elementBytes,
                    call.root,
                    call.scratchBytes,
                    packetMemoryBytes(call)};
  std::copy_n(call.dimSizes, KOLO_MAX_MESH_DIMS, key.mesh.begin());
  return key;
}

Status DeviceState::allocateFor(DevicePlan &plan) {
  if (Status status = allocateCounters(plan); !status.isOk())
    return status;
  if (Status status = allocateScratch(plan); !status.isOk())
    return status;
  plan.aside.resize(locals.size());
  for (size_t local = 0; local < locals.size(); ++local) {
    if (!plan.calls[local].mustCopyInput())
      continue;
    Result<DeviceMemory> memory =
        DeviceMemory::allocate(devices[locals[local].device], KOLO_MEMORY_SHARED, plan.calls[local].inputBytes);
    if (!memory.isOk())
      return memory.status();
    plan.aside[local] = std::move(memory).value();
  }
  return {};
}

Status DeviceState::allocateCounters(DevicePlan &plan) {
  const Call &call = plan.calls.front();
  std::shared_ptr<DeviceCounters> &set = counters[{plan.plugin->content, call.key.program}];
  if (!set) {
    size_t sizeBytes = static_cast<size_t>(options.lanes) * static_cast<size_t>(call.info->numSemaphores) *
                       static_cast<size_t>(numRanks) * sizeof(uint64_t);
    auto made = std::make_shared<DeviceCounters>();
    for (const LocalRank &local : locals) {
      DeviceCounters::OfRank &own = made->ranks.emplace_back();
      for (auto [memory, kind] :
           {std::pair(&own.semaphores, KOLO_MEMORY_SHARED), std::pair(&own.sent, KOLO_MEMORY_PRIVATE),
            std::pair(&own.awaited, KOLO_MEMORY_PRIVATE)}) {
        Result<DeviceMemory> cleared = allocateCleared(devices[local.device], kind, sizeBytes);
        if (!cleared.isOk())
          return cleared.status();
        *memory = std::move(cleared).value();
      }
    }
    set = std::move(made);
  }
  plan.counters = set;
  return {};
}

Status DeviceState::fillScratch(const Call &call, DeviceScratch &set) const {
  for (const LocalRank &local : locals) {
    const std::shared_ptr<OpenDevice> &device = devices[local.device];
    DeviceMemory &own = set.ranks.emplace_back(), &packets = set.packets.emplace_back(),
                 &calls = set.packetCalls.emplace_back();
    auto reserve = [](DeviceMemory &memory, Result<DeviceMemory> allocated) {
      if (!allocated.isOk())
        return allocated.status();
      memory = std::move(allocated).value();
      return Status();
    };
    if (call.scratchBytes)
      if (Status status = reserve(own, DeviceMemory::allocate(device, KOLO_MEMORY_SHARED, call.scratchBytes));
          !status.isOk())
        return status;
    if (!call.hasPackets)
      continue;
    if (Status status = reserve(packets, allocateCleared(device, KOLO_MEMORY_SHARED, packetMemoryBytes(call)));
        !status.isOk())
      return status;
    size_t counterBytes = static_cast<size_t>(options.lanes) * sizeof(uint64_t);
    if (Status status = reserve(calls, allocateCleared(device, KOLO_MEMORY_PRIVATE, counterBytes)); !status.isOk())
      return status;
  }
  return {};
}

Status DeviceState::allocateScratch(DevicePlan &plan) {
  std::shared_ptr<DeviceScratch> &set = scratch[scratchKeyOf(plan)];
  if (!set) {
    auto made = std::make_shared<DeviceScratch>();
    if (Status status = fillScratch(plan.calls.front(), *made); !status.isOk()) {
      scratch.erase(scratchKeyOf(plan));
      return status;
    }
    set = std::move(made);
  }
  plan.scratch = set;
  return {};
}

} // namespace kolo::runtime
