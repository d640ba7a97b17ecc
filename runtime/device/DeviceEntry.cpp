// The entry to a new call: what ranks agree on, and learn about each other, before they launch it.
//
// Every rank takes part in up to four exchanges and leaves each with the same result:
//   announce  Each rank names its call and says whether it can run it.
//   drain     Only if a rank has no room: all calls so far have ended on all devices, so plans and memory may be freed.
//   locate    Each rank says where its buffers, scratch memory and semaphores are.
//   confirm   All ranks have mapped all memory, so all may launch.
#include "device/DeviceState.h"

#include "CallIdentity.h"
#include "Error.h"

namespace kolo::runtime {
namespace {

/// While one lives, a capture in this or another thread neither records nor forbids allocations.
class Relaxed {
public:
  explicit Relaxed(const KoloDeviceDriver &table) : driver(table) {
    isRelaxed = driver.enterRelaxed(&mode) == KOLO_DRIVER_OK;
  }
  ~Relaxed() {
    if (isRelaxed)
      (void)driver.leaveRelaxed(mode);
  }
  Relaxed(const Relaxed &) = delete;
  Relaxed &operator=(const Relaxed &) = delete;

private:
  const KoloDeviceDriver &driver;
  int32_t mode = 0;
  bool isRelaxed = false;
};

/// Polls per millisecond of timeout: a poll takes at least half a microsecond.
constexpr uint64_t pollsPerMs = 2000;

} // namespace

Result<DevicePlan *> DeviceState::agree(std::unique_ptr<DevicePlan> plan) {
  Relaxed relaxed(devices.front()->driver());
  bool mustDrain = false;
  Status own = guarded([&] { return check(*plan); });
  if (Status status = announce(*plan, own, mustDrain); !status.isOk())
    return status;
  if (mustDrain)
    if (Status status = drain(); !status.isOk())
      return status;

  own = guarded([&] { return allocateFor(*plan); });
  if (meeting) {
    DeviceRecord record;
    if (own.isOk()) {
      Result<DeviceRecord> described = describe(*plan);
      own = described.status();
      if (described.isOk())
        record = *described;
    }
    meeting->next() = record;
    if (Status status = exchange(meeting->said(), own); !status.isOk())
      return status;
  } else if (!own.isOk()) {
    return own;
  }

  own = guarded([&]() -> Status {
    Result<PlanAddresses> addresses = resolve(*plan);
    return addresses.isOk() ? writeTables(*plan, locals, devices, *addresses) : addresses.status();
  });
  if (meeting)
    own = exchange(meeting->next(), own);
  if (!own.isOk())
    return own;
  plans.push_back(std::move(plan));
  lastPlan = plans.size() - 1;
  return plans.back().get();
}

/// Announces this rank's outcome, and returns that of all ranks.
Status DeviceState::exchange(DeviceRecord &record, const Status &own) {
  if (!own.isOk())
    setRefusal(record, own);
  if (Status status = meeting->perform(); !status.isOk())
    return fail(status);
  return meeting->firstRefusal();
}

Status DeviceState::announce(const DevicePlan &plan, const Status &own, bool &mustDrain) {
  bool isOwnFull = own.isOk() && isFull(plan);
  mustDrain = isOwnFull;
  if (!meeting)
    return own;
  DeviceRecord &record = meeting->next();
  record.mustDrain = isOwnFull;
  if (!plan.calls.empty())
    record.call = plan.calls.front().key;
  if (Status status = exchange(record, own); !status.isOk())
    return status;
  for (int peer = 0; peer < numRanks; ++peer) {
    mustDrain |= meeting->heard(peer).mustDrain != 0;
    Status status = compareCalls(meeting->heard(0).call, meeting->heard(peer).call, peer);
    if (!status.isOk())
      return status;
  }
  return {};
}

Status DeviceState::drain() {
  Status own = waitForLaunches();
  if (!meeting)
    freePlans();
  if (!meeting || !own.isOk())
    return own;
  // Peers unmap before owners free.
  if (peers && retired.empty())
    peers->closeAll();
  Status status = exchange(meeting->next(), {});
  if (status.isOk())
    freePlans();
  return status;
}

Result<DeviceRecord> DeviceState::describe(const DevicePlan &plan) const {
  DeviceRecord record;
  record.call = plan.calls.front().key;
  for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role) {
    Result<DeviceLocation> location = peers->describe(memoryOf(plan, 0, role));
    if (!location.isOk())
      return location.status();
    record.buffers[role] = *location;
  }
  Result<DeviceLocation> location = peers->describe(plan.counters->ranks.front().semaphores.data());
  if (!location.isOk())
    return location.status();
  record.semaphores = *location;
  return record;
}

void *DeviceState::memoryOf(const DevicePlan &plan, size_t local, size_t role) const {
  switch (role) {
  case KOLO_INPUT:
    return plan.inputOf(local);
  case KOLO_OUTPUT:
    return plan.calls[local].output;
  case KOLO_SCRATCH:
    return plan.scratch->ranks[local].data();
  case KOLO_PACKETS:
    return plan.scratch->packets[local].data();
  }
  return nullptr;
}

Result<PlanAddresses> DeviceState::resolve(const DevicePlan &plan) {
  PlanAddresses addresses;
  addresses.abort = static_cast<uint64_t *>(abortFlag.data());
  addresses.pollLimit = static_cast<uint64_t>(options.timeoutMs) * pollsPerMs;
  addresses.numLanes = options.lanes;
  auto size = static_cast<size_t>(numRanks);
  for (auto &row : addresses.buffers)
    row.resize(size);
  addresses.semaphores.resize(size);
  for (size_t local = 0; local < locals.size(); ++local) {
    auto rank = static_cast<size_t>(locals[local].rank);
    for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role)
      addresses.buffers[role][rank] = memoryOf(plan, local, role);
    addresses.semaphores[rank] = plan.counters->ranks[local].semaphores.data();
  }
  for (int peer = 0; meeting && peer < numRanks; ++peer) {
    if (peer == meeting->rank())
      continue;
    auto map = [&](const DeviceLocation &location, void *&address) {
      Result<void *> found = peers->resolve(peer, location);
      address = found.isOk() ? *found : nullptr;
      return found.status();
    };
    const DeviceRecord &record = meeting->heard(peer);
    auto index = static_cast<size_t>(peer);
    for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role)
      if (Status status = map(record.buffers[role], addresses.buffers[role][index]); !status.isOk())
        return status;
    if (Status status = map(record.semaphores, addresses.semaphores[index]); !status.isOk())
      return status;
  }
  return addresses;
}

} // namespace kolo::runtime
