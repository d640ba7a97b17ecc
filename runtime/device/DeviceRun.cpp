// Runs a call: finds its plan, or makes it, and launches it. Everything here but `makeRoom` is local.
#include "device/DeviceState.h"

#include "base/Error.h"
#include "device/DeviceChecks.h"

namespace kolo::runtime {

Status DeviceState::run(std::shared_ptr<const PluginState> plugin, const CallArguments &arguments,
                        std::span<const RankBuffers> buffers, std::span<const StreamHandle> streams) {
  for (size_t number : {buffers.size(), streams.size()})
    if (number != all.locals.size())
      return error(StatusCode::InvalidArgument, "{} ranks are here, and the call is for {}", all.locals.size(), number);
  if (Status status = launcher.checkStreams(streams); !status.isOk())
    return status;
  Result<PreparedCall> call = prepare(std::move(plugin), arguments, buffers);
  if (!call.isOk())
    return call.status();
  if (call->fresh)
    if (Status status = makeRoom(*call); !status.isOk())
      return status;
  return start(*call->plan, streams);
}

Result<uint64_t> DeviceState::windowOf(const void *memory, size_t sizeBytes) const {
  if (!all.meeting)
    return error(StatusCode::InvalidArgument, "all {} ranks are here, and need no windows", all.size);
  const uint64_t number = windows.numberAt(memory);
  if (number == 0) {
    Relaxed relaxed(all.devices.front()->driver());
    Status status = checkBuffer(all, 0, {"memory", memory, sizeBytes}, DeviceAccess::ByOwnRank);
    return status.isOk() ? Result<uint64_t>(0) : Result<uint64_t>(status);
  }
  if (size_t left = windows.leftAt(windows.placeOf(number, memory)); sizeBytes > left)
    return error(StatusCode::InvalidArgument, "memory has {} bytes, and only {} are left in its window", sizeBytes,
                 left);
  return number;
}

Status DeviceState::start(DevicePlan &plan, std::span<const StreamHandle> streams) {
  Status status = launcher.launch(plan, streams);
  return status.isOk() ? status : watch.fail(status);
}

Result<PreparedCall> DeviceState::prepare(std::shared_ptr<const PluginState> plugin, const CallArguments &arguments,
                                          std::span<const RankBuffers> buffers) {
  if (Status status = watch.checkUsable(); !status.isOk())
    return status;
  called.clear();
  for (const RankBuffers &own : buffers)
    called.push_back(places.locate(own));
  // The tables are those of the ranks' buffers. `count` may bound their blocks, so calls that differ in it differ.
  CallArguments named = arguments;
  named.blocks = nullptr;
  DevicePlan *plan = plans.find({plugin->load, named}, called);
  if (!plan)
    return prepareNew(std::move(plugin), named);
  if (Status status = announce(*plan, {}, false); !status.isOk())
    return status;
  return PreparedCall{plan, nullptr};
}

/// Announces a call of this rank, and aborts the communicator if ranks disagree.
Status DeviceState::announce(const DevicePlan &plan, const Status &refusal, bool isNew) {
  if (!all.meeting)
    return {};
  const Call *tabled = refusal.isOk() && plan.hasBlocks() ? &plan.calls.front() : nullptr;
  Status status = all.meeting->announce(plan.key, refusal, tabled, isNew);
  return status.isOk() ? status : watch.fail(status);
}

Result<PreparedCall> DeviceState::prepareNew(std::shared_ptr<const PluginState> plugin,
                                             const CallArguments &arguments) {
  Relaxed relaxed(all.devices.front()->driver());
  PreparedCall call;
  call.fresh = std::make_unique<DevicePlan>(std::move(plugin), arguments, called);
  Status refusal = guarded([&] { return checkPlan(*call.fresh, all, places); });
  if (Status status = announce(*call.fresh, refusal, true); !status.isOk())
    return status;
  if (!refusal.isOk())
    return refusal;
  plans.makeRoom();
  Result<bool> isReserved = guarded([&] { return resources.reserve(*call.fresh); });
  if (!isReserved.isOk())
    return watch.failBeforePeers(isReserved.status());
  if (!*isReserved)
    return call;
  Result<DevicePlan *> plan = complete(std::move(call.fresh));
  if (!plan.isOk())
    return plan.status();
  return PreparedCall{*plan, nullptr};
}

Status DeviceState::makeRoom(PreparedCall &call) {
  Relaxed relaxed(all.devices.front()->driver());
  DevicePlan &plan = *call.fresh;
  if (resources.isFull(plan))
    if (Status status = drain(); !status.isOk())
      return watch.failBeforePeers(status);
  Result<bool> isReserved = guarded([&] { return resources.reserve(plan); });
  if (isReserved.isOk() && !*isReserved) {
    if (Status status = resources.growFor(plan); !status.isOk())
      return status.code() == StatusCode::Mismatch ? watch.fail(status) : status;
    isReserved = guarded([&] { return resources.reserve(plan); });
    if (isReserved.isOk() && !*isReserved)
      isReserved = error(StatusCode::OutOfMemory, "graphs hold {} shapes of calls, and no more can be kept",
                         resources.numShapes());
  }
  if (!isReserved.isOk())
    return watch.failBeforePeers(isReserved.status());
  Result<DevicePlan *> completed = complete(std::move(call.fresh));
  if (completed.isOk())
    call.plan = *completed;
  return completed.status();
}

/// The last part of a new plan, which needs its internal memory. Peers may already run the call, so a failure aborts.
Result<DevicePlan *> DeviceState::complete(std::unique_ptr<DevicePlan> plan) {
  Result<DevicePlan *> added = guarded([&] { return plans.add(std::move(plan), watch.flag()); });
  return added.isOk() ? added : watch.failBeforePeers(added.status());
}

/// Frees the memory of all shapes that no graph uses. Collective.
Status DeviceState::drain() {
  if (Status status = watch.waitForLaunches(); !status.isOk())
    return status;
  std::bitset<mostShapes> kept = resources.captured();
  if (all.meeting) {
    DeviceRecord &record = all.meeting->next();
    record.purpose = DevicePurpose::Drain;
    record.captured = kept;
    if (Status status = watch.exchange(record, {}); !status.isOk())
      return status;
    kept = all.meeting->said().captured();
  }
  plans.free();
  Status own = resources.freeShapes(kept);
  if (!all.meeting)
    return own;
  DeviceRecord &record = all.meeting->next();
  record.purpose = DevicePurpose::Drain;
  return watch.exchange(record, own);
}

DeviceState::~DeviceState() {
  if (!all.devices.empty())
    ending.emplace(all.devices.front()->driver());
  if (all.meeting && !haveAllOpened) { // a rank that could not may have left; nobody has memory of others
    all.meeting->leave(false);
    return;
  }
  if (!watch.isOpen())
    return;
  if (watch.hasFailed())
    watch.abortLaunches();
  bool isWell = watch.waitForLaunches(DeviceWatch::AfterAbort::Wait).isOk() && !watch.hasFailed();
  launcher.closeSideStreams();
  if (!all.meeting)
    return;
  network.endRequests();
  // Peers unmap this rank's memory before this rank frees it, and the other way round.
  resources.unmapPeers();
  network.unmapPeers();
  windows.clear();
  all.meeting->leave(isWell);
  network.end();
  // A network writes to memory that this rank owns until the communicator of the host has left.
  all.meeting.reset();
}

} // namespace kolo::runtime
