#include "device/DeviceChecks.h"

#include "base/Error.h"
#include "call/BlockTables.h"
#include "call/CallIdentity.h"
#include "call/Remote.h"

#include <algorithm>

namespace kolo::runtime {
namespace {

/// A refusal of a local rank. With a meeting, the peers add the rank.
Status ofRank(const DeviceRanks &ranks, size_t local, const Status &status) {
  const int rank = ranks.locals[local].rank;
  return ranks.meeting ? status : rankError(status.code(), rank, "rank {}: {}", rank, status.message());
}

/// What the block tables of the ranks here ask for. Elements whose number is too large are an error of planCall's.
void addTableSizes(const DevicePlan &plan, int64_t elementBytes, Planner &planner) {
  for (const std::unique_ptr<const KeptTables> &kept : plan.blocks)
    for (const BlockTable *table : {&kept->get().input, &kept->get().output}) {
      int64_t numBytes = 0;
      for (int64_t count : table->counts) {
        planner.longestBlock = std::max(planner.longestBlock, count);
        if (int64_t length = 0; count < 0 || __builtin_mul_overflow(count, elementBytes, &length) ||
                                __builtin_add_overflow(numBytes, length, &numBytes))
          return;
      }
      planner.largestBytes = std::max(planner.largestBytes, numBytes);
    }
}

Planner plannerFor(int rank, const DeviceRanks &ranks, MemoryKind memory) {
  Planner planner{rank, ranks.size, memory};
  planner.isForDevices = true;
  planner.countIsBound = ranks.meeting.has_value();
  return planner;
}

/// Plans the call of one local rank.
Status planRank(DevicePlan &plan, size_t local, const DeviceRanks &ranks, const DevicePlaces &places) {
  const LocalRank &rank = ranks.locals[local];
  CallArguments arguments = plan.request.arguments();
  arguments.input = plan.buffers[local].input;
  arguments.output = plan.buffers[local].output;
  arguments.blocks = plan.buffers[local].blocks;
  const RankBuffers buffers = {arguments.input, arguments.output, arguments.blocks};
  const MemoryKind memory =
      arguments.collective ? places.memoryFor(*arguments.collective, {&buffers, 1}) : MemoryKind::Windows;
  // The table is empty, so that planCall itself takes all buffers for windows.
  Planner planner = plannerFor(rank.rank, ranks, memory);
  if (arguments.blocks && !ranks.meeting)
    addTableSizes(plan, static_cast<int64_t>(sizeBytes(arguments.type)), planner);
  Result<Call> call = planCall(*plan.plugin, arguments, SegmentTable(RankKind::Threads), planner);
  if (!call.isOk())
    return call.status();
  if (call->info->enters)
    return error(StatusCode::BadPlugin, "program '{}' was compiled for the host alone, where ranks enter together",
                 call->info->name);
  call->numLanes = ranks.lanesOf(arguments.program.empty() ? call->tableLanes : arguments.lanes);
  plan.key.call = call->key;
  plan.key.lanes = call->numLanes;
  plan.calls.push_back(*call);
  return {};
}

/// Mismatch, where all ranks are here, if one block has two counts.
Status compareTables(const DevicePlan &plan) {
  std::vector<CountDigests> digests;
  for (size_t rank = 0; rank < plan.calls.size(); ++rank) {
    digests.push_back(plan.calls[rank].digests);
    if (Status status = compareCalls(plan.calls.front().key, plan.calls[rank].key, {0, static_cast<int>(rank)});
        !status.isOk())
      return status;
  }
  if (areCountsAlike(digests))
    return {};
  const Call &call = plan.calls.front();
  for (int64_t distance = 0; distance < numDistances(call); ++distance) {
    std::vector<std::array<int64_t, 2>> counts;
    for (const Call &each : plan.calls)
      counts.push_back(countsAtDistance(each, each.rank, distance));
    if (Status status = compareCounts(call, counts, distance); !status.isOk())
      return status;
  }
  return error(StatusCode::Mismatch, "ranks disagree on counts of blocks");
}

/// An LL128 line must arrive as a whole at every rank.
Status checkLL128(const DevicePlan &plan, const DeviceRanks &ranks, size_t device) {
  const OpenDevice &on = *ranks.devices[device];
  for (int rank : ranks.ranksHere()) { // what goes to other hosts takes no lines
    int32_t keepsLines = 0;
    int32_t code = on.driver().keepsLines(on.ordinal(), ranks.deviceOfRank[ranks.placeHere(rank)].data(), &keepsLines);
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
Status checkResidency(const DevicePlan &plan, const DeviceRanks &ranks, size_t device) {
  const OpenDevice &on = *ranks.devices[device];
  const Call &call = plan.calls.front();
  const KoloDriverKernel &kernel = plan.kernelOn(device);
  if (ranks.options.threads > kernel.maxThreads)
    return error(StatusCode::InvalidArgument, "blocks of program '{}' have at most {} threads on device {}, not {}",
                 call.info->name, kernel.maxThreads, on.ordinal(), ranks.options.threads);
  int64_t capacity = 0;
  int32_t code =
      on.driver().countResident(on.ordinal(), &kernel, static_cast<uint32_t>(ranks.options.threads), &capacity);
  if (Status status = on.status(code, "counting resident blocks"); !status.isOk())
    return status;
  int64_t numBlocks = ranks.ranksOnDevice[device] * call.numLanes;
  if (numBlocks > capacity)
    return error(
        StatusCode::InvalidArgument,
        "{} ranks of {} lanes are {} blocks of {} threads on device {}, which holds {} of program '{}' at once",
        ranks.ranksOnDevice[device], call.numLanes, numBlocks, ranks.options.threads, on.ordinal(), capacity,
        call.info->name);
  return {};
}

/// Refuses a program that must cross a network and may not. The same on all ranks.
Status checkNetwork(const Call &call, const DeviceRanks &ranks, const KoloDevicePlugin &table) {
  if (!ranks.areOnHosts())
    return {};
  constexpr const char *staged = " --network-memory staged";
  Status status = checkHosts(call, ranks.meeting->hosts(), staged);
  const bool staysOnHosts = call.info->networkDims.empty();
  if (!status.isOk() || staysOnHosts || inboxBytesOf(table, call.key.program))
    return status;
  return error(StatusCode::UnsupportedMesh,
               "program '{}' has no code for devices that crosses a network, and the ranks are on {} hosts: compile it "
               "with --network {}{}",
               call.info->name, ranks.meeting->hosts().number(), namesOf(call.info->networkDims, call), staged);
}

/// Loads the code for a device, and checks that the device can run it.
Status checkDevice(DevicePlan &plan, const DeviceRanks &ranks, size_t device) {
  Result<std::shared_ptr<const LoadedImage>> image = loadImage(ranks.devices[device], plan.plugin);
  if (!image.isOk())
    return image.status();
  plan.images.push_back(std::move(image).value());
  const Call &call = plan.calls.front();
  if (call.tables && !plan.images.back()->tableKernels[static_cast<size_t>(call.key.program)])
    return error(StatusCode::BadPlugin, "{}: program '{}' takes no block tables on devices", plan.plugin->path,
                 call.info->name);
  if (call.info->usesLL128)
    if (Status status = checkLL128(plan, ranks, device); !status.isOk())
      return status;
  return checkResidency(plan, ranks, device);
}

/// Devices of this process use the address itself; for others the memory is mapped anew.
Status checkPeerAccess(const DeviceRanks &ranks, const OpenDevice &device, const NamedMemory &memory) {
  std::vector<int> others = ranks.peerDevices;
  if (!ranks.meeting)
    for (const std::shared_ptr<OpenDevice> &other : ranks.devices)
      others.push_back(other->ordinal());
  for (int other : others) {
    int32_t isOpen = 1;
    if (other != device.ordinal())
      if (Status status = device.status(device.driver().isOpenTo(device.ordinal(), memory.address, other, &isOpen),
                                        "looking access up");
          !status.isOk())
        return status;
    if (!isOpen)
      return error(StatusCode::InvalidArgument,
                   "{} {} is memory of device {}, and device {} may not access it: memory of a pool, or of the virtual "
                   "memory interface, is open to the devices that its owner names",
                   memory.name, memory.address, device.ordinal(), other);
  }
  return {};
}

Status checkBuffers(const DevicePlan &plan, const DeviceRanks &ranks) {
  for (size_t local = 0; local < ranks.locals.size(); ++local) {
    const Call &call = plan.calls[local];
    auto accessTo = [&](bool isShared) {
      return isShared && !plan.isStaged ? DeviceAccess::ByPeers : DeviceAccess::ByOwnRank;
    };
    Status status = checkBuffer(ranks, local, {"input", call.input, call.inputBytes}, accessTo(call.info->sharesInput));
    if (status.isOk())
      status = checkBuffer(ranks, local, {"output", call.output, call.outputBytes}, accessTo(call.info->sharesOutput));
    if (!status.isOk())
      return ofRank(ranks, local, status);
  }
  return {};
}

} // namespace

Status checkPlan(DevicePlan &plan, const DeviceRanks &ranks, const DevicePlaces &places) {
  for (size_t local = 0; local < ranks.locals.size(); ++local)
    if (Status status = planRank(plan, local, ranks, places); !status.isOk())
      return ofRank(ranks, local, status);
  if (!ranks.meeting && !plan.blocks.empty())
    if (Status status = compareTables(plan); !status.isOk())
      return status;
  const Call &call = plan.calls.front();
  Result<const KoloDevicePlugin *> table = deviceTable(*plan.plugin);
  if (!table.isOk())
    return table.status();
  if (Status status = checkNetwork(call, ranks, **table); !status.isOk())
    return status;
  if (plan.request.arguments().custom.kernel)
    return error(StatusCode::InvalidArgument, "{}: devices take no reduction of the caller's own", plan.plugin->path);
  if (call.info->reduces)
    if (Status status = checkReduction(**table, plan.request.arguments().type, plan.request.arguments().reduction);
        !status.isOk())
      return error(status.code(), "{}: {}", plan.plugin->path, status.message());
  for (size_t device = 0; device < ranks.devices.size(); ++device)
    if (Status status = checkDevice(plan, ranks, device); !status.isOk())
      return status;
  if (Status status = places.placeBuffers(plan); !status.isOk())
    return status;
  for (int64_t count : {plan.pieces.count, plan.rest.count})
    if (call.scratchBytesFor(count) < 0 || (call.hasPackets && call.packetBytesFor(count) < 0) ||
        plan.inboxBytesFor(count) < 0)
      return error(StatusCode::BadPlugin, "{}: program '{}' asks for a negative number of bytes for {} elements",
                   plan.plugin->path, call.info->name, count);
  return checkBuffers(plan, ranks);
}

Status checkProgram(const PluginState &plugin, const CallArguments &arguments, const DeviceRanks &ranks) {
  static std::byte somewhere; // memory that is nobody's
  CallArguments shared = arguments;
  shared.input = shared.output = &somewhere;
  Result<Call> call = planCall(plugin, shared, SegmentTable(RankKind::Threads),
                               plannerFor(ranks.numbers.front(), ranks, MemoryKind::Windows));
  if (!call.isOk())
    return call.status();
  Result<const KoloDevicePlugin *> table = deviceTable(plugin);
  return table.isOk() ? checkNetwork(*call, ranks, **table) : table.status();
}

Status checkBuffer(const DeviceRanks &ranks, size_t local, const NamedMemory &memory, DeviceAccess access) {
  if (memory.sizeBytes == 0)
    return {};
  const OpenDevice &device = *ranks.devices[ranks.locals[local].device];
  KoloDriverRange range = {};
  int32_t code = device.driver().locate(device.ordinal(), memory.address, &range);
  if (code == KOLO_DRIVER_ELSEWHERE && access == DeviceAccess::ByOwnRank)
    return {};
  if (code == KOLO_DRIVER_BAD_ARGUMENT || code == KOLO_DRIVER_ELSEWHERE)
    return error(StatusCode::InvalidArgument, "{} {} is not memory of device {}: {}", memory.name, memory.address,
                 device.ordinal(), device.driver().lastError());
  if (Status status = device.status(code, fmt::format("looking {} up", memory.name)); !status.isOk())
    return status;
  const size_t leftInOwn = device.leftInOwn(memory.address); // of which the driver may have more than was asked for
  if (access != DeviceAccess::ByOwnRank && !device.driver().acceptsForeignMemory && leftInOwn == 0)
    return error(
        StatusCode::InvalidArgument,
        "{} {} was not allocated by DeviceCommunicator::allocate: peers may not see stores to other memory while a "
        "kernel runs",
        memory.name, memory.address);
  if (access == DeviceAccess::ByPeers)
    if (Status status = checkPeerAccess(ranks, device, memory); !status.isOk())
      return status;
  auto offset = static_cast<uint64_t>(static_cast<const std::byte *>(memory.address) -
                                      static_cast<const std::byte *>(range.base));
  if (uint64_t left = leftInOwn ? leftInOwn : range.sizeBytes - offset; memory.sizeBytes > left)
    return error(StatusCode::InvalidArgument, "{} has {} bytes, and only {} are left in its memory", memory.name,
                 memory.sizeBytes, left);
  return {};
}

} // namespace kolo::runtime
