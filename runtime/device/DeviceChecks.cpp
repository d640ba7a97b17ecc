// The checks of a call that a process makes by itself.
#include "device/DeviceState.h"

#include "base/Error.h"

#include <algorithm>

namespace kolo::runtime {

Status DeviceState::check(DevicePlan &plan) const {
  for (size_t local = 0; local < locals.size(); ++local) {
    Status status = checkRank(plan, local);
    if (!status.isOk()) // with a meeting, the peers add the rank
      return meeting
                 ? status
                 : rankError(status.code(), locals[local].rank, "rank {}: {}", locals[local].rank, status.message());
  }
  const Call &call = plan.calls.front();
  Result<const KoloDevicePlugin *> table = deviceTable(*plan.plugin);
  if (!table.isOk())
    return table.status();
  if (call.info->reduces)
    if (Status status = checkReduction(**table, plan.request.arguments().type, plan.request.arguments().reduction);
        !status.isOk())
      return error(status.code(), "{}: {}", plan.plugin->path, status.message());
  for (size_t device = 0; device < devices.size(); ++device) {
    Result<std::shared_ptr<const LoadedImage>> image = loadImage(devices[device], plan.plugin);
    if (!image.isOk())
      return image.status();
    plan.images.push_back(std::move(image).value());
    if (Status status = call.info->usesLL128 ? checkLL128(plan, device) : Status(); !status.isOk())
      return status;
    if (Status status = checkResidency(plan, device); !status.isOk())
      return status;
  }
  if (Status status = placeBuffers(plan); !status.isOk())
    return status;
  for (int64_t count : {plan.pieces.count, plan.rest.count})
    if (call.scratchBytesFor(count) < 0 || (call.hasPackets && call.packetBytesFor(count) < 0))
      return error(StatusCode::BadPlugin, "{}: program '{}' asks for a negative number of bytes for {} elements",
                   plan.plugin->path, call.info->name, count);
  return checkBuffers(plan);
}

Status DeviceState::checkRank(DevicePlan &plan, size_t local) const {
  const LocalRank &rank = locals[local];
  CallArguments arguments = plan.request.arguments();
  arguments.input = plan.buffers[local].input;
  arguments.output = plan.buffers[local].output;
  const RankBuffers buffers = {arguments.input, arguments.output};
  const MemoryKind memory =
      arguments.collective ? memoryFor(*arguments.collective, {&buffers, 1}) : MemoryKind::Windows;
  // The table is empty, so that planCall itself takes all buffers for windows.
  Planner planner{rank.rank, numRanks, memory};
  planner.widensAverages = false;
  Result<Call> call = planCall(*plan.plugin, arguments, SegmentTable(RankKind::Threads), planner);
  if (!call.isOk())
    return call.status();
  if (call->info->enters)
    return error(StatusCode::BadPlugin, "program '{}' was compiled for the host alone, where ranks enter together",
                 call->info->name);
  call->numLanes = options.lanes;
  plan.key.call = call->key;
  plan.calls.push_back(*call);
  return {};
}

Status DeviceState::checkBuffers(const DevicePlan &plan) const {
  for (size_t local = 0; local < locals.size(); ++local) {
    const Call &call = plan.calls[local];
    auto accessTo = [&](bool isShared) { return isShared && !plan.isStaged ? Access::ByPeers : Access::ByOwnRank; };
    Status status = checkBuffer(locals[local], call.input, call.inputBytes, "input", accessTo(call.info->sharesInput));
    if (status.isOk())
      status = checkBuffer(locals[local], call.output, call.outputBytes, "output", accessTo(call.info->sharesOutput));
    if (!status.isOk())
      return meeting
                 ? status
                 : rankError(status.code(), locals[local].rank, "rank {}: {}", locals[local].rank, status.message());
  }
  return {};
}

Status DeviceState::checkBuffer(const LocalRank &local, const void *memory, size_t sizeBytes, const char *name,
                                Access access) const {
  if (sizeBytes == 0)
    return {};
  const OpenDevice &device = *devices[local.device];
  KoloDriverRange range = {};
  int32_t code = device.driver().locate(device.ordinal(), memory, &range);
  if (code == KOLO_DRIVER_ELSEWHERE && access == Access::ByOwnRank)
    return {};
  if (code == KOLO_DRIVER_BAD_ARGUMENT || code == KOLO_DRIVER_ELSEWHERE)
    return error(StatusCode::InvalidArgument, "{} {} is not memory of device {}: {}", name, memory, device.ordinal(),
                 device.driver().lastError());
  if (Status status = device.status(code, fmt::format("looking {} up", name)); !status.isOk())
    return status;
  const size_t leftInOwn = device.leftInOwn(memory); // of which the driver may have more than was asked for
  if (access != Access::ByOwnRank && !device.driver().acceptsForeignMemory && leftInOwn == 0)
    return error(
        StatusCode::InvalidArgument,
        "{} {} was not allocated by DeviceCommunicator::allocate: peers may not see stores to other memory while a "
        "kernel runs",
        name, memory);
  if (access == Access::ByPeers)
    if (Status status = checkPeerAccess(device, memory, name); !status.isOk())
      return status;
  auto offset =
      static_cast<uint64_t>(static_cast<const std::byte *>(memory) - static_cast<const std::byte *>(range.base));
  if (uint64_t left = leftInOwn ? leftInOwn : range.sizeBytes - offset; sizeBytes > left)
    return error(StatusCode::InvalidArgument, "{} has {} bytes, and only {} are left in its memory", name, sizeBytes,
                 left);
  return {};
}

/// Devices of this process use the address itself; for others the memory is mapped anew.
Status DeviceState::checkPeerAccess(const OpenDevice &device, const void *memory, const char *name) const {
  std::vector<int> others = peerDevices;
  if (!meeting)
    for (const std::shared_ptr<OpenDevice> &other : devices)
      others.push_back(other->ordinal());
  for (int other : others) {
    int32_t isOpen = 1;
    if (other != device.ordinal())
      if (Status status =
              device.status(device.driver().isOpenTo(device.ordinal(), memory, other, &isOpen), "looking access up");
          !status.isOk())
        return status;
    if (!isOpen)
      return error(StatusCode::InvalidArgument,
                   "{} {} is memory of device {}, and device {} may not access it: memory of a pool, or of the virtual "
                   "memory interface, is open to the devices that its owner names",
                   name, memory, device.ordinal(), other);
  }
  return {};
}

/// An LL128 line must arrive as a whole at every rank.
Status DeviceState::checkLL128(const DevicePlan &plan, size_t device) const {
  const OpenDevice &on = *devices[device];
  for (size_t rank = 0; rank < deviceOfRank.size(); ++rank) {
    int32_t keepsLines = 0;
    int32_t code = on.driver().keepsLines(on.ordinal(), deviceOfRank[rank].data(), &keepsLines);
    if (Status status = on.status(code, fmt::format("looking for the device of rank {}", rank)); !status.isOk())
      return status;
    if (!keepsLines)
      return error(
          StatusCode::InvalidArgument,
          "program '{}' uses protocol ll128, whose lines arrive whole only inside a device and over NVLink: device {} "
          "has no NVLink to that of rank {}",
          plan.calls.front().info->name, on.ordinal(), rank);
  }
  return {};
}

/// All blocks of all ranks on a device wait for each other, so the device must hold all of them at once.
Status DeviceState::checkResidency(const DevicePlan &plan, size_t device) const {
  const OpenDevice &on = *devices[device];
  const Call &call = plan.calls.front();
  const KoloDriverKernel &kernel = plan.images[device]->kernels[static_cast<size_t>(call.key.program)];
  if (options.threads > kernel.maxThreads)
    return error(StatusCode::InvalidArgument, "blocks of program '{}' have at most {} threads on device {}, not {}",
                 call.info->name, kernel.maxThreads, on.ordinal(), options.threads);
  int64_t capacity = 0;
  int32_t code = on.driver().countResident(on.ordinal(), &kernel, static_cast<uint32_t>(options.threads), &capacity);
  if (Status status = on.status(code, "counting resident blocks"); !status.isOk())
    return status;
  int64_t numBlocks = int64_t(ranksOnDevice[device]) * options.lanes;
  if (numBlocks > capacity)
    return error(
        StatusCode::InvalidArgument,
        "{} ranks of {} lanes are {} blocks of {} threads on device {}, which holds {} of program '{}' at once",
        ranksOnDevice[device], options.lanes, numBlocks, options.threads, on.ordinal(), capacity, call.info->name);
  return {};
}

} // namespace kolo::runtime
