// Invocation: runs the generated code of one call, lane by lane, and serves it.
#include "CommunicatorState.h"

#include "Error.h"
#include "transport/Attach.h"

#include <algorithm>
#include <cstring>

namespace kolo::runtime {

/// One call on this rank, shared by its lanes.
struct Invocation {
  CommunicatorState &owner;
  World &world;
  const Call &call;
  const Buffers &buffers;
  Semaphores &semaphores;

  struct Lane;
  static void runLane(void *context, int lane);
  static KoloInvocation describe(Invocation &self, Lane &lane);

  std::byte *tile(int64_t lane) const { return owner.tiles.get() + static_cast<size_t>(lane) * tileBytes; }
  const Location &location(size_t role, int64_t peer) const {
    return owner.peerLocations[role][static_cast<size_t>(peer)];
  }
  std::byte *address(size_t role, int64_t peer) const {
    return static_cast<std::byte *>(owner.peerBuffers[role][static_cast<size_t>(peer)]);
  }
};

struct Invocation::Lane {
  Invocation &invocation;
  int64_t number;
  bool hasFailed = false;

  /// The first failure of any lane of any rank is the communicator's, and ends the call everywhere.
  int32_t fail(const Status &cause) {
    if (!hasFailed)
      (void)invocation.world.abort(cause);
    hasFailed = true;
    return 1;
  }
};

namespace {

Invocation::Lane &laneOf(KoloInvocation *invocation) { return *static_cast<Invocation::Lane *>(invocation->context); }

std::string describeStatement(const ProgramInfo &info, int32_t statement) {
  if (statement < 0 || static_cast<size_t>(statement) >= info.statements.size())
    return fmt::format("program {}", info.name);
  const StatementInfo &entry = info.statements[static_cast<size_t>(statement)];
  return fmt::format("program {}, {}:{} {}", info.name, entry.file, entry.line, entry.text);
}

Status badRequest(const Invocation &invocation, const char *what, int64_t peer, int32_t number) {
  return error(StatusCode::BadPlugin, "program {} asked for {} {} of rank {}, which does not exist",
               invocation.call.info->name, what, number, peer);
}

void signalPeer(KoloInvocation *raw, int64_t peer, int32_t semaphore) {
  Invocation::Lane &lane = laneOf(raw);
  Invocation &invocation = lane.invocation;
  if (lane.hasFailed)
    return;
  if (!invocation.semaphores.isValid(peer, semaphore)) {
    (void)lane.fail(badRequest(invocation, "semaphore", peer, semaphore));
    return;
  }
  invocation.semaphores.signal(invocation.world.rank(), peer, semaphore, lane.number);
}

/// Kept out of line: the usual wait finds its signal there.
[[gnu::noinline]] int32_t waitLong(Invocation::Lane &lane, int64_t peer, int32_t semaphore, int32_t statement,
                                   uint64_t target) {
  Invocation &invocation = lane.invocation;
  World &world = invocation.world;
  Clock::time_point start = Clock::now();
  WaitEnd end = waitSlowly(invocation.semaphores.cell(peer, semaphore, lane.number), target, world.policy(),
                           [&] { return world.checkWait(static_cast<int>(peer), start); });
  if (end == WaitEnd::Reached)
    return 0;
  if (end == WaitEnd::Aborted)
    return lane.fail(world.abortCause());
  bool isLost = end == WaitEnd::PeerLost;
  return lane.fail(rankError(isLost ? StatusCode::PeerLost : StatusCode::Timeout, static_cast<int>(peer),
                             "rank {} waited {} ms for rank {} (semaphore {}, lane {}; {}): {}", world.rank(),
                             millisecondsSince(start), peer, semaphore, lane.number,
                             describeStatement(*invocation.call.info, statement),
                             isLost ? "it has ended or left" : "timed out"));
}

int32_t waitForPeer(KoloInvocation *raw, int64_t peer, int32_t semaphore, int32_t statement) {
  Invocation::Lane &lane = laneOf(raw);
  Invocation &invocation = lane.invocation;
  if (lane.hasFailed)
    return 1;
  if (!invocation.semaphores.isValid(peer, semaphore))
    return lane.fail(badRequest(invocation, "semaphore", peer, semaphore));
  uint64_t target = invocation.semaphores.nextExpected(peer, semaphore, lane.number);
  if (invocation.semaphores.cell(peer, semaphore, lane.number).hasReached(target))
    return 0;
  return waitLong(lane, peer, semaphore, statement, target);
}

/// What put and get ask for, once it is known to exist.
struct RemoteRange {
  int64_t peer;
  int32_t role;
  int64_t offsetBytes;
  int64_t sizeBytes;
};

bool isInside(const Invocation &invocation, const RemoteRange &range) {
  if (range.peer < 0 || range.peer >= invocation.world.size() || range.role < 0 || range.role >= KOLO_NUM_BUFFER_ROLES)
    return false;
  uint64_t whole = invocation.location(static_cast<size_t>(range.role), range.peer).sizeBytes;
  return range.offsetBytes >= 0 && range.sizeBytes >= 0 && static_cast<uint64_t>(range.offsetBytes) <= whole &&
         static_cast<uint64_t>(range.sizeBytes) <= whole - static_cast<uint64_t>(range.offsetBytes);
}

void transfer(KoloInvocation *raw, const RemoteRange &range, Direction direction, void *local) {
  Invocation::Lane &lane = laneOf(raw);
  Invocation &invocation = lane.invocation;
  if (lane.hasFailed || range.sizeBytes == 0)
    return;
  if (!isInside(invocation, range)) {
    (void)lane.fail(badRequest(invocation, "bytes outside buffer", range.peer, range.role));
    return;
  }
  auto role = static_cast<size_t>(range.role);
  auto peer = static_cast<int>(range.peer);
  auto sizeBytes = static_cast<size_t>(range.sizeBytes);
  if (std::byte *base = invocation.address(role, peer)) { // it is mapped here after all
    std::byte *remote = base + range.offsetBytes;
    std::memcpy(direction == Direction::ToPeer ? remote : local, direction == Direction::ToPeer ? local : remote,
                sizeBytes);
    return;
  }
  uint64_t remote = invocation.location(role, peer).addressOrOffset + static_cast<uint64_t>(range.offsetBytes);
  Status status = copyAttached(direction, invocation.world.block(peer).pid.load(), remote, local, sizeBytes);
  if (!status.isOk())
    (void)lane.fail(rankError(status.code(), peer, "rank {} in program {}, memory of rank {}: {}",
                              invocation.world.rank(), invocation.call.info->name, peer, status.message()));
}

void putToPeer(KoloInvocation *raw, int64_t peer, int32_t role, int64_t offsetBytes, const void *src,
               int64_t sizeBytes) {
  transfer(raw, {peer, role, offsetBytes, sizeBytes}, Direction::ToPeer, const_cast<void *>(src));
}

void getFromPeer(KoloInvocation *raw, int64_t peer, int32_t role, int64_t offsetBytes, void *dst, int64_t sizeBytes) {
  transfer(raw, {peer, role, offsetBytes, sizeBytes}, Direction::FromPeer, dst);
}

constexpr KoloServices services = {KOLO_ABI_VERSION, signalPeer, waitForPeer, putToPeer, getFromPeer};

} // namespace

KoloInvocation Invocation::describe(Invocation &self, Lane &lane) {
  KoloInvocation result = {};
  result.services = &services;
  result.context = &lane;
  std::copy_n(self.call.dimSizes, KOLO_MAX_MESH_DIMS, result.dimSizes);
  std::copy_n(self.call.coordinates, KOLO_MAX_MESH_DIMS, result.coordinates);
  result.count = self.call.key.count;
  result.elementBytes = self.call.elementBytes;
  result.root = self.call.root;
  result.lane = lane.number;
  result.numLanes = self.world.settings().lanes;
  for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role) {
    result.local[role] = self.buffers.local[role];
    result.peers[role] = self.owner.peerBuffers[role].data();
  }
  result.reduce = self.call.reduce;
  result.divide = self.call.divide;
  result.tile = self.tile(lane.number);
  result.tileBytes = tileBytes;
  result.aroundCaches = self.owner.exceedsCaches(self.call);
  return result;
}

