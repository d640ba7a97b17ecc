#include "device/DeviceLauncher.h"

#include "base/Error.h"

#include <algorithm>
#include <utility>

namespace kolo::runtime {
namespace {

constexpr size_t theOnly[] = {0}; // of a process with one rank

Result<bool> isCapturing(const OpenDevice &device, StreamHandle stream) {
  int32_t answer = 0;
  Status status = device.status(device.driver().isCapturing(device.ordinal(), stream, &answer), "looking at a stream");
  return status.isOk() ? Result<bool>(answer != 0) : Result<bool>(status);
}

Status orderPieces(const OpenDevice &device, StreamHandle waiting, const DeviceEvent &event) {
  return device.status(device.driver().waitForEvent(device.ordinal(), waiting, event.handle()), "ordering pieces");
}

Status copyAside(const DevicePlan &plan, size_t local, StreamHandle stream) {
  const DeviceMemory &aside = plan.aside[local];
  if (!aside.data())
    return {};
  const OpenDevice &device = aside.device();
  return device.status(
      device.driver().copy(device.ordinal(), aside.data(), plan.calls[local].input, aside.sizeBytes(), stream),
      "copying the input aside");
}

} // namespace

/// All launches of a call wait for each other. So no stream may have two of them, and each needs a hardware queue.
Status DeviceLauncher::checkStreams(std::span<const StreamHandle> streams) const {
  const std::vector<LocalRank> &locals = ranks.locals;
  for (size_t device = 0; device < ranks.devices.size(); ++device) {
    std::vector<size_t> lasts; // of each launch, the last rank
    const OpenDevice &on = *ranks.devices[device];
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
                       locals[last].rank, locals[index].rank, on.ordinal(), locals[lasts.back()].rank);
      lasts.push_back(index);
    }
    if (lasts.size() > 1 && lasts.size() > static_cast<size_t>(on.description().numQueues))
      return error(StatusCode::InvalidArgument,
                   "{} streams of one call wait for each other on device {}, which has {} hardware queues: set {}",
                   lasts.size(), on.ordinal(), on.description().numQueues, ranks.queuesVariable());
  }
  return {};
}

Status DeviceLauncher::launch(DevicePlan &plan, std::span<const StreamHandle> streams) {
  if (ranks.meeting) {
    ranks.meeting->setRunning(true);
    // A peer that aborted frees its memory once it sees no rank running. So this rank looks after it has said so.
    if (ranks.meeting->peers().isAborted())
      return ranks.meeting->peers().abortCause();
  }
  if (plan.isStaged)
    return launchStaged(plan, streams.front());
  if (ranks.locals.size() == 1)
    return launchDirect(plan, theOnly, streams.front());
  for (size_t device = 0; device < ranks.devices.size(); ++device)
    if (Status status = launchOnDevice(plan, device, streams); !status.isOk())
      return status;
  return {};
}

/// A device's table has its ranks in the order of `locals`.
Status DeviceLauncher::launchOnDevice(DevicePlan &plan, size_t device, std::span<const StreamHandle> streams) {
  std::vector<size_t> group;
  StreamHandle stream = nullptr;
  for (size_t index = 0; index < ranks.locals.size(); ++index) {
    if (ranks.locals[index].device != device)
      continue;
    if (!group.empty() && streams[index] != stream) {
      if (Status status = launchDirect(plan, group, stream); !status.isOk())
        return status;
      group.clear();
    }
    stream = streams[index];
    group.push_back(index);
  }
  return launchDirect(plan, group, stream);
}

Status DeviceLauncher::launchDirect(DevicePlan &plan, LaunchGroup group, StreamHandle stream) {
  Result<bool> isInGraph = isCapturing(*ranks.devices[ranks.locals[group.front()].device], stream);
  if (!isInGraph.isOk())
    return isInGraph.status();
  if (!*isInGraph)
    if (Status status = launches.orderAfterEarlier(group, stream); !status.isOk())
      return status;
  for (size_t local : group)
    if (Status status = copyAside(plan, local, stream); !status.isOk())
      return status;
  if (plan.sharesPlaces())
    if (Status status = sharePlaces(plan, stream); !status.isOk())
      return status;
  if (Status status = launchKernel(plan, *plan.pieces.tables[0], group, stream); !status.isOk())
    return status;
  if (!*isInGraph)
    return launches.note(group, stream);
  plan.noteCapture();
  return {};
}

