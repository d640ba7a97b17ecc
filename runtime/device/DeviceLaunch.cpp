// Launches a plan: one launch per device and stream, or per piece, ordered after earlier launches.
#include "device/DeviceState.h"

#include "base/Error.h"

#include <algorithm>
#include <utility>

namespace kolo::runtime {

Status DeviceState::launch(DevicePlan &plan, std::span<const StreamHandle> streams) {
  if (meeting) {
    meeting->setRunning(true);
    // A peer that aborted frees its memory once it sees no rank running. So this rank looks after it has said so.
    if (meeting->peers().isAborted())
      return meeting->peers().abortCause();
  }
  if (plan.isStaged)
    return launchStaged(plan, streams.front());
  if (locals.size() == 1) {
    LocalRank *const group[] = {&locals.front()};
    return launchDirect(plan, group, streams.front());
  }
  // A device's table has its ranks in the order of `locals`.
  for (size_t device = 0; device < devices.size(); ++device) {
    std::vector<LocalRank *> group;
    StreamHandle stream = nullptr;
    for (size_t index = 0; index < locals.size(); ++index) {
      if (locals[index].device != device)
        continue;
      if (!group.empty() && streams[index] != stream) {
        if (Status status = launchDirect(plan, group, stream); !status.isOk())
          return status;
        group.clear();
      }
      stream = streams[index];
      group.push_back(&locals[index]);
    }
    if (Status status = launchDirect(plan, group, stream); !status.isOk())
      return status;
  }
  return {};
}

/// All launches of a call wait for each other. So no stream may have two of them, and each needs a hardware queue.
Status DeviceState::checkStreams(std::span<const StreamHandle> streams) const {
  for (size_t device = 0; device < devices.size(); ++device) {
    std::vector<size_t> lasts; // of each launch, the last rank
    for (size_t index = 0; index < locals.size(); ++index) {
      if (locals[index].device != device)
        continue;
      if (!lasts.empty() && streams[lasts.back()] == streams[index]) {
        lasts.back() = index;
        continue;
      }
      for (size_t last : lasts)
        if (streams[last] == streams[index])
          return error(StatusCode::InvalidArgument,
                       "ranks {} and {} are on one stream of device {}, and rank {} between them on another",
                       locals[last].rank, locals[index].rank, devices[device]->ordinal(), locals[lasts.back()].rank);
      lasts.push_back(index);
    }
    const OpenDevice &on = *devices[device];
    if (lasts.size() > 1 && lasts.size() > static_cast<size_t>(on.description().numQueues))
      return error(StatusCode::InvalidArgument,
                   "{} streams of one call wait for each other on device {}, which has {} hardware queues: set {}",
                   lasts.size(), on.ordinal(), on.description().numQueues, queuesVariable());
  }
  return {};
}

Result<bool> DeviceState::isCapturing(const OpenDevice &device, StreamHandle stream) const {
  int32_t answer = 0;
  Status status = device.status(device.driver().isCapturing(device.ordinal(), stream, &answer), "looking at a stream");
  return status.isOk() ? Result<bool>(answer != 0) : Result<bool>(status);
}

void DeviceState::noteCapture(DevicePlan &plan) {
  plan.isCaptured = true;
  for (DevicePlan::Pieces *pieces : {&plan.pieces, &plan.rest})
    if (pieces->shape)
      pieces->shape->isCaptured = true;
}

Status DeviceState::launchDirect(DevicePlan &plan, std::span<LocalRank *const> group, StreamHandle stream) {
  Result<bool> isInGraph = isCapturing(*devices[group.front()->device], stream);
  if (!isInGraph.isOk())
    return isInGraph.status();
  if (!*isInGraph)
    if (Status status = orderAfterEarlier(group, stream); !status.isOk())
      return status;
  for (LocalRank *local : group)
    if (Status status = copyAside(plan, static_cast<size_t>(local - locals.data()), stream); !status.isOk())
      return status;
  if (Status status = launchKernel(plan, *plan.pieces.tables[0], group, stream); !status.isOk())
    return status;
  if (!*isInGraph)
    return noteLaunch(group, stream);
  noteCapture(plan);
  return {};
}

/// The caller orders a graph after other work when it launches the graph.
Status DeviceState::orderAfterEarlier(std::span<LocalRank *const> group, StreamHandle stream) const {
  const OpenDevice &device = *devices[group.front()->device];
  for (const LocalRank *local : group)
    if (local->hasLaunched && local->stream != stream)
      if (Status status = device.status(
              device.driver().waitForEvent(device.ordinal(), stream, local->launched->handle()), "ordering streams");
          !status.isOk())
        return status;
  return {};
}

/// One event for all ranks of the launch: a device takes more than a microsecond to record one.
Status DeviceState::noteLaunch(std::span<LocalRank *const> group, StreamHandle stream) {
  Result<std::shared_ptr<const DeviceEvent>> event = eventFor(group);
  if (!event.isOk())
    return event.status();
  if (Status status = (*event)->record(stream); !status.isOk())
    return status;
  for (LocalRank *local : group) {
    local->launched = *event;
    local->stream = stream;
    local->hasLaunched = true;
  }
  return {};
}

/// One that tells of no launch but the last one of these ranks. Events are kept: a driver may wait for what they tell
/// of before it frees them.
Result<std::shared_ptr<const DeviceEvent>> DeviceState::eventFor(std::span<LocalRank *const> group) {
  const std::shared_ptr<const DeviceEvent> &last = group.front()->launched;
  auto isLast = [&](const LocalRank *local) { return local->launched == last; };
  constexpr long ofPool = 1;
  if (last && last.use_count() == ofPool + std::ranges::count_if(group, isLast))
    return last;
  const size_t device = group.front()->device;
  for (const std::shared_ptr<const DeviceEvent> &event : events[device])
    if (event.use_count() == ofPool)
      return event;
  if (Status status = addEvent(device); !status.isOk())
    return status;
  return events[device].back();
}

Status DeviceState::launchKernel(const DevicePlan &plan, const DeviceTable &table, std::span<LocalRank *const> group,
                                 StreamHandle stream) const {
  const size_t number = group.front()->device;
  const OpenDevice &device = *devices[number];
  KoloDriverLaunch launch = {};
  launch.kernel = &plan.images[number]->kernels[static_cast<size_t>(plan.calls.front().key.program)];
  launch.gridX = static_cast<uint32_t>(options.lanes);
  launch.gridY = static_cast<uint32_t>(group.size());
  launch.numThreads = static_cast<uint32_t>(options.threads);
  launch.stream = stream;
  launch.argument = static_cast<const KoloDeviceInvocation *>(table[number].data()) + group.front()->position;
  launch.isTogether =
      device.description().canLaunchTogether && group.size() == static_cast<size_t>(ranksOnDevice[number]);
  int32_t code = device.driver().launch(device.ordinal(), &launch);
  if (code == KOLO_DRIVER_OK)
    return {};
  return device.status(code, fmt::format("launching program '{}'", plan.calls.front().info->name));
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

/// Outside of a graph, copies of one piece overlap the kernel of another. In a graph, pieces follow each other.
Status DeviceState::launchStaged(DevicePlan &plan, StreamHandle stream) {
  LocalRank *const group[] = {&locals.front()};
  const OpenDevice &device = *devices.front();
  Result<bool> isInGraph = isCapturing(device, stream);
  if (!isInGraph.isOk())
    return isInGraph.status();
  if (!*isInGraph)
    if (Status status = orderAfterEarlier(group, stream); !status.isOk())
      return status;
  if (Status status = copyAside(plan, 0, stream); !status.isOk())
    return status;
  const int64_t numPieces = plan.numPieces();
  bool isOverlapped = numPieces > 1 && !*isInGraph;
  if (isOverlapped) {
    if (Status status = openSideStreams(); !status.isOk())
      return status;
    isOverlapped = side.in != nullptr;
  }
  auto wait = [&](StreamHandle waiting, const DeviceEvent &event) {
    return device.status(device.driver().waitForEvent(device.ordinal(), waiting, event.handle()), "ordering pieces");
  };
  if (isOverlapped) {
    if (Status status = side.begun.record(stream); !status.isOk())
      return status;
    for (StreamHandle copying : {side.in, side.out})
      if (Status status = wait(copying, side.begun); !status.isOk())
        return status;
  }
  for (int64_t index = 0; index < numPieces; ++index)
    if (Status status = launchPiece(plan, index, stream, isOverlapped); !status.isOk())
      return status;
  if (isOverlapped)
    if (Status status = wait(stream, side.copiedOut[(numPieces - 1) % 2]); !status.isOk())
      return status;
  if (!*isInGraph)
    return noteLaunch(group, stream);
  noteCapture(plan);
  return {};
}

/// The turns of the staging memory alternate: the copy into one waits for the kernel that used it last, and the kernel
/// that writes one waits for the copy out of it.
Status DeviceState::launchPiece(const DevicePlan &plan, int64_t index, StreamHandle stream, bool isOverlapped) {
  LocalRank *const group[] = {&locals.front()};
  const OpenDevice &device = *devices.front();
  const auto turn = static_cast<size_t>(index % 2);
  auto order = [&](const DeviceEvent &event, StreamHandle before, StreamHandle after) {
    if (!isOverlapped)
      return Status();
    if (Status status = event.record(before); !status.isOk())
      return status;
    return device.status(device.driver().waitForEvent(device.ordinal(), after, event.handle()), "ordering pieces");
  };
  auto waitAgain = [&](const DeviceEvent &event, StreamHandle waiting) {
    return isOverlapped && index >= 2
               ? device.status(device.driver().waitForEvent(device.ordinal(), waiting, event.handle()),
                               "ordering pieces")
               : Status();
  };
  StreamHandle in = isOverlapped ? side.in : stream, out = isOverlapped ? side.out : stream;
  if (Status status = waitAgain(side.ran[turn], in); !status.isOk())
    return status;
  if (Status status = copyPiece(plan, index, true, in); !status.isOk())
    return status;
  if (Status status = order(side.copiedIn[turn], in, stream); !status.isOk())
    return status;
  if (Status status = waitAgain(side.copiedOut[turn], stream); !status.isOk())
    return status;
  const DevicePlan::Pieces &pieces = plan.piecesOf(index);
  if (Status status = launchKernel(plan, *pieces.tables[turn], group, stream); !status.isOk())
    return status;
  if (Status status = order(side.ran[turn], stream, out); !status.isOk())
    return status;
  if (Status status = copyPiece(plan, index, false, out); !status.isOk())
    return status;
  return isOverlapped ? side.copiedOut[turn].record(out) : Status();
}

/// Copies one piece between the user's buffer and the staging memory, block by block.
Status DeviceState::copyPiece(const DevicePlan &plan, int64_t index, bool isInput, StreamHandle stream) const {
  const Call &call = plan.calls.front();
  const DevicePlan::Pieces &pieces = plan.piecesOf(index);
  const OpenDevice &device = *devices.front();
  const int64_t blocks = isInput ? call.extent.input : call.extent.output;
  const int64_t begin = index * plan.pieces.count * call.elementBytes, sizeBytes = pieces.count * call.elementBytes;
  auto *staged = static_cast<std::byte *>(
      bufferOf(plan, pieces, static_cast<size_t>(index % 2), isInput ? KOLO_INPUT : KOLO_OUTPUT, locals.front().rank));
  auto *own = isInput ? static_cast<std::byte *>(plan.inputOf(0)) : call.output;
  if (sizeBytes == 0)
    return {};
  bool isOnePiece = plan.numPieces() == 1; // then the blocks follow each other in both
  for (int64_t block = 0; block < (isOnePiece ? std::min<int64_t>(blocks, 1) : blocks); ++block) {
    std::byte *here = own + block * call.unitBytes() + begin, *there = staged + block * sizeBytes;
    int32_t code = device.driver().copy(device.ordinal(), isInput ? there : here, isInput ? here : there,
                                        static_cast<uint64_t>(isOnePiece ? blocks * sizeBytes : sizeBytes), stream);
    if (Status status = device.status(code, isInput ? "copying the input" : "copying the output"); !status.isOk())
      return status;
  }
  return {};
}

} // namespace kolo::runtime
