#include "device/DevicePrograms.h"

#include "base/Error.h"

#include <algorithm>
#include <atomic>

namespace kolo::runtime {
namespace {

uint64_t codeOf(const KoloDeviceFailure &failure) {
  return std::atomic_ref(const_cast<uint64_t &>(failure.code)).load(std::memory_order_acquire);
}

} // namespace

Result<DeviceMemory> allocateCleared(const std::shared_ptr<OpenDevice> &device, size_t sizeBytes) {
  Result<DeviceMemory> memory =
      DeviceMemory::allocate(device, KOLO_MEMORY_PRIVATE, std::max(sizeBytes, sizeof(uint64_t)));
  if (memory.isOk())
    if (Status status = device->clear(memory->data(), memory->sizeBytes()); !status.isOk())
      return status;
  return memory;
}

/// In a program that may cross a network, only ranks of one host raise them.
size_t DevicePrograms::semaphoreBytes(const DevicePlan &plan) const {
  const size_t numSenders = plan.isForNetwork() ? ranks.mostRanksOfHost() : static_cast<size_t>(ranks.size);
  return countersBytes(plan, numSenders);
}

size_t DevicePrograms::countersBytes(const DevicePlan &plan, size_t numPeers) const {
  const size_t number =
      static_cast<size_t>(ranks.mostLanes()) * static_cast<size_t>(plan.calls.front().info->numSemaphores) * numPeers;
  return std::max<size_t>(number, 1) * sizeof(uint64_t);
}

Status DevicePrograms::give(DevicePlan &plan, HeapBlock semaphores, const DeviceCells *cells) {
  const CountersKey key = plan.countersKey();
  if (auto known = programs.find(key); known != programs.end()) {
    plan.program = known->second;
    return {};
  }
  auto made = std::make_shared<DeviceProgram>();
  made->plugin = plan.plugin;
  made->info = plan.calls.front().info;
  made->semaphores = semaphores;
  made->cells = cells;
  size_t numFailures = ranks.locals.size() * static_cast<size_t>(ranks.mostLanes());
  Result<DeviceMemory> failures =
      DeviceMemory::allocate(ranks.devices.front(), KOLO_MEMORY_HOST, numFailures * sizeof(KoloDeviceFailure));
  if (!failures.isOk())
    return failures.status();
  made->failures = std::move(failures).value();
  if (Status status = makeCounters(plan, *made); !status.isOk())
    return status;
  if (Status status = shareCalls(key.program, *made); !status.isOk())
    return status;
  if (plan.isForNetwork())
    if (Status status = writePlaces(*made); !status.isOk())
      return status;
  programs.emplace(key, made);
  plan.program = std::move(made);
  return {};
}

Status DevicePrograms::makeCounters(const DevicePlan &plan, DeviceProgram &made) const {
  const size_t numFar = made.cells ? made.cells->senders().size() : 0;
  const size_t numPeers = plan.isForNetwork() ? ranks.ranksHere().size() + numFar : static_cast<size_t>(ranks.size);
  const size_t ofPeers = countersBytes(plan, numPeers);
  for (const LocalRank &local : ranks.locals) {
    DeviceProgram::OfRank &own = made.ranks.emplace_back();
    for (DeviceMemory *memory : {&own.sent, &own.awaited}) {
      Result<DeviceMemory> cleared = allocateCleared(ranks.devices[local.device], ofPeers);
      if (!cleared.isOk())
        return cleared.status();
      *memory = std::move(cleared).value();
    }
  }
  return {};
}

/// Those of the program, whatever the mesh and the root of its calls: or calls with other roots would draw alike.
Status DevicePrograms::shareCalls(const ProgramKey &program, DeviceProgram &made) const {
  if (auto known = programs.lower_bound({program}); known != programs.end() && known->first.program == program) {
    made.calls = known->second->calls;
    return {};
  }
  std::vector<DeviceMemory> calls;
  for (const LocalRank &local : ranks.locals) {
    Result<DeviceMemory> cleared =
        allocateCleared(ranks.devices[local.device], static_cast<size_t>(ranks.mostLanes()) * sizeof(uint64_t));
    if (!cleared.isOk())
      return cleared.status();
    calls.push_back(std::move(cleared).value());
  }
  made.calls = std::make_shared<const std::vector<DeviceMemory>>(std::move(calls));
  return {};
}

/// A rank that is no peer has this rank's own place. Nobody raises that semaphore, so that a wait there ends in a
/// record that names the rank.
Status DevicePrograms::writePlaces(DeviceProgram &made) const {
  const std::vector<int> here = ranks.ranksHere();
  for (size_t local = 0; local < ranks.locals.size(); ++local) {
    const std::shared_ptr<OpenDevice> &device = ranks.devices[ranks.locals[local].device];
    const auto own = static_cast<uint32_t>(ranks.placeHere(ranks.locals[local].rank));
    std::vector<uint32_t> places(static_cast<size_t>(ranks.size), own);
    uint32_t next = 0;
    for (int rank : here)
      places[static_cast<size_t>(rank)] = next++;
    for (size_t far = 0; made.cells && far < made.cells->senders().size(); ++far)
      places[static_cast<size_t>(made.cells->senders()[far])] = next++;
    const size_t sizeBytes = places.size() * sizeof(uint32_t);
    Result<DeviceMemory> memory = DeviceMemory::allocate(device, KOLO_MEMORY_PRIVATE, sizeBytes);
    if (!memory.isOk())
      return memory.status();
    if (Status status = device->copy(memory->data(), places.data(), sizeBytes); !status.isOk())
      return status;
    made.ranks[local].places = std::move(memory).value();
  }
  return {};
}

DevicePrograms::LaneFailure DevicePrograms::findFailure() const {
  LaneFailure found;
  for (const auto &[key, program] : programs)
    for (size_t local = 0; program->failures.data() && local < ranks.locals.size(); ++local)
      for (int lane = 0; lane < ranks.mostLanes(); ++lane) {
        const KoloDeviceFailure *noted = program->failureOf(local, lane, ranks.mostLanes());
        const uint64_t code = codeOf(*noted);
        if (code == KOLO_DEVICE_OK ||
            (found.noted && (code != KOLO_DEVICE_TIMEOUT || codeOf(*found.noted) == KOLO_DEVICE_TIMEOUT)))
          continue;
        found = {noted, program.get(), local, lane};
      }
  return found;
}

Status DevicePrograms::failureOr(const Status &otherwise) const {
  const auto [noted, program, local, lane] = findFailure();
  if (!noted)
    return otherwise;
  bool isLost = otherwise.code() == StatusCode::PeerLost;
  std::string end = isLost ? otherwise.message() : "timed out";
  int culprit = isLost ? otherwise.rank() : static_cast<int>(noted->peer);
  const LocalRank &waiting = ranks.locals[local];
  const int ordinal = ranks.devices[waiting.device]->ordinal();
  const std::string statement = describeStatement(*program->info, noted->statement);
  if (noted->peer == KOLO_DEVICE_PACKETS)
    return rankError(otherwise.code(), culprit, "rank {} waited for packets on device {} (lane {}; {}): {}",
                     waiting.rank, ordinal, lane, statement, end);
  if (noted->semaphore == KOLO_DEVICE_QUEUE)
    return rankError(otherwise.code(), culprit,
                     "rank {} waited for room for what it sends to rank {} from device {} (lane {}; {}): {}",
                     waiting.rank, noted->peer, ordinal, lane, statement, end);
  return rankError(otherwise.code(), culprit, "rank {} waited for rank {} on device {} (semaphore {}, lane {}; {}): {}",
                   waiting.rank, noted->peer, ordinal, noted->semaphore, lane, statement, end);
}

} // namespace kolo::runtime
