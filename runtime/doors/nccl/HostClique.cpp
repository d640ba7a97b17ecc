#include "Clique.h"
#include "Process.h"

#include <set>
#include <utility>

namespace kolo::nccl {

using runtime::CallArguments;
using runtime::Communicator;
using runtime::DeviceCall;
using runtime::DeviceCommunicator;
using runtime::MemoryKind;
using runtime::RankBuffers;
using runtime::Result;
using runtime::Status;
using runtime::StatusCode;

namespace {

CallArguments argumentsOf(const Decision &decision, const RankBuffers &buffers) {
  CallArguments arguments = decision.arguments;
  arguments.input = buffers.input;
  arguments.output = buffers.output;
  return arguments;
}

} // namespace

Result<std::shared_ptr<HostClique>> HostClique::connect(Board &board, int rank, int size, int device,
                                                        bool hasPeersHere) {
  auto exchange = [&](const void *own, size_t sizeBytes, void *all) {
    return board.gather(rank, size, own, sizeBytes, all);
  };
  Result<Communicator> host = Communicator::create(rank, size, exchange, {.timeoutMs = timeoutMs()});
  if (!host.isOk())
    return host.status();
  Result<DeviceCommunicator> made =
      DeviceCommunicator::create(std::move(host).value(), device, {.kind = real().kind, .timeoutMs = timeoutMs()});
  if (!made.isOk())
    return made.status();
  return std::shared_ptr<HostClique>(new HostClique(size, hasPeersHere, std::move(made).value()));
}

/// Null: the call does not run, and `deposit` says what becomes of it.
Decision *HostClique::decideOn(int rank, const RankBuffers &buffers, Deposit &deposit) {
  Shape &shape = deposit.shape;
  if (!communicator) {
    deposit.state = Deposit::State::Failed;
    deposit.code = Code::RemoteError;
    deposit.message = describe(shape) + ": this communicator was aborted";
    return nullptr;
  }
  shape.memory = numWindows ? communicator->memoryFor(shape.kind, {&buffers, 1}) : MemoryKind::Ordinary;
  Decision &decision = decisionOn(shape, rank == 0);
  if (decision.plugin) [[likely]]
    return &decision;
  if (!shape.program.empty()) {
    failUnknown(deposit);
  } else {
    deposit.reason = decision.reason;
    deposit.state = Deposit::State::Forwarded;
  }
  return nullptr;
}

void HostClique::conclude(int rank, Decision &decision, Deposit &deposit, const Status &status) {
  bool isUsable = status.isOk() || communicator->query().isOk();
  settle(decision, deposit, status, isUsable, rank == 0);
}

Ticket HostClique::submit(int rank, const Shape &shape, const RankBuffers &buffers, Stream stream) {
  auto ticket = std::make_shared<Deposit>();
  ticket->shape = shape;
  std::scoped_lock lock(mutex);
  if (Decision *decision = decideOn(rank, buffers, *ticket))
    conclude(rank, *decision, *ticket, communicator->run(*decision->plugin, argumentsOf(*decision, buffers), stream));
  return ticket;
}

std::vector<Ticket> HostClique::submitTogether(std::span<const Submission> group) {
  struct Running {
    const Submission *from;
    Decision *decision;
    Ticket ticket;
  };
  std::set<HostClique *> cliques;
  for (const Submission &each : group)
    cliques.insert(each.clique->ofOneRank());
  std::vector<std::unique_lock<std::mutex>> locks;
  for (HostClique *clique : cliques)
    locks.emplace_back(clique->mutex);
  std::vector<Ticket> tickets;
  std::vector<Running> running;
  std::vector<DeviceCall> calls;
  for (const Submission &each : group) {
    const Ticket &ticket = tickets.emplace_back(std::make_shared<Deposit>());
    ticket->shape = *each.shape;
    HostClique &clique = *each.clique->ofOneRank();
    Decision *decision = clique.decideOn(each.rank, each.buffers, *ticket);
    if (!decision)
      continue;
    calls.push_back({&*clique.communicator, decision->plugin, argumentsOf(*decision, each.buffers), each.stream,
                     Status(StatusCode::SystemError, "the group was not started")});
    running.push_back({&each, decision, ticket});
  }
  (void)DeviceCommunicator::runGroup(calls); // each call has its own status
  for (size_t number = 0; number < calls.size(); ++number) {
    const Running &each = running[number];
    each.from->clique->ofOneRank()->conclude(each.from->rank, *each.decision, *each.ticket, calls[number].status);
  }
  return tickets;
}

Status HostClique::flush(int rank) {
  std::scoped_lock lock(mutex); // an abort by another thread does not take it
  return communicator && !hasLeft ? communicator->synchronize() : Status();
}

Status HostClique::failure() {
  std::unique_lock lock(mutex, std::try_to_lock);
  return lock && communicator ? communicator->query() : Status();
}

/// Ends an aborted communicator, or one with peers in this process, aside: a peer may leave later, by this very thread.
/// Another thread may be in a call, for which the end waits.
Status HostClique::leave(int rank, Leave how) {
  Status status = how == Leave::Destroyed ? flush(rank) : Status();
  if (hasLeft.exchange(true))
    return status;
  if (how == Leave::Aborted && communicator)
    communicator->abort();
  auto endAfterCall = [self = shared_from_this()] {
    std::optional<DeviceCommunicator> last; // ends without the mutex: later calls fail, and do not wait for peers
    std::scoped_lock lock(self->mutex);
    last = std::exchange(self->communicator, std::nullopt);
  };
  if (how == Leave::Aborted)
    runAside(endAfterCall, abortedMs);
  else if (hasPeersHere)
    runAside(endAfterCall, timeoutMs());
  else
    endAfterCall();
  return status;
}

Status HostClique::addWindow(void *memory, size_t sizeBytes, std::span<void *const> addresses) {
  std::scoped_lock lock(mutex);
  if (!communicator)
    return {StatusCode::Aborted, "this communicator was aborted"};
  Status status = addresses.empty() ? communicator->registerWindow({&memory, 1}, sizeBytes)
                                    : communicator->registerMappedWindow(addresses, sizeBytes);
  numWindows += status.isOk();
  return status;
}

void HostClique::removeWindow(void *memory) {
  std::scoped_lock lock(mutex);
  if (communicator && communicator->forgetWindow({&memory, 1}).isOk())
    --numWindows;
}

} // namespace kolo::nccl
