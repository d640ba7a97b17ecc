// The lanes of a call: makes them, lets them publish, and runs the generated code.
#include "call/LaneRuns.h"

#include "base/Error.h"
#include "peers/Peers.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

namespace kolo::runtime {
namespace {

struct TileDeleter {
  void operator()(std::byte *memory) const { std::free(memory); }
};
using Tile = std::unique_ptr<std::byte, TileDeleter>;

/// Where the generated code of one lane works. Each thread has its own, whatever communicators it serves. Null: there
/// is no memory.
std::byte *tileHere() {
  static thread_local Tile tile;
  if (!tile) [[unlikely]]
    tile.reset(static_cast<std::byte *>(std::aligned_alloc(4096, tileBytes)));
  return tile.get();
}

/// False: the lane has failed.
bool takeTile(Lane &lane) {
  lane.invocation.tile = tileHere();
  if (lane.invocation.tile) [[likely]]
    return true;
  (void)lane.fail(error(StatusCode::OutOfMemory, "no memory for a tile of {} KiB", tileBytes >> 10));
  return false;
}

KoloInvocation describe(Plan &plan, int64_t lane, int64_t numLanes) {
  KoloInvocation result = {};
  result.services = &services;
  std::copy_n(plan.call.dimSizes, KOLO_MAX_MESH_DIMS, result.dimSizes);
  std::copy_n(plan.call.coordinates, KOLO_MAX_MESH_DIMS, result.coordinates);
  result.count = plan.buffers.pieces.count;
  for (size_t role : {KOLO_INPUT, KOLO_OUTPUT})
    result.blockElements[role] = plan.buffers.isCopied[role] ? plan.buffers.pieces.count : plan.call.key.count;
  if (plan.call.tables)
    for (size_t role : {KOLO_INPUT, KOLO_OUTPUT}) {
      result.blockCounts[role] = plan.buffers.tables.counts[role].data();
      result.blockPlaces[role] = plan.buffers.tables.places[role].data();
      result.peerPlaces[role] = plan.peers.places[0][role].data();
    }
  result.hasRows = plan.call.rows && !isStaged(plan.buffers.staging);
  result.elementBytes = plan.call.elementBytes;
  result.root = plan.call.root;
  result.lane = lane;
  result.numLanes = numLanes;
  for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role) {
    result.local[role] = plan.buffers.local[role];
    result.peers[role] = plan.peers.buffers[role].data();
  }
  result.reduce = plan.call.reduce;
  result.average = plan.call.average;
  result.tileBytes = tileBytes;
  result.type = plan.call.computedType;
  result.reduceNumbers = plan.call.reduceNumbers;
  result.nonTemporal = plan.buffers.exceedCaches ? KOLO_TO_OUTPUT : 0;
  return result;
}

} // namespace

void makeLanes(Plan &plan, Peers &peers) {
  int numLanes = peers.settings().lanes;
  plan.lanes.resize(static_cast<size_t>(numLanes));
  for (size_t role : {KOLO_INPUT, KOLO_OUTPUT})
    plan.peers.pieces[role] = SparseArray<void *>(plan.peers.buffers[role].size());
  for (int number = 0; number < numLanes; ++number) {
    Lane &lane = plan.lanes[static_cast<size_t>(number)];
    lane.semaphores = plan.semaphores->ofLane(number, peers.rank());
    lane.peers = &peers;
    lane.plan = &plan;
    lane.number = number;
    lane.invocation = describe(plan, number, numLanes);
    lane.invocation.context = &lane;
    lane.invocation.traffic = peers.settings().countsTraffic ? lane.traffic : nullptr;
  }
}

void runLane(void *plan, int number) {
  Lane &lane = static_cast<Plan *>(plan)->lanes[static_cast<size_t>(number)];
  if (!takeTile(lane)) [[unlikely]]
    return;
  int32_t code = lane.plan->call.program->run(&lane.invocation);
  services.flush(&lane.invocation);
  if (code != 0 && !lane.hasFailed) [[unlikely]]
    (void)lane.fail(
        error(StatusCode::BadPlugin, "program {} returned {} though nothing failed", lane.plan->call.info->name, code));
}

void publishLane(void *plan, int number) {
  Plan &own = *static_cast<Plan *>(plan);
  Lane &lane = own.lanes[static_cast<size_t>(number)];
  if (takeTile(lane)) [[likely]]
    own.call.program->publish(&lane.invocation);
}

/// Points the lanes at one piece. Buffers that no rank copies piece by piece begin at the piece's offset.
static void startPiece(Plan &plan, int64_t piece) {
  const Buffers &buffers = plan.buffers;
  plan.peers.pieceOffsetBytes = piece * buffers.pieces.count * plan.call.elementBytes;
  auto shifted = [&](void *whole) {
    return whole ? static_cast<std::byte *>(whole) + plan.peers.pieceOffsetBytes : nullptr;
  };
  for (Lane &lane : plan.lanes)
    lane.invocation.count = pieceCount(plan.call, buffers.pieces, piece);
  if (plan.call.tables)
    for (size_t role : {KOLO_INPUT, KOLO_OUTPUT})
      for (size_t block = 0; block < plan.call.tables->counts[role].size(); ++block)
        plan.buffers.tables.counts[role][block] =
            elementsInPiece(plan.call, buffers.pieces, piece, role, static_cast<int64_t>(block));
  for (int32_t role : {KOLO_INPUT, KOLO_OUTPUT}) {
    if (!plan.isWhole(role))
      continue;
    for (int peer : plan.lanes.front().peers->hosts().ranksHere())
      plan.peers.pieces[role][static_cast<size_t>(peer)] = shifted(plan.peers.buffers[role][static_cast<size_t>(peer)]);
    for (Lane &lane : plan.lanes) {
      lane.invocation.local[role] = shifted(buffers.local[role]);
      lane.invocation.peers[role] = plan.peers.pieces[role].data();
    }
  }
}

