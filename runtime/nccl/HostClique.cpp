#include "Clique.h"
#include "Process.h"

#include <utility>

namespace kolo::nccl {

using runtime::Communicator;
using runtime::DeviceCommunicator;
using runtime::Result;
using runtime::Status;

Result<std::shared_ptr<HostClique>> HostClique::connect(Board &board, int rank, int size, int device) {
  auto exchange = [&](const void *own, size_t sizeBytes, void *all) {
    return board.gather(rank, size, own, sizeBytes, all);
  };
  Result<Communicator> host = Communicator::create(rank, size, exchange, {.timeoutMs = timeoutMs()});
  if (!host.isOk())
    return host.status();
  Result<DeviceCommunicator> made =
      DeviceCommunicator::create(std::move(host).value(), device, {.timeoutMs = timeoutMs()});
  if (!made.isOk())
    return made.status();
  return std::shared_ptr<HostClique>(new HostClique(size, std::move(made).value()));
}

Ticket HostClique::submit(int rank, const Shape &shape, const runtime::RankBuffers &buffers, Stream stream) {
  auto ticket = std::make_shared<Deposit>();
  ticket->shape = shape;
  std::scoped_lock lock(mutex);
  if (!communicator) {
    ticket->state = Deposit::State::Failed;
    ticket->code = Code::RemoteError;
    ticket->message = describe(shape) + ": this communicator was aborted";
    return ticket;
  }
  Decision &decision = decisionOn(shape, rank == 0);
  if (!decision.plugin && !shape.program.empty()) {
    ticket->code = Code::InvalidArgument;
    ticket->message = "no plugin has " + describe(shape) + " on " + std::to_string(numRanks) + " ranks";
    ticket->state = Deposit::State::Failed;
    return ticket;
  }
  if (!decision.plugin) {
    ticket->reason = decision.reason;
    ticket->state = Deposit::State::Forwarded;
    return ticket;
  }
  runtime::CallArguments arguments = decision.arguments;
  arguments.input = buffers.input;
  arguments.output = buffers.output;
  Status status = communicator->run(*decision.plugin, arguments, stream);
  bool isUsable = status.isOk() || communicator->query().isOk();
  if (settle(decision, *ticket, status, isUsable, rank == 0))
    door()->countCarried(decision.sizeBytes);
  return ticket;
}

std::string HostClique::failure() {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock || !communicator)
    return "";
  Status status = communicator->query();
  return status.isOk() ? "" : status.message();
}

/// Another thread may be in a call of this communicator. Then the end waits for it.
void HostClique::leave(int rank, Leave how) {
  auto endAfterCall = [self = shared_from_this(), how] {
    std::unique_lock lock(self->mutex);
    std::optional<DeviceCommunicator> last = std::exchange(self->communicator, std::nullopt);
    lock.unlock();
    if (last && how == Leave::Aborted)
      last->abort();
  };
  if (how == Leave::Destroyed)
    return endAfterCall();
  if (std::unique_lock lock(mutex, std::try_to_lock); lock && communicator)
    communicator->abort();
  runAside(endAfterCall);
}

} // namespace kolo::nccl
