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

size_t DevicePrograms::semaphoreBytes(const DevicePlan &plan) const {
  const size_t number = static_cast<size_t>(ranks.mostLanes()) *
                        static_cast<size_t>(plan.calls.front().info->numSemaphores) * static_cast<size_t>(ranks.size);
  return std::max<size_t>(number, 1) * sizeof(uint64_t);
}

Status DevicePrograms::give(DevicePlan &plan, HeapBlock semaphores, CellRange cells) {
  const ProgramKey key = keyOf(plan);
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
  for (const LocalRank &local : ranks.locals) {
    DeviceProgram::OfRank &own = made->ranks.emplace_back();
    const size_t ofCalls = static_cast<size_t>(ranks.mostLanes()) * sizeof(uint64_t);
    for (auto [memory, sizeBytes] :
         {std::pair(&own.sent, semaphores.sizeBytes), {&own.awaited, semaphores.sizeBytes}, {&own.calls, ofCalls}}) {
      Result<DeviceMemory> cleared = allocateCleared(ranks.devices[local.device], sizeBytes);
      if (!cleared.isOk())
        return cleared.status();
      *memory = std::move(cleared).value();
    }
  }
  programs.emplace(key, made);
  plan.program = std::move(made);
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
