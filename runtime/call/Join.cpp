// Join: what ranks announce to each other once, when all have mapped the control segment.
#include "base/Error.h"
#include "call/CommunicatorState.h"
#include "memory/Copy.h"
#include "wait/Cores.h"

#include <unistd.h>

namespace kolo::runtime {
namespace {

constexpr uint64_t probeValue = 0x6b6f6c6f70726f62;
const uint64_t probeWord = probeValue; // peers read it by cross-memory attach

/// About what a communicator takes of its process, beside plans.
constexpr size_t processBytes = size_t(16) << 10;

Status compareSettings(const RecordSummary &all) {
  if (!all.has(Kept::OtherJoin))
    return {};
  const int peer = all.rankOf(Kept::OtherJoin);
  const JoinRecord &first = all.recordOf(Kept::First).join, &other = all.recordOf(Kept::OtherJoin).join;
  if (other.lanes != first.lanes)
    return rankError(StatusCode::Mismatch, peer, "ranks disagree on lanes: rank 0 has {}, rank {} has {}", first.lanes,
                     peer, other.lanes);
  if (other.ordinaryMemory != first.ordinaryMemory)
    return rankError(StatusCode::Mismatch, peer,
                     "ranks disagree on KOLO_ORDINARY_MEMORY: rank 0 has {}, rank {} has {}",
                     toString(static_cast<OrdinaryMemory>(first.ordinaryMemory)), peer,
                     toString(static_cast<OrdinaryMemory>(other.ordinaryMemory)));
  return rankError(StatusCode::Mismatch, peer,
                   "ranks disagree on the timeout (KOLO_TIMEOUT_MS): rank 0 has {} ms, rank {} has {} ms",
                   first.timeoutMs, peer, other.timeoutMs);
}

/// Reads a known word of every peer by cross-memory attach.
Status probeAttach(const Peers &peers) {
  for (int peer : peers.hosts().ranksHere()) {
    uint64_t found = 0;
    Status status = copyAttached(Direction::FromPeer, peers.block(peer).pid.load(), peers.block(peer).join.probeAddress,
                                 &found, sizeof(found));
    if (!status.isOk())
      return status;
    if (found != probeValue)
      return error(StatusCode::SystemError, "cross-memory attach to rank {} reads another process", peer);
  }
  return {};
}

} // namespace

Status CommunicatorState::join() {
  OrdinaryMemory wanted = ranks->settings().ordinaryMemory;
  JoinInfo &info = ranks->block(ranks->rank()).join;
  info.probeAddress = reinterpret_cast<uintptr_t>(&probeWord);
  info.cores = currentAffinity();
  info.runsAhead = ranks->settings().runsAhead;
  if (Status status = registerChannels(*ranks); !status.isOk())
    return status;
  Record &first = nextRecord(Operation::Join);
  first.join.lanes = ranks->settings().lanes;
  first.join.ordinaryMemory = static_cast<uint32_t>(wanted);
  first.join.timeoutMs = ranks->settings().timeoutMs;
  if (Status status = exchange.perform(); !status.isOk())
    return status;
  ranks->watchPeers();
  if (Status status = compareSettings(exchange.summary()); !status.isOk())
    return status;
  for (int peer : ranks->hosts().ranksHere())
    if (ranks->block(peer).join.runsAhead != info.runsAhead)
      return rankError(StatusCode::Mismatch, peer, "ranks disagree on running ahead: ranks {} and {} differ",
                       ranks->rank(), peer);

  bool mustStage = ranks->links()->network().writesByDevice();
  bool mustProbe = ranks->kind() == RankKind::Processes && wanted != OrdinaryMemory::Staged && !mustStage;
  Status probed = mustProbe ? probeAttach(*ranks) : Status();
  Record &record = nextRecord(Operation::Join);
  record.can.attach = probed.isOk();
  const size_t keptBytes = Control::bytesOfRank(ranks->size(), ranks->control().numHere()) + processBytes +
                           PlanRoom::least * planBytes(ranks->size(), ranks->settings().lanes);
  if (Status kept = held.keep(keptBytes); !kept.isOk())
    setFailure(record, kept);
  if (wanted == OrdinaryMemory::Attach && mustStage)
    setFailure(record, error(StatusCode::InvalidArgument,
                             "KOLO_ORDINARY_MEMORY=attach is not possible over libfabric, whose devices get only "
                             "windows and Kolo's own memory"));
  if (wanted == OrdinaryMemory::Attach && !probed.isOk())
    setFailure(record,
               error(StatusCode::SystemError, "KOLO_ORDINARY_MEMORY=attach is not possible: {}", probed.message()));
  if (Status status = exchange.perform(); !status.isOk())
    return status;
  if (Status status = exchange.firstRefusal(); !status.isOk())
    return status;
  rules.ordinaryMemory = mustStage ? OrdinaryMemory::Staged : wanted;
  for (int peer : ranks->hosts().ranksHere())
    if (!exchange.heard(peer).can.attach)
      rules.ordinaryMemory = OrdinaryMemory::Staged;
  std::vector<cpu_set_t> cores;
  for (int peer : ranks->hosts().ranksHere())
    cores.push_back(ranks->block(peer).join.cores);
  start(cores);
  return {};
}

Result<std::unique_ptr<CommunicatorState>> CommunicatorState::joinRanks(std::shared_ptr<ControlMemory> shared,
                                                                        RankKind kind, int rank,
                                                                        const Settings &settings,
                                                                        std::shared_ptr<HostLinks> links) {
  RankBlock &block = shared->control.block(links ? links->hosts().placeOf(rank) : rank);
  Presence expected = Presence::Absent;
  if (!block.presence.compare_exchange_strong(expected, Presence::Joined))
    return rankError(StatusCode::Mismatch, rank, "rank {} has joined already", rank);
  if (kind == RankKind::Processes)
    block.pid.store(getpid());
  auto ownPeers = std::make_unique<Peers>(std::move(shared), kind, rank, settings, std::move(links));
  auto state = std::make_unique<CommunicatorState>(std::move(ownPeers));
  if (Status status = state->join(); !status.isOk())
    return status;
  return state;
}

} // namespace kolo::runtime
