#include "peers/Peers.h"

#include "base/Error.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <new>
#include <thread>

namespace kolo::runtime {
namespace {

/// A rank that has waited so long for one of another host connects to it, to learn whether it lives.
constexpr int suspicionMs = 200;

} // namespace

const char *toString(Operation operation) {
  constexpr const char *names[] = {"join", "barrier", "exchange", "run", "run"};
  return names[static_cast<size_t>(operation)];
}

Result<std::shared_ptr<ControlMemory>> createControl(RankKind kind, int numRanks, int numHere) {
  if (numRanks < 1 || numRanks > maxRanks)
    return error(StatusCode::InvalidArgument, "a communicator has between 1 and {} ranks, not {}", maxRanks, numRanks);
  size_t bytes = Control::sizeBytes(numRanks, numHere);
  Result<Memory> memory = kind == RankKind::Threads ? Memory::createPrivate(bytes) : Memory::createShared(bytes);
  if (!memory.isOk())
    return memory.status();
  auto shared = std::make_shared<ControlMemory>();
  shared->memory = std::move(memory).value();
  shared->control = Control(shared->memory.data(), numRanks);
  new (&shared->control.abort()) AbortRecord{};
  new (&shared->control.host()) HostBlock{};
  for (int rank = 0; rank < numRanks; ++rank)
    new (&shared->control.block(rank)) RankBlock{};
  return shared;
}

namespace {

class LinksWait : public NetworkWait {
public:
  explicit LinksWait(HostLinks &hostLinks) : links(hostLinks) {}
  void progress() override { links.progress(); }
  void sleep(const Counter &counter, uint64_t target, int64_t mostUs) override { links.sleep(counter, target, mostUs); }

private:
  HostLinks &links;
};

Seat seatOf(const Control &control, const HostLinks *links, int rank) {
  std::vector<SeatedOn *> seats;
  size_t own = 0;
  for (int peer = 0; peer < control.numRanks(); ++peer) {
    if (links && links->isRemote(peer))
      continue;
    if (peer == rank)
      own = seats.size();
    seats.push_back(&control.block(peer).seatedOn);
  }
  return Seat(std::move(seats), own);
}

} // namespace

Peers::Peers(std::shared_ptr<ControlMemory> memory, RankKind rankKind, int ownRank, const Settings &settings,
             std::shared_ptr<HostLinks> hostLinks)
    : shared(std::move(memory)), network(std::move(hostLinks)),
      networkWait(network ? std::make_unique<LinksWait>(*network) : nullptr), howRelated(rankKind), self(ownRank),
      creatorPid(getpid()), options(settings), seat(seatOf(shared->control, network.get(), ownRank)),
      processes(static_cast<size_t>(shared->control.numRanks())) {
  // Do not spin until the ranks have announced which cores they may use.
  setPolicy(choosePolicy(options.wait, false));
}

Peers::~Peers() {
  // A forked child inherits a copy of this object; it is not this rank, and must not leave for it.
  if (getpid() == creatorPid) {
    seat.leave();
    block(self).presence.store(Presence::Left, std::memory_order_seq_cst);
  }
}

void Peers::setPolicy(const WaitPolicy &newPolicy) {
  waitPolicy = newPolicy;
  waitPolicy.progress = options.progress ? &options.progress : nullptr;
  waitPolicy.network = networkWait.get();
  waitPolicy.yields = &yields;
  // Where a rank has several threads, nobody says where the others run.
  waitPolicy.seat = options.lanes == 1 ? &seat : nullptr;
}

void Peers::watchPeers() {
  if (howRelated == RankKind::Threads)
    return;
  for (int peer = 0; peer < size(); ++peer)
    if (peer != self && !isRemote(peer))
      processes[static_cast<size_t>(peer)] = WatchedProcess::watch(block(peer).pid.load());
}

std::string Peers::describe(int peer) const {
  return network ? fmt::format("rank {} (host {})", peer, network->hostName(peer)) : fmt::format("rank {}", peer);
}

bool Peers::isLost(int peer) const { return hasLeft(peer) || hasEnded(peer); }

bool Peers::hasDied(int peer) const { return hasEnded(peer) && !hasLeft(peer); } // in this order: it leaves, then ends

bool Peers::hasLeft(int peer) const {
  return isRemote(peer) ? network->hasLeft(peer)
                        : block(peer).presence.load(std::memory_order_seq_cst) == Presence::Left;
}

bool Peers::hasEnded(int peer) const {
  if (isRemote(peer))
    return network->hasBroken(peer);
  int pid = block(peer).pid.load(std::memory_order_relaxed);
  if (howRelated == RankKind::Threads || peer == self || pid == 0)
    return false;
  const std::shared_ptr<const WatchedProcess> &process = processes[static_cast<size_t>(peer)];
  return process ? process->hasEnded() : kill(pid, 0) != 0 && errno == ESRCH;
}

/// Where there are several hosts, a failure names the one of the rank at fault.
Status Peers::withHost(const Status &cause) const {
  if (!network || cause.rank() < 0 || cause.rank() >= size() ||
      cause.message().find(describe(cause.rank())) != std::string::npos)
    return cause;
  return rankError(cause.code(), cause.rank(), "{}: {}", describe(cause.rank()), cause.message());
}

Status Peers::abort(const Status &found) {
  bool mayBeExplained = network && found.code() == StatusCode::Timeout && found.rank() >= 0;
  Status cause = withHost(mayBeExplained ? network->explain(found) : found);
  if (!storeAbort(control().abort(), cause))
    return abortCause();
  if (network)
    network->tellAbort();
  return cause;
}

Status Peers::abortCause() const {
  const AbortRecord &record = control().abort();
  // The writer may finish soon; or it has died, and then nobody finishes the record.
  for (int attempt = 0; attempt < 2000 && record.state.load(std::memory_order_acquire) != AbortState::Published;
       ++attempt)
    std::this_thread::sleep_for(std::chrono::microseconds(progressIntervalUs));
  if (record.state.load(std::memory_order_acquire) != AbortState::Published)
    return error(StatusCode::PeerLost, "a rank failed, and ended before it could say why");
  if (network)
    network->tellAbort();
  return Status(record.code, record.message, record.culprit);
}

Status Peers::abortedEarlier() const {
  Status cause = abortCause();
  return rankError(StatusCode::Aborted, cause.rank(), "this communicator was aborted: {}", cause.message());
}

/// A child has its parent's memory, so what it announced would be its parent's word.
Status Peers::whyNoCall() const {
  if (mark.isHere())
    return abortedEarlier();
  return error(StatusCode::InvalidArgument,
               "process {} was forked from process {}, which is rank {} here: a child can only make a communicator of "
               "its own",
               getpid(), creatorPid, self);
}

WaitEnd Peers::checkWait(int peer, Clock::time_point start) {
  if (network)
    for (const Status &refusal : {network->refusal(), watch ? watch() : Status()})
      if (!refusal.isOk())
        (void)abort(refusal);
  if (isAborted())
    return WaitEnd::Aborted;
  if (isLost(peer))
    return WaitEnd::PeerLost;
  if (isRemote(peer) && millisecondsSince(start) >= suspicionMs)
    network->ask(peer);
  return millisecondsSince(start) >= options.timeoutMs ? WaitEnd::Timeout : WaitEnd::Reached;
}

void Peers::keepForPeers(std::shared_ptr<void> thing) const {
  std::scoped_lock lock(shared->mutex);
  shared->kept.push_back(std::move(thing));
}

void Peers::waitUntilQuiet() const {
  Clock::time_point start = Clock::now();
  for (int peer = 0; peer < size(); ++peer)
    while (peer != self && !isRemote(peer) && block(peer).isRunning.load(std::memory_order_seq_cst) != 0 &&
           !isLost(peer) && millisecondsSince(start) < options.timeoutMs) {
      waitPolicy.callProgress();
      std::this_thread::sleep_for(std::chrono::microseconds(progressIntervalUs));
    }
}

} // namespace kolo::runtime
