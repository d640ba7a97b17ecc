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
  if (numHere > maxRanksOfHost)
    return error(StatusCode::InvalidArgument, "a communicator has at most {} ranks on one host, not {}", maxRanksOfHost,
                 numHere);
  const size_t bytes = Control::sizeBytes(numRanks, numHere);
  const bool areAllHere = numHere == numRanks;
  Result<Memory> memory = kind == RankKind::Threads ? Memory::createPrivate(bytes)
                          : areAllHere ? Memory::createShared(bytes)
                                       : Memory::createSparse(bytes, Control::usedBytes(numRanks, numHere));
  if (!memory.isOk())
    return memory.status();
  auto shared = std::make_shared<ControlMemory>();
  shared->memory = std::move(memory).value();
  shared->control = Control(shared->memory.data(), numRanks, numHere);
  new (&shared->control.abort()) AbortRecord{};
  if (!areAllHere)
    new (&shared->control.host()) HostBlock{};
  for (int place = 0; place < numHere; ++place)
    new (&shared->control.block(place)) RankBlock{};
  return shared;
}

static Seat seatOf(const Control &control, const Hosts &hosts) {
  std::vector<SeatedOn *> seats;
  for (int place = 0; place < control.numHere(); ++place)
    seats.push_back(&control.block(place).seatedOn);
  return Seat(std::move(seats), static_cast<size_t>(hosts.placeOf(hosts.self())));
}

Peers::Peers(std::shared_ptr<ControlMemory> memory, RankKind rankKind, int ownRank, const Settings &settings,
             std::shared_ptr<HostLinks> hostLinks)
    : shared(std::move(memory)),
      network(hostLinks ? std::move(hostLinks) : HostLinks::ofOneHost(shared->control, ownRank)),
      places(network->hosts()), howRelated(rankKind), self(ownRank), creatorPid(getpid()), options(settings),
      seat(seatOf(shared->control, hosts())), processes(static_cast<size_t>(shared->control.numHere())) {
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
  waitPolicy.network = network->wait();
  waitPolicy.yields = &yields;
  // Where a rank has several threads, nobody says where the others run.
  waitPolicy.seat = options.lanes == 1 ? &seat : nullptr;
}

void Peers::watchPeers() {
  if (howRelated == RankKind::Threads)
    return;
  for (int peer : hosts().ranksHere())
    if (peer != self)
      processes[static_cast<size_t>(hosts().placeOf(peer))] = WatchedProcess::watch(block(peer).pid.load());
}

bool Peers::isLost(int peer) const {
  Liveness found = livenessOf(peer);
  return found.hasLeft || found.hasEnded;
}

bool Peers::hasDied(int peer) const {
  Liveness found = livenessOf(peer);
  return found.hasEnded && !found.hasLeft;
}

Peers::Liveness Peers::livenessOf(int peer) const {
  Liveness found;
  if (isRemote(peer)) {
    found.hasEnded = network->control().hasFailedWith(peer);
    found.hasLeft = network->network().hasLeft(peer);
    return found;
  }
  int pid = block(peer).pid.load(std::memory_order_relaxed);
  const std::shared_ptr<const WatchedProcess> &process = processes[static_cast<size_t>(hosts().placeOf(peer))];
  if (howRelated == RankKind::Processes && peer != self && pid != 0)
    found.hasEnded = process ? process->hasEnded() : kill(pid, 0) != 0 && errno == ESRCH;
  found.hasLeft = block(peer).presence.load(std::memory_order_seq_cst) == Presence::Left;
  return found;
}

Status Peers::abort(const Status &found) {
  Status cause = network->explain(found);
  if (!storeAbort(control().abort(), cause))
    return abortCause();
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
  network->tellAbort();
  return Status(record.code, record.message, record.culprit);
}

/// A child has its parent's memory, so what it announced would be its parent's word.
Status Peers::whyNoCall() const {
  if (mark.isHere()) {
    Status cause = abortCause();
    return rankError(StatusCode::Aborted, cause.rank(), "this communicator was aborted: {}", cause.message());
  }
  return error(StatusCode::InvalidArgument,
               "process {} was forked from process {}, which is rank {} here: a child can only make a communicator of "
               "its own",
               getpid(), creatorPid, self);
}

WaitEnd Peers::checkWait(int peer, Clock::time_point start) {
  for (const Status &refusal : {network->network().refusal(), watch ? watch() : Status()})
    if (!refusal.isOk())
      (void)abort(refusal);
  if (isAborted())
    return WaitEnd::Aborted;
  if (isLost(peer))
    return WaitEnd::PeerLost;
  if (millisecondsSince(start) >= suspicionMs)
    network->control().ask(peer); // nothing, for a rank of this host
  return millisecondsSince(start) >= options.timeoutMs ? WaitEnd::Timeout : WaitEnd::Reached;
}

void Peers::keepForPeers(std::shared_ptr<void> thing) const {
  std::scoped_lock lock(shared->mutex);
  shared->kept.push_back(std::move(thing));
}

void Peers::waitUntilQuiet() const {
  Clock::time_point start = Clock::now();
  for (int peer : hosts().ranksHere())
    while (peer != self && block(peer).isRunning.load(std::memory_order_seq_cst) != 0 && !isLost(peer) &&
           millisecondsSince(start) < options.timeoutMs) {
      waitPolicy.callProgress();
      std::this_thread::sleep_for(std::chrono::microseconds(progressIntervalUs));
    }
}

} // namespace kolo::runtime