void LaneRuns::start(const WaitPolicy &policy) { lanes.start(peers.settings().lanes, policy); }

void LaneRuns::publish(Plan &plan, int64_t piece, const SparseArray<void *> &memory) {
  const Buffers &buffers = plan.buffers;
  if (buffers.pieces.number > 1)
    startPiece(plan, piece);
  for (Lane &lane : plan.lanes) {
    lane.invocation.local[KOLO_PUBLISHED] = memory[static_cast<size_t>(peers.rank())];
    lane.invocation.peers[KOLO_PUBLISHED] = memory.data();
    // The input is copied aside later, because slower peers may still access the runtime's memory.
    if (buffers.isInputAside && piece == 0)
      lane.invocation.local[KOLO_INPUT] = plan.call.input;
  }
  if (!buffers.publishesMuch)
    return publishLanes(plan);
  size_t sizeBytes = static_cast<size_t>(plan.call.publishedBytesFor(pieceCount(plan.call, buffers.pieces, piece)));
  publishedStores.run(sizeBytes, [&](bool isNonTemporal) {
    for (Lane &lane : plan.lanes)
      lane.invocation.nonTemporal = isNonTemporal ? KOLO_TO_OUTPUT : 0;
    publishLanes(plan);
  });
  for (Lane &lane : plan.lanes)
    lane.invocation.nonTemporal = buffers.exceedCaches ? KOLO_TO_OUTPUT : 0;
}

void LaneRuns::publishLanes(Plan &plan) {
  if (plan.buffers.publishesMuch && plan.lanes.size() > 1)
    lanes.run(publishLane, &plan);
  else
    for (Lane &lane : plan.lanes)
      publishLane(&plan, static_cast<int>(lane.number));
}

/// Gives a run its sequence number, from 1, and its turn of the packet buffer.
void LaneRuns::startPackets(Plan &plan) {
  constexpr uint64_t numSequences = (uint64_t(1) << 32) - 1;
  uint64_t run = numPacketRuns++;
  const SparseArray<void *> &memory = plan.peers.packets[run % 2];
  for (Lane &lane : plan.lanes) {
    lane.invocation.sequence = static_cast<int64_t>(1 + run % numSequences);
    lane.invocation.local[KOLO_PACKETS] = memory[static_cast<size_t>(peers.rank())];
    lane.invocation.peers[KOLO_PACKETS] = memory.data();
  }
}

/// Runs the generated code and copies what it staged to the caller. Peers have read the runtime's memory that it stores
/// to, so both together are measured: which stores are the faster ones.
void LaneRuns::runLanes(Plan &plan, int64_t piece) {
  auto runAll = [&] {
    if (plan.lanes.size() == 1)
      runLane(&plan, 0);
    else
      lanes.run(runLane, &plan);
    if (!peers.isAborted())
      plan.buffers.copyOut(plan.call, piece);
  };
  const Buffers &buffers = plan.buffers;
  if (buffers.sharedElementBytes == 0)
    return runAll();
  int64_t toOutput = buffers.exceedCaches ? KOLO_TO_OUTPUT : 0;
  int64_t toShared = KOLO_TO_SCRATCH | (buffers.isCopied[KOLO_OUTPUT] ? KOLO_TO_OUTPUT : 0);
  auto count = static_cast<size_t>(pieceCount(plan.call, buffers.pieces, piece));
  plan.runStores.run(buffers.sharedElementBytes * count, [&](bool isNonTemporal) {
    for (Lane &lane : plan.lanes)
      lane.invocation.nonTemporal = toOutput | (isNonTemporal ? toShared : 0);
    runAll();
  });
}

void LaneRuns::run(Plan &plan, int64_t piece) {
  if (plan.buffers.pieces.number > 1 || plan.buffers.isInputAside)
    startPiece(plan, piece);
  if (plan.call.hasPackets)
    startPackets(plan);
  for (Lane &lane : plan.lanes)
    lane.invocation.call = static_cast<int64_t>(numInvocations);
  ++numInvocations;
  runLanes(plan, piece);
}

void LaneRuns::count(Plan &plan) {
  for (Lane &lane : plan.lanes) {
    if (!lane.invocation.traffic)
      break; // nobody counts
    moved.sentBytes += std::exchange(lane.traffic[KOLO_SENT], 0);
    moved.fetchedBytes += std::exchange(lane.traffic[KOLO_FETCHED], 0);
  }
}

} // namespace kolo::runtime
