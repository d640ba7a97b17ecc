// Services: what generated code calls in the runtime: signal, wait, put, get, flush, awaitPacket, moveRows.
#include "call/Lane.h"
#include "call/Plan.h"

#include "base/Error.h"
#include "call/RowLists.h"
#include "memory/Copy.h"
#include "peers/Peers.h"

#include <algorithm>
#include <cstring>
#include <ctime>

namespace kolo::runtime {
namespace {

Lane &laneOf(KoloInvocation *invocation) { return *static_cast<Lane *>(invocation->context); }

Status badRequest(const Lane &lane, const char *what, int64_t peer, int32_t number) {
  return error(StatusCode::BadPlugin, "program {} asked for {} {} of rank {}, which does not exist",
               lane.plan->call.info->name, what, number, peer);
}

/// The semaphore does not exist, because the program is wrong or because this lane has failed before.
[[gnu::noinline, gnu::cold]] int32_t refuseSemaphore(Lane &lane, int64_t peer, int32_t semaphore) {
  return lane.hasFailed ? 1 : lane.fail(badRequest(lane, "semaphore", peer, semaphore));
}

/// What the transport refused. A peer that was lost is noticed by whoever waits for it; one that has left needs
/// nothing.
void noteRefusal(Lane &lane, const Status &status) {
  if (!status.isOk() && status.code() != StatusCode::PeerLost)
    (void)lane.fail(status);
}

[[gnu::noinline, gnu::cold]] void signalOverNetwork(Lane &lane, int64_t peer, int32_t semaphore, uint64_t count) {
  noteRefusal(lane, lane.peers->transport().signal(
                        {static_cast<int>(peer), static_cast<uint32_t>(lane.number)},
                        {lane.plan->semaphores->remoteNumber(), static_cast<uint32_t>(semaphore), count}));
}

void signalPeer(KoloInvocation *raw, int64_t peer, int32_t semaphore) {
  Lane &lane = laneOf(raw);
  if (!lane.semaphores.isValid(peer, semaphore)) [[unlikely]]
    (void)refuseSemaphore(lane, peer, semaphore);
  else if (uint64_t count = lane.semaphores.signal(peer, semaphore)) [[unlikely]]
    signalOverNetwork(lane, peer, semaphore, count);
}

/// Not inlined, because most waits find their signal without it.
[[gnu::noinline]] int32_t waitLong(Lane &lane, int64_t peer, int32_t semaphore, int32_t statement, uint64_t target) {
  Peers &peers = *lane.peers;
  Cell &cell = lane.semaphores.cell(peer, semaphore);
  const WaitPolicy policy = peers.policyOfLane(lane.number, static_cast<int>(peer));
  if (spinUntil(cell, target, policy))
    return 0;
  Clock::time_point start = Clock::now(); // after the spins, because reading the clock takes as long as a signal
  WaitEnd end = waitSlowly(cell, target, policy, [&] { return peers.checkWait(static_cast<int>(peer), start); });
  if (end == WaitEnd::Reached)
    return 0;
  if (end == WaitEnd::Aborted)
    return lane.fail(peers.abortCause());
  bool isLost = end == WaitEnd::PeerLost;
  return lane.fail(rankError(isLost ? StatusCode::PeerLost : StatusCode::Timeout, static_cast<int>(peer),
                             "rank {} waited {} ms for {} (semaphore {}, lane {}; {}): {}", peers.rank(),
                             millisecondsSince(start), peers.hosts().describe(static_cast<int>(peer)), semaphore,
                             lane.number, describeStatement(*lane.plan->call.info, statement),
                             isLost ? "it has ended or left" : "timed out"));
}

int32_t waitForPeer(KoloInvocation *raw, int64_t peer, int32_t semaphore, int32_t statement) {
  Lane &lane = laneOf(raw);
  if (!lane.semaphores.isValid(peer, semaphore)) [[unlikely]]
    return refuseSemaphore(lane, peer, semaphore);
  uint64_t target = lane.semaphores.nextExpected(peer, semaphore);
  if (lane.semaphores.cell(peer, semaphore).hasReached(target))
    return 0;
  return waitLong(lane, peer, semaphore, statement, target);
}

/// A range of a peer's buffer, as put and get name it.
struct RemoteRange {
  int64_t peer;
  int32_t role;
  int64_t offsetBytes;
  int64_t sizeBytes;
};

/// Bytes of a rank's buffer; on another host at most so many: that host knows.
uint64_t sizeOf(const Lane &lane, int rank, int32_t role) {
  const PlanPeers &all = lane.plan->peers;
  if (lane.peers->isRemote(rank))
    return all.largestBytes[role];
  return all.locations[role][static_cast<size_t>(lane.peers->hosts().placeOf(rank))].sizeBytes;
}

bool isInside(const Lane &lane, const RemoteRange &range) {
  if (range.peer < 0 || range.peer >= lane.peers->size() || range.role < 0 || range.role >= KOLO_NUM_BUFFER_ROLES)
    return false;
  uint64_t whole = sizeOf(lane, static_cast<int>(range.peer), range.role);
  // The offset counts from where the piece begins.
  if (lane.plan->isWhole(range.role))
    whole -= std::min(whole, static_cast<uint64_t>(lane.plan->peers.pieceOffsetBytes));
  return range.offsetBytes >= 0 && range.sizeBytes >= 0 && static_cast<uint64_t>(range.offsetBytes) <= whole &&
         static_cast<uint64_t>(range.sizeBytes) <= whole - static_cast<uint64_t>(range.offsetBytes);
}

void transferOverNetwork(Lane &lane, const RemoteRange &range, Direction direction, const void *local) {
  int rank = static_cast<int>(range.peer);
  if (direction == Direction::FromPeer) {
    (void)lane.fail(rankError(StatusCode::UnsupportedMesh, rank,
                              "program {} reads memory of {}, which is on another host", lane.plan->call.info->name,
                              lane.peers->hosts().describe(rank)));
    return;
  }
  noteRefusal(lane,
              lane.peers->transport().put({rank, static_cast<uint32_t>(lane.number)},
                                          {lane.plan->access.numberFor(range.role), static_cast<uint32_t>(range.role),
                                           static_cast<uint64_t>(range.offsetBytes)},
                                          local, static_cast<uint64_t>(range.sizeBytes)));
}

void transfer(KoloInvocation *raw, const RemoteRange &range, Direction direction, void *local) {
  Lane &lane = laneOf(raw);
  if (lane.hasFailed || range.sizeBytes == 0)
    return;
  if (!isInside(lane, range)) {
    (void)lane.fail(badRequest(lane, "bytes outside buffer", range.peer, range.role));
    return;
  }
  auto peer = static_cast<size_t>(range.peer);
  auto sizeBytes = static_cast<size_t>(range.sizeBytes);
  int64_t offsetBytes = range.offsetBytes + (lane.plan->isWhole(range.role) ? lane.plan->peers.pieceOffsetBytes : 0);
  if (void *base = lane.plan->peers.buffers[range.role][peer]) { // this process maps the buffer
    std::byte *remote = static_cast<std::byte *>(base) + offsetBytes;
    std::memcpy(direction == Direction::ToPeer ? remote : local, direction == Direction::ToPeer ? local : remote,
                sizeBytes);
    return;
  }
  const int rank = static_cast<int>(range.peer);
  if (lane.peers->isRemote(rank))
    return transferOverNetwork(lane, {range.peer, range.role, offsetBytes, range.sizeBytes}, direction, local);
  const Location &location =
      lane.plan->peers.locations[range.role][static_cast<size_t>(lane.peers->hosts().placeOf(rank))];
  Status status = copyAttached(direction, lane.peers->block(rank).pid.load(),
                               location.addressOrOffset + static_cast<uint64_t>(offsetBytes), local, sizeBytes);
  if (!status.isOk())
    (void)lane.fail(rankError(status.code(), rank, "rank {} in program {}, memory of rank {}: {}", lane.peers->rank(),
                              lane.plan->call.info->name, rank, status.message()));
}

void putToPeer(KoloInvocation *raw, int64_t peer, int32_t role, int64_t offsetBytes, const void *src,
               int64_t sizeBytes) {
  transfer(raw, {peer, role, offsetBytes, sizeBytes}, Direction::ToPeer, const_cast<void *>(src));
}

void getFromPeer(KoloInvocation *raw, int64_t peer, int32_t role, int64_t offsetBytes, void *dst, int64_t sizeBytes) {
  transfer(raw, {peer, role, offsetBytes, sizeBytes}, Direction::FromPeer, dst);
}

/// Also the end of every call: what this rank has said arrives even if it does nothing any more.
void flushLane(KoloInvocation *raw) {
  Lane &lane = laneOf(raw);
  if (lane.plan->access.number != 0 && !lane.hasFailed) // other hosts take part
    noteRefusal(lane, lane.peers->transport().flush(static_cast<uint32_t>(lane.number)));
}

/// A packet that a rank waits for. Its sender wakes nobody, so the sleep is short.
struct AwaitedPacket {
  const uint64_t *word;

