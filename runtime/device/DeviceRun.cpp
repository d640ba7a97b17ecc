// Runs a call: finds its plan, or makes it, and launches it. Everything here but `makeRoom` is local.
#include "device/DeviceState.h"

#include "base/Error.h"

namespace kolo::runtime {
namespace {

constexpr size_t mostPlans = 256;

} // namespace

Status DeviceState::run(std::shared_ptr<const PluginState> plugin, const CallArguments &arguments,
                        std::span<const RankBuffers> buffers, std::span<const StreamHandle> streams) {
  if (Status status = checkSpans(buffers, streams.size()); !status.isOk())
    return status;
  if (Status status = checkStreams(streams); !status.isOk())
    return status;
  Result<PreparedCall> call = prepare(std::move(plugin), arguments, buffers);
  if (!call.isOk())
    return call.status();
  if (call->fresh)
    if (Status status = makeRoom(*call); !status.isOk())
      return status;
  return start(*call->plan, streams);
}

Status DeviceState::start(DevicePlan &plan, std::span<const StreamHandle> streams) {
  Status status = launch(plan, streams);
  return status.isOk() ? status : fail(status);
}

Status DeviceState::checkSpans(std::span<const RankBuffers> buffers, size_t numStreams) const {
  for (size_t number : {buffers.size(), numStreams})
    if (number != locals.size())
      return error(StatusCode::InvalidArgument, "{} ranks are here, and the call is for {}", locals.size(), number);
  return {};
}

Result<PreparedCall> DeviceState::prepare(std::shared_ptr<const PluginState> plugin, const CallArguments &arguments,
                                          std::span<const RankBuffers> buffers) {
  if (Status status = checkUsable(); !status.isOk())
    return status;
  locateBuffers(buffers);
  DevicePlan *plan = findPlan({plugin->load, arguments});
  if (!plan)
    return prepareNew(std::move(plugin), arguments);
  if (Status status = announce(*plan, {}); !status.isOk())
    return status;
  return PreparedCall{plan, nullptr};
}

/// Notes what this process calls with.
void DeviceState::locateBuffers(std::span<const RankBuffers> buffers) {
  called.clear();
  for (const RankBuffers &own : buffers)
    called.push_back({own.input, own.output, meeting ? windowAt(own.input) : 0, meeting ? windowAt(own.output) : 0});
}

DevicePlan *DeviceState::findPlan(const CallIdentity &call) {
  for (size_t i = 0; i < plans.size(); ++i) {
    size_t index = (lastPlan + i) % plans.size();
    if (plans[index]->buffers != called || !(plans[index]->request.identity() == call))
      continue;
    lastPlan = index;
    return plans[index].get();
  }
  return nullptr;
}

/// Announces a call of this rank, and aborts the communicator if neighbours disagree.
Status DeviceState::announce(const DevicePlan &plan, const Status &refusal) {
  if (!meeting)
    return {};
  Status status = meeting->announce(plan.key, refusal);
  return status.isOk() ? status : fail(status);
}

Result<PreparedCall> DeviceState::prepareNew(std::shared_ptr<const PluginState> plugin,
                                             const CallArguments &arguments) {
  Relaxed relaxed(devices.front()->driver());
  PreparedCall call;
  call.fresh = std::make_unique<DevicePlan>(std::move(plugin), arguments);
  call.fresh->buffers = called;
  Status refusal = guarded([&] { return check(*call.fresh); });
  if (Status status = announce(*call.fresh, refusal); !status.isOk())
    return status;
  if (!refusal.isOk())
    return refusal;
  if (plans.size() >= mostPlans)
    retirePlans();
  Result<bool> isReserved = guarded([&] { return reserve(*call.fresh); });
  if (!isReserved.isOk())
    return meeting ? fail(isReserved.status()) : isReserved.status();
  if (!*isReserved)
    return call;
  Result<DevicePlan *> plan = complete(std::move(call.fresh));
  if (!plan.isOk())
    return plan.status();
  return PreparedCall{*plan, nullptr};
}

Status DeviceState::makeRoom(PreparedCall &call) {
  Relaxed relaxed(devices.front()->driver());
  DevicePlan &plan = *call.fresh;
  const std::vector<size_t> sizes = sizesFor(plan);
  const size_t needed = DeviceHeap::roomFor(sizes);
  if (isFull(needed, sizes.size()))
    if (Status status = drain(); !status.isOk())
      return meeting ? fail(status) : status;
  Result<bool> isReserved = guarded([&] { return reserve(plan); });
  if (isReserved.isOk() && !*isReserved) {
    constexpr size_t least = size_t(64) << 10, most = size_t(64) << 20;
    size_t sizeBytes = std::max({needed, least, std::min(heap.sizeBytes(), most)});
    if (Status status = growHeap(sizeBytes); !status.isOk())
      return status.code() == StatusCode::Mismatch ? fail(status) : status;
    isReserved = guarded([&] { return reserve(plan); });
    if (isReserved.isOk() && !*isReserved)
      isReserved =
          error(StatusCode::OutOfMemory, "graphs hold {} shapes of calls, and no more can be kept", shapes.size());
  }
  if (!isReserved.isOk())
    return meeting ? fail(isReserved.status()) : isReserved.status();
  Result<DevicePlan *> completed = complete(std::move(call.fresh));
  if (completed.isOk())
    call.plan = *completed;
  return completed.status();
}

/// The last part of a new plan, which needs its internal memory. Peers may already run the call, so a failure aborts.
Result<DevicePlan *> DeviceState::complete(std::unique_ptr<DevicePlan> plan) {
  Status status = guarded([&]() -> Status {
    for (DevicePlan::Pieces *pieces : {&plan->pieces, &plan->rest})
      if (pieces->shape)
        if (Status written = writeTables(*plan, *pieces); !written.isOk())
          return written;
    return {};
  });
  if (!status.isOk())
    return meeting ? fail(status) : status;
  plans.push_back(std::move(plan));
  lastPlan = plans.size() - 1;
  return plans.back().get();
}

} // namespace kolo::runtime
