// Runs a call: finds its plan, or agrees on a new one, and launches it.
#include "device/DeviceState.h"

#include "Error.h"

namespace kolo::runtime {

Status DeviceState::run(std::shared_ptr<const PluginState> plugin, const CallArguments &arguments,
                        std::span<const RankBuffers> buffers, std::span<const StreamHandle> streams) {
  if (Status status = query(); !status.isOk())
    return status;
  if (Status status = checkSpans(buffers, streams); !status.isOk())
    return status;
  locateBuffers(buffers);
  if (Status status = exchangeNumbers(numberOf({plugin->load, arguments})); !status.isOk())
    return fail(status);
  DevicePlan *plan = findPlan();
  if (!plan) {
    auto fresh = std::make_unique<DevicePlan>(std::move(plugin), arguments);
    fresh->buffers = called;
    fresh->numbers = numbers;
    Result<DevicePlan *> agreed = agree(std::move(fresh));
    if (!agreed.isOk())
      return agreed.status();
    plan = *agreed;
  }
  Status status = launch(*plan, streams);
  return status.isOk() ? status : fail(status);
}

Status DeviceState::checkSpans(std::span<const RankBuffers> buffers, std::span<const StreamHandle> streams) const {
  for (size_t number : {buffers.size(), streams.size()})
    if (number != locals.size())
      return error(StatusCode::InvalidArgument, "{} ranks are here, and the call is for {}", locals.size(), number);
  return {};
}

/// Notes what this process calls with.
void DeviceState::locateBuffers(std::span<const RankBuffers> buffers) {
  const OpenDevice &device = *devices.front();
  bool isMapped = peers && peers->haveOwnProcesses();
  auto allocationOf = [&](const void *memory) {
    KoloDriverRange range = {};
    bool isKnown = memory && isMapped && device.driver().locate(device.ordinal(), memory, &range) == KOLO_DRIVER_OK;
    return isKnown ? range.id : 0;
  };
  called.clear();
  for (const RankBuffers &own : buffers)
    called.push_back({own.input, own.output, allocationOf(own.input), allocationOf(own.output)});
}

/// This process's number of a call on `called`: the one that it gave an equal call of a plan, or a new one. No two
/// different calls ever have one number.
uint64_t DeviceState::numberOf(const CallIdentity &call) {
  const size_t self = meeting ? static_cast<size_t>(meeting->rank()) : 0;
  for (size_t i = 0; i < plans.size(); ++i) {
    const DevicePlan &plan = *plans[(lastPlan + i) % plans.size()];
    if (plan.buffers == called && plan.request.identity() == call)
      return plan.numbers[self];
  }
  return ++lastNumber;
}

/// Every rank says its number of the call. All know the same numbers then, so all find the same plan, or none does.
Status DeviceState::exchangeNumbers(uint64_t own) {
  numbers.assign(1, own);
  if (!meeting)
    return {};
  meeting->next().callNumber = own;
  if (Status status = meeting->perform(); !status.isOk())
    return status;
  numbers.clear();
  for (int peer = 0; peer < numRanks; ++peer)
    numbers.push_back(meeting->heard(peer).callNumber);
  return {};
}

DevicePlan *DeviceState::findPlan() {
  for (size_t i = 0; i < plans.size(); ++i) {
    size_t index = (lastPlan + i) % plans.size();
    if (plans[index]->numbers != numbers)
      continue;
    lastPlan = index;
    return plans[index].get();
  }
  return nullptr;
}

} // namespace kolo::runtime