  bool hasReached(uint64_t sequence) const { return __atomic_load_n(word, __ATOMIC_ACQUIRE) >> 32 == sequence; }
  void sleep(uint64_t, int64_t) const {
    timespec interval = {0, 50'000};
    nanosleep(&interval, nullptr);
  }
};

int32_t awaitPacket(KoloInvocation *raw, const uint64_t *packet, int32_t statement) {
  Lane &lane = laneOf(raw);
  if (lane.hasFailed)
    return 1;
  Peers &peers = *lane.peers;
  AwaitedPacket awaited{packet};
  auto sequence = static_cast<uint64_t>(raw->sequence);
  const WaitPolicy policy = peers.policyOfLane(lane.number, peers.rank());
  if (spinUntil(awaited, sequence, policy))
    return 0;
  Clock::time_point start = Clock::now();
  // The sender of the packet is unknown, so any rank that died ends the wait. One that left had come to the end of this
  // call, as all ranks began it together: its packets are here.
  int lost = 0;
  WaitEnd end = waitSlowly(awaited, sequence, policy, [&] {
    WaitEnd found = peers.checkWait(peers.rank(), start);
    for (int peer = 0; peer < peers.size() && found == WaitEnd::Reached; ++peer) {
      lost = peer;
      found = peers.hasDied(peer) ? WaitEnd::PeerLost : WaitEnd::Reached;
    }
    return found;
  });
  if (end == WaitEnd::Reached)
    return 0;
  if (end == WaitEnd::Aborted)
    return lane.fail(peers.abortCause());
  std::string what =
      fmt::format("rank {} waited {} ms for packets (lane {}; {})", peers.rank(), millisecondsSince(start), lane.number,
                  describeStatement(*lane.plan->call.info, statement));
  return lane.fail(end == WaitEnd::PeerLost ? rankError(StatusCode::PeerLost, lost, "{}: rank {} has ended", what, lost)
                                            : error(StatusCode::Timeout, "{}: timed out", what));
}

/// The part of a move that is one range on both sides.
struct MovedRows {
  int32_t toRole, fromRole;
  RowRange to, from;
};

/// The beginning of a move that generated code asks for by what the tables say.
MovedRows nextRows(const Call &call, int32_t toRole, int64_t toBytes, int32_t fromRole, int64_t fromBytes,
                   int64_t sizeBytes) {
  const CallRows &rows = *call.rows;
  MovedRows move = {toRole, fromRole, {toBytes, sizeBytes}, {fromBytes, sizeBytes}};
  if (fromRole == KOLO_INPUT)
    move.from = rangeOf(rows, KOLO_INPUT, fromBytes, sizeBytes);
  if (toRole == KOLO_OUTPUT)
    move.to = fromRole == KOLO_INPUT ? landingOf(rows, fromBytes, sizeBytes, toBytes)
                                     : rangeOf(rows, KOLO_OUTPUT, toBytes, sizeBytes);
  move.to.sizeBytes = move.from.sizeBytes = std::min(move.to.sizeBytes, move.from.sizeBytes);
  return move;
}

/// Whether rows land inside a buffer, of this rank or of another one.
bool hasRoomFor(const Lane &lane, const RemoteRange &range) {
  if (range.peer != lane.peers->rank())
    return isInside(lane, range);
  return range.role != KOLO_OUTPUT ||
         static_cast<uint64_t>(range.offsetBytes + range.sizeBytes) <= lane.plan->call.outputBytes;
}

/// In this rank's memory.
std::byte *addressOf(const KoloInvocation &invocation, int32_t role, int64_t offsetBytes) {
  if (role == KOLO_ADDRESS)
    return reinterpret_cast<std::byte *>(offsetBytes);
  return static_cast<std::byte *>(invocation.local[role]) + offsetBytes;
}

void moveRows(KoloInvocation *raw, int64_t peer, int32_t toRole, int64_t toBytes, int32_t fromRole, int64_t fromBytes,
              int64_t sizeBytes) {
  Lane &lane = laneOf(raw);
  const bool isOwn = peer == lane.peers->rank();
  if (!isOwn && raw->traffic)
    raw->traffic[KOLO_SENT] += sizeBytes;
  auto copy = raw->nonTemporal & KOLO_TO_OUTPUT && toRole == KOLO_OUTPUT ? copyNonTemporal : copyCached;
  while (sizeBytes > 0 && !lane.hasFailed) {
    const MovedRows move = nextRows(lane.plan->call, toRole, toBytes, fromRole, fromBytes, sizeBytes);
    auto *source = addressOf(*raw, fromRole, move.from.offsetBytes);
    const RemoteRange range = {peer, toRole, move.to.offsetBytes, move.to.sizeBytes};
    if (!hasRoomFor(lane, range)) {
      (void)lane.fail(error(StatusCode::InvalidArgument,
                            "the list of landing rows of rank {} leads {} bytes into the output of rank {}, which is "
                            "shorter",
                            lane.peers->rank(), range.offsetBytes, peer));
      return;
    }
    if (isOwn)
      copy(addressOf(*raw, toRole, range.offsetBytes), source, static_cast<size_t>(range.sizeBytes));
    else if (void *base = lane.plan->peers.buffers[toRole][static_cast<size_t>(peer)])
      copy(static_cast<std::byte *>(base) + range.offsetBytes, source, static_cast<size_t>(range.sizeBytes));
    else
      transfer(raw, range, Direction::ToPeer, source);
    toBytes += range.sizeBytes;
    fromBytes += range.sizeBytes;
    sizeBytes -= range.sizeBytes;
  }
}

} // namespace

const KoloServices services = {KOLO_ABI_VERSION, signalPeer,  waitForPeer, putToPeer,
                               getFromPeer,      awaitPacket, flushLane,   moveRows};

int32_t Lane::fail(const Status &cause) {
  if (!hasFailed)
    (void)peers->abort(cause);
  hasFailed = true;
  semaphores = {};
  return 1;
}

} // namespace kolo::runtime
