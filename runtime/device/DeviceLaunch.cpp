// Launches a plan: one launch per device and stream, ordered after earlier launches.
#include "device/DeviceState.h"

#include "Error.h"

namespace kolo::runtime {

Status DeviceState::launch(DevicePlan &plan, std::span<const StreamHandle> streams) {
  if (meeting)
    meeting->setRunning(true);
  // A device's table has its ranks in the order of `locals`.
  for (size_t device = 0; device < devices.size(); ++device) {
    std::vector<LocalRank *> group;
    StreamHandle stream = nullptr;
    for (size_t index = 0; index < locals.size(); ++index) {
      if (locals[index].device != device)
        continue;
      if (!group.empty() && streams[index] != stream) {
        if (Status status = launchGroup(plan, group, stream); !status.isOk())
          return status;
        group.clear();
      }
      stream = streams[index];
      group.push_back(&locals[index]);
    }
    if (Status status = launchGroup(plan, group, stream); !status.isOk())
      return status;
  }
  return {};
}

Status DeviceState::launchGroup(DevicePlan &plan, std::span<LocalRank *const> group, StreamHandle stream) {
  const size_t number = group.front()->device;
  const OpenDevice &device = *devices[number];
  const KoloDeviceDriver &driver = device.driver();
  int32_t isCapturing = 0;
  if (Status status = device.status(driver.isCapturing(device.ordinal(), stream, &isCapturing), "looking at a stream");
      !status.isOk())
    return status;
  for (LocalRank *local : group) {
    // The caller orders a graph after other work when it launches the graph.
    if (!isCapturing && local->hasLaunched && local->stream != stream)
      if (Status status = device.status(driver.waitForEvent(device.ordinal(), stream, local->launched.handle()),
                                        "ordering streams");
          !status.isOk())
        return status;
    if (Status status = copyAside(plan, static_cast<size_t>(local - locals.data()), stream); !status.isOk())
      return status;
  }
  KoloDriverLaunch launch = {};
  launch.kernel = &plan.images[number]->kernels[static_cast<size_t>(plan.calls.front().key.program)];
  launch.gridX = static_cast<uint32_t>(options.lanes);
  launch.gridY = static_cast<uint32_t>(group.size());
  launch.numThreads = static_cast<uint32_t>(options.threads);
  launch.stream = stream;
  launch.argument = static_cast<const KoloDeviceInvocation *>(plan.tables[number].data()) + group.front()->position;
  launch.isTogether =
      device.description().canLaunchTogether && group.size() == static_cast<size_t>(ranksOnDevice[number]);
  if (Status status = device.status(driver.launch(device.ordinal(), &launch),
                                    fmt::format("launching program '{}'", plan.calls.front().info->name));
      !status.isOk())
    return status;
  if (isCapturing) {
    plan.isCaptured = true;
    return {};
  }
  for (LocalRank *local : group) {
    if (Status status = local->launched.record(stream); !status.isOk())
      return status;
    local->stream = stream;
    local->hasLaunched = true;
  }
  return {};
}

Status DeviceState::copyAside(const DevicePlan &plan, size_t local, StreamHandle stream) const {
  const DeviceMemory &aside = plan.aside[local];
  if (!aside.data())
    return {};
  const OpenDevice &device = aside.device();
  return device.status(
      device.driver().copy(device.ordinal(), aside.data(), plan.calls[local].input, aside.sizeBytes(), stream),
      "copying the input aside");
}

} // namespace kolo::runtime
