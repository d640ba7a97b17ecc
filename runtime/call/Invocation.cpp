// Invocation: the lanes of a call: makes them, lets them publish, and runs the generated code, piece by piece.
#include "call/CommunicatorState.h"
#include "call/Lane.h"
#include "call/Plan.h"

#include "base/Error.h"

#include <algorithm>
#include <utility>

namespace kolo::runtime {
namespace {

KoloInvocation describe(Plan &plan, int64_t lane, int64_t numLanes, std::byte *tile) {
  KoloInvocation result = {};
  result.services = &services;
  std::copy_n(plan.call.dimSizes, KOLO_MAX_MESH_DIMS, result.dimSizes);
  std::copy_n(plan.call.coordinates, KOLO_MAX_MESH_DIMS, result.coordinates);
  result.count = plan.buffers.pieces.count;
  for (size_t role : {KOLO_INPUT, KOLO_OUTPUT})
    result.blockElements[role] = plan.buffers.isCopied[role] ? plan.buffers.pieces.count : plan.call.key.count;
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
  result.tile = tile;
  result.tileBytes = tileBytes;
  result.type = plan.call.computedType;
  result.reduceNumbers = plan.call.reduceNumbers;
  result.nonTemporal = plan.buffers.exceedCaches ? KOLO_TO_OUTPUT : 0;
  return result;
}

} // namespace

void makeLanes(Plan &plan, Peers &peers, std::byte *tiles) {
  int numLanes = peers.settings().lanes;
  plan.lanes.resize(static_cast<size_t>(numLanes));
  for (size_t role : {KOLO_INPUT, KOLO_OUTPUT})
    plan.peers.pieces[role] = plan.peers.buffers[role];
  for (int number = 0; number < numLanes; ++number) {
    Lane &lane = plan.lanes[static_cast<size_t>(number)];
    lane.semaphores = plan.semaphores->ofLane(number, peers.rank());
    lane.peers = &peers;
    lane.plan = &plan;
    lane.number = number;
    lane.invocation = describe(plan, number, numLanes, tiles + static_cast<size_t>(number) * tileBytes);
    lane.invocation.context = &lane;
    lane.invocation.traffic = peers.settings().countsTraffic ? lane.traffic : nullptr;
  }
}

void runLane(void *plan, int number) {
  Lane &lane = static_cast<Plan *>(plan)->lanes[static_cast<size_t>(number)];
  int32_t code = lane.plan->call.program->run(&lane.invocation);
  services.flush(&lane.invocation);
  if (code != 0 && !lane.hasFailed) [[unlikely]]
    (void)lane.fail(
        error(StatusCode::BadPlugin, "program {} returned {} though nothing failed", lane.plan->call.info->name, code));
}

void publishLane(void *plan, int number) {
  Plan &own = *static_cast<Plan *>(plan);
  own.call.program->publish(&own.lanes[static_cast<size_t>(number)].invocation);
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
  for (int32_t role : {KOLO_INPUT, KOLO_OUTPUT}) {
    if (!plan.isWhole(role))
      continue;
    std::transform(plan.peers.buffers[role].begin(), plan.peers.buffers[role].end(), plan.peers.pieces[role].begin(),
                   shifted);
    for (Lane &lane : plan.lanes) {
      lane.invocation.local[role] = shifted(buffers.local[role]);
      lane.invocation.peers[role] = plan.peers.pieces[role].data();
    }
  }
}

/// Lets every lane publish its share: a small input on this thread, a large one on the lanes' threads.
void CommunicatorState::publish(Plan &plan, int64_t piece) {
  const Buffers &buffers = plan.buffers;
  if (buffers.pieces.number > 1)
    startPiece(plan, piece);
  const std::vector<void *> *now = &plan.peers.published[exchange.nextTurn()];
  size_t slot = 0;
  if (buffers.publishesMuch)
    slot = exchange.nextSlot() % plan.peers.numPublishedSlots;
  if (slot != 0) {
    std::transform(now->begin(), now->end(), plan.peers.publishedNow.begin(),
                   [&](void *first) { return static_cast<std::byte *>(first) + slot * buffers.publishedSlotBytes; });
    now = &plan.peers.publishedNow;
  }
  for (Lane &lane : plan.lanes) {
    lane.invocation.local[KOLO_PUBLISHED] = (*now)[static_cast<size_t>(ranks->rank())];
    lane.invocation.peers[KOLO_PUBLISHED] = now->data();
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

void CommunicatorState::publishLanes(Plan &plan) {
  if (plan.buffers.publishesMuch && plan.lanes.size() > 1)
    lanes.run(publishLane, &plan);
  else
    for (Lane &lane : plan.lanes)
      publishLane(&plan, static_cast<int>(lane.number));
}

/// Gives a run its sequence number, from 1, and its turn of the packet buffer.
void CommunicatorState::startPackets(Plan &plan) {
  constexpr uint64_t numSequences = (uint64_t(1) << 32) - 1;
  uint64_t run = numPacketRuns++;
  std::vector<void *> &memory = plan.peers.packets[run % 2];
  for (Lane &lane : plan.lanes) {
    lane.invocation.sequence = static_cast<int64_t>(1 + run % numSequences);
    lane.invocation.local[KOLO_PACKETS] = memory[static_cast<size_t>(ranks->rank())];
    lane.invocation.peers[KOLO_PACKETS] = memory.data();
  }
}

/// Runs the generated code and copies what it staged to the caller. Peers have read the runtime's memory that it stores
/// to, so both together are measured: which stores are the faster ones.
void CommunicatorState::runPiece(Plan &plan, int64_t piece) {
  auto runAll = [&] {
    if (plan.lanes.size() == 1)
      runLane(&plan, 0);
    else
      lanes.run(runLane, &plan);
    if (!ranks->isAborted())
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

Status CommunicatorState::runLanes(Plan &plan) {
  std::atomic<uint32_t> &isRunning = ranks->block(ranks->rank()).isRunning;
  // This rank writes isRunning and then reads the abort state. A rank that aborts writes that state and then reads
  // isRunning. So this rank sees the abort, or the other rank sees that this one runs.
  isRunning.store(1, std::memory_order_seq_cst);
  for (int64_t piece = 0; piece < plan.buffers.pieces.number && !ranks->isAborted(); ++piece) {
    plan.buffers.copyIn(plan.call, piece, plan.inputStores);
    if (plan.call.info->enters && (piece > 0 || plan.buffers.mustMeetAfterCopy(plan.call)))
      if (Status status = meetAgain(plan, piece); !status.isOk())
        break;
    if (plan.buffers.pieces.number > 1 || plan.buffers.isInputAside)
      startPiece(plan, piece);
    if (plan.call.hasPackets)
      startPackets(plan);
    for (Lane &lane : plan.lanes)
      lane.invocation.call = static_cast<int64_t>(numInvocations);
    ++numInvocations;
    runPiece(plan, piece);
  }
  isRunning.store(0, std::memory_order_release);
  for (Lane &lane : plan.lanes) {
    if (!lane.invocation.traffic)
      break; // nobody counts
    moved.sentBytes += std::exchange(lane.traffic[KOLO_SENT], 0);
    moved.fetchedBytes += std::exchange(lane.traffic[KOLO_FETCHED], 0);
  }
  return ranks->isAborted() ? endFailedCall() : Status();
}

/// Returns the cause when peers access no memory of this rank any more.
Status CommunicatorState::endFailedCall() {
  plans.endRemoteAccess(UINT64_MAX); // of all
  ranks->waitUntilQuiet();
  return ranks->abortCause();
}

} // namespace kolo::runtime
