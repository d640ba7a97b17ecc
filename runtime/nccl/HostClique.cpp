#include "Clique.h"
#include "Process.h"

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
  if (hasLeft || !communicator) {
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
  if (settle(decision, *ticket, status, rank == 0))
    door()->countCarried(decision.sizeBytes);
  if (hasLeft) {
    end(std::move(communicator), Leave::Aborted);
    communicator.reset();
  }
  return ticket;
}

std::string HostClique::failure() {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock || !communicator)
    return "";
  Status status = communicator->query();
  return status.isOk() ? "" : status.message();
}

/// A thread that is in a call of this communicator ends the communicator when it returns.
void HostClique::leave(int rank, Leave how) {
  hasLeft = true;
  std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock)
    return;
  std::optional<DeviceCommunicator> last = std::move(communicator);
  communicator.reset();
  lock.unlock();
  end(std::move(last), how);
}

} // namespace kolo::nccl