void Invocation::runLane(void *context, int number) {
  auto &self = *static_cast<Invocation *>(context);
  Lane lane{self, number};
  KoloInvocation invocation = describe(self, lane);
  int32_t code = self.call.program->run(&invocation);
  if (code != 0 && !lane.hasFailed)
    (void)lane.fail(error(StatusCode::BadPlugin, "program {} returned {} though nothing failed", self.call.info->name,
                          code));
}

bool CommunicatorState::exceedsCaches(const Call &call) const {
  return (call.inputBytes + call.outputBytes) * static_cast<size_t>(ranks->size()) > sharedCacheBytes / 4 * 3;
}

Status CommunicatorState::runLanes(const Call &call, const Buffers &buffers) {
  Invocation invocation{*this, *ranks, call, buffers, semaphoresOf(call)};
  std::atomic<uint32_t> &isRunning = ranks->block(ranks->rank()).isRunning;
  // Written before the abort is looked at, while who aborts writes that first and then looks here: no one can both miss
  // the abort and be missed.
  isRunning.store(1, std::memory_order_seq_cst);
  if (!ranks->isAborted())
    lanes.run(Invocation::runLane, &invocation);
  isRunning.store(0, std::memory_order_seq_cst);
  if (!ranks->isAborted())
    return {};
  ranks->waitUntilQuiet();
  return ranks->abortCause();
}

} // namespace kolo::runtime
