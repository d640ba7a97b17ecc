#include "device/DeviceLaunches.h"

#include <algorithm>

namespace kolo::runtime {

Status DeviceLaunches::open() {
  lasts.resize(ranks.locals.size());
  events.resize(ranks.devices.size());
  for (const LocalRank &local : ranks.locals)
    if (Status status = addEvent(local.device); !status.isOk())
      return status;
  return {};
}

Status DeviceLaunches::addEvent(size_t device) {
  Result<DeviceEvent> made = DeviceEvent::create(ranks.devices[device]);
  if (!made.isOk())
    return made.status();
  events[device].push_back(std::make_shared<const DeviceEvent>(std::move(made).value()));
  return {};
}

/// The caller orders a graph after other work when it launches the graph.
Status DeviceLaunches::orderAfterEarlier(LaunchGroup group, StreamHandle stream) const {
  const OpenDevice &device = *ranks.devices[ranks.locals[group.front()].device];
  for (size_t local : group)
    if (const LastLaunch &last = lasts[local]; last.event && last.stream != stream)
      if (Status status = device.status(device.driver().waitForEvent(device.ordinal(), stream, last.event->handle()),
                                        "ordering streams");
          !status.isOk())
        return status;
  return {};
}

/// One event for all ranks of the launch: a device takes more than a microsecond to record one.
Status DeviceLaunches::note(LaunchGroup group, StreamHandle stream) {
  Result<std::shared_ptr<const DeviceEvent>> event = eventFor(group);
  if (!event.isOk())
    return event.status();
  if (Status status = (*event)->record(stream); !status.isOk())
    return status;
  for (size_t local : group)
    lasts[local] = {*event, stream};
  return {};
}

/// One that tells of no launch but the last one of these ranks. Events are kept: a driver may wait for what they tell
/// of before it frees them.
Result<std::shared_ptr<const DeviceEvent>> DeviceLaunches::eventFor(LaunchGroup group) {
  const std::shared_ptr<const DeviceEvent> &last = lasts[group.front()].event;
  auto isLast = [&](size_t local) { return lasts[local].event == last; };
  constexpr long ofPool = 1;
  if (last && last.use_count() == ofPool + std::ranges::count_if(group, isLast))
    return last;
  const size_t device = ranks.locals[group.front()].device;
  for (const std::shared_ptr<const DeviceEvent> &event : events[device])
    if (event.use_count() == ofPool)
      return event;
  if (Status status = addEvent(device); !status.isOk())
    return status;
  return events[device].back();
}

Result<bool> DeviceLaunches::areDone() const {
  for (const LastLaunch &last : lasts) {
    if (!last.event)
      continue;
    Result<bool> isDone = last.event->isDone();
    if (!isDone.isOk() || !*isDone)
      return isDone;
  }
  return true;
}

std::vector<std::shared_ptr<const DeviceEvent>> DeviceLaunches::lastEvents() const {
  std::vector<std::shared_ptr<const DeviceEvent>> launched;
  for (const LastLaunch &last : lasts)
    if (last.event)
      launched.push_back(last.event);
  return launched;
}

} // namespace kolo::runtime