/// A peer reads them when it accesses the buffers. So the last call's readers are done when its launch has ended.
Status DeviceLauncher::sharePlaces(const DevicePlan &plan, StreamHandle stream) const {
  const OpenDevice &device = *ranks.devices.front();
  return device.status(device.driver().copy(device.ordinal(), places.sharedPlacesOf(plan), sharedPlaces(plan, ranks),
                                            sharedPlacesBytes(ranks), stream),
                       "sharing the places of blocks");
}

Status DeviceLauncher::launchKernel(const DevicePlan &plan, const DeviceTable &table, LaunchGroup group,
                                    StreamHandle stream) const {
  const LocalRank &first = ranks.locals[group.front()];
  const OpenDevice &device = *ranks.devices[first.device];
  KoloDriverLaunch launch = {};
  launch.kernel = &plan.kernelOn(first.device);
  launch.gridX = static_cast<uint32_t>(plan.calls.front().numLanes);
  launch.gridY = static_cast<uint32_t>(group.size());
  launch.numThreads = static_cast<uint32_t>(ranks.options.threads);
  launch.stream = stream;
  launch.argument =
      static_cast<const std::byte *>(table[first.device].data()) + first.position * plan.invocationBytes();
  launch.isTogether =
      device.description().canLaunchTogether && group.size() == static_cast<size_t>(ranks.ranksOnDevice[first.device]);
  int32_t code = device.driver().launch(device.ordinal(), &launch);
  if (code == KOLO_DRIVER_OK)
    return {};
  return device.status(code, fmt::format("launching program '{}'", plan.calls.front().info->name));
}

/// Outside of a graph, copies of one piece overlap the kernel of another. In a graph, pieces follow each other.
Status DeviceLauncher::launchStaged(DevicePlan &plan, StreamHandle stream) {
  Result<bool> isInGraph = isCapturing(*ranks.devices.front(), stream);
  if (!isInGraph.isOk())
    return isInGraph.status();
  if (!*isInGraph)
    if (Status status = launches.orderAfterEarlier(theOnly, stream); !status.isOk())
      return status;
  if (Status status = copyAside(plan, 0, stream); !status.isOk())
    return status;
  if (Status status = launchPieces(plan, stream, !*isInGraph); !status.isOk())
    return status;
  if (!*isInGraph)
    return launches.note(theOnly, stream);
  plan.noteCapture();
  return {};
}

Status DeviceLauncher::launchPieces(const DevicePlan &plan, StreamHandle stream, bool mayOverlap) {
  const OpenDevice &device = *ranks.devices.front();
  const int64_t numPieces = plan.numPieces();
  bool isOverlapped = numPieces > 1 && mayOverlap;
  if (isOverlapped) {
    if (Status status = openSideStreams(); !status.isOk())
      return status;
    isOverlapped = side.in != nullptr;
  }
  if (isOverlapped) {
    if (Status status = side.begun.record(stream); !status.isOk())
      return status;
    for (StreamHandle copying : {side.in, side.out})
      if (Status status = orderPieces(device, copying, side.begun); !status.isOk())
        return status;
  }
  for (int64_t index = 0; index < numPieces; ++index)
    if (Status status = launchPiece(plan, index, stream, isOverlapped); !status.isOk())
      return status;
  return isOverlapped ? orderPieces(device, stream, side.copiedOut[(numPieces - 1) % 2]) : Status();
}

/// The turns of the staging memory alternate: the copy into one waits for the kernel that used it last, and the kernel
/// that writes one waits for the copy out of it.
Status DeviceLauncher::launchPiece(const DevicePlan &plan, int64_t index, StreamHandle stream, bool isOverlapped) {
  const OpenDevice &device = *ranks.devices.front();
  const auto turn = static_cast<size_t>(index % 2);
  auto order = [&](const DeviceEvent &event, StreamHandle before, StreamHandle after) {
    if (!isOverlapped)
      return Status();
    if (Status status = event.record(before); !status.isOk())
      return status;
    return orderPieces(device, after, event);
  };
  auto waitAgain = [&](const DeviceEvent &event, StreamHandle waiting) {
    return isOverlapped && index >= 2 ? orderPieces(device, waiting, event) : Status();
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
  if (Status status = launchKernel(plan, *plan.piecesOf(index).tables[turn], theOnly, stream); !status.isOk())
    return status;
  if (Status status = order(side.ran[turn], stream, out); !status.isOk())
    return status;
  if (Status status = copyPiece(plan, index, false, out); !status.isOk())
    return status;
  return isOverlapped ? side.copiedOut[turn].record(out) : Status();
}

/// Copies one piece between the user's buffer and the staging memory, block by block.
Status DeviceLauncher::copyPiece(const DevicePlan &plan, int64_t index, bool isInput, StreamHandle stream) const {
  const Call &call = plan.calls.front();
  const DevicePlan::Pieces &pieces = plan.piecesOf(index);
  const OpenDevice &device = *ranks.devices.front();
  const int64_t blocks = isInput ? call.extent.input : call.extent.output;
  const int64_t begin = index * plan.pieces.count * call.elementBytes, sizeBytes = pieces.count * call.elementBytes;
  const auto turn = static_cast<size_t>(index % 2);
  auto *staged = static_cast<std::byte *>(
      places.bufferOf(plan, pieces, turn, isInput ? KOLO_INPUT : KOLO_OUTPUT, ranks.numbers.front()));
  auto *own = isInput ? static_cast<std::byte *>(plan.inputOf(0)) : call.output;
  if (sizeBytes == 0)
    return {};
  const size_t role = isInput ? KOLO_INPUT : KOLO_OUTPUT;
  bool isOnePiece = plan.numPieces() == 1 && !call.tables; // then the blocks follow each other in both
  for (int64_t block = 0; block < (isOnePiece ? std::min<int64_t>(blocks, 1) : blocks); ++block) {
    std::byte *here = own + call.bytesToBlock(role, block) + begin, *there = staged + block * sizeBytes;
    const int64_t length = call.tables ? call.countOf(role, block) * call.elementBytes : sizeBytes;
    if (length == 0)
      continue;
    int32_t code = device.driver().copy(device.ordinal(), isInput ? there : here, isInput ? here : there,
                                        static_cast<uint64_t>(isOnePiece ? blocks * sizeBytes : length), stream);
    if (Status status = device.status(code, isInput ? "copying the input" : "copying the output"); !status.isOk())
      return status;
  }
  return {};
}

/// When a call first has pieces. Without a queue for each of its streams, a rank would keep its own copies waiting, or
/// other ranks: pieces follow each other in the caller's stream then.
Status DeviceLauncher::openSideStreams() {
  const std::shared_ptr<OpenDevice> &device = ranks.devices.front();
  constexpr int perRank = 3, forCopies = 1;
  if (side.in || ranks.ranksOnOwn * perRank + forCopies > device->description().numQueues)
    return {};
  for (DeviceEvent *event : {&side.begun, &side.copiedIn[0], &side.copiedIn[1], &side.ran[0], &side.ran[1],
                             &side.copiedOut[0], &side.copiedOut[1]}) {
    Result<DeviceEvent> made = DeviceEvent::create(device);
    if (!made.isOk())
      return made.status();
    *event = std::move(made).value();
  }
  for (void **stream : {&side.out, &side.in})
    if (Status status = device->status(device->driver().createStream(device->ordinal(), stream), "making a stream");
        !status.isOk())
      return status;
  return {};
}

void DeviceLauncher::closeSideStreams() {
  for (void **stream : {&side.in, &side.out})
    if (void *open = std::exchange(*stream, nullptr))
      (void)ranks.devices.front()->driver().destroyStream(ranks.devices.front()->ordinal(), open);
}

} // namespace kolo::runtime
