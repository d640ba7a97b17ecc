#include "Carrier.h"
#include "Process.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace kolo::nccl {

using runtime::Status;

LocalCarrier::LocalCarrier(int size)
    : Carrier(size), devices(static_cast<size_t>(size)), waiting(static_cast<size_t>(size)),
      hasLeft(static_cast<size_t>(size)) {}

void LocalCarrier::attach(int rank, int device) {
  std::scoped_lock lock(mutex);
  devices[static_cast<size_t>(rank)] = device;
}

/// Kernels access all buffers where they are, and the runtime sees those of all ranks before it starts a call.
Examined LocalCarrier::examine(int rank, const Shape &shape, const runtime::RankBuffers &buffers,
                               const std::array<size_t, 2> &sizeBytes) {
  std::scoped_lock lock(mutex);
  const Decision &decision = decisionOn(shape, rank == 0);
  return {decision.plugin ? nullptr : decision.reason, {}};
}

RequestPointer LocalCarrier::submit(int rank, const Shape &shape, const runtime::RankBuffers &buffers, Stream stream) {
  auto request = std::make_shared<CallRequest>();
  request->shape = shape;
  request->buffers = buffers;
  request->stream = stream;
  std::scoped_lock lock(mutex);
  if (!ended.empty()) {
    request->state = CallRequest::State::Failed;
    request->code = Code::RemoteError;
    request->message = describe(shape) + ": " + ended;
    return request;
  }
  waiting[static_cast<size_t>(rank)].push_back(request);
  if (std::ranges::none_of(waiting, &std::deque<RequestPointer>::empty)) {
    start();
    announce();
  }
  return request;
}

/// Wakes those who await a call.
void LocalCarrier::announce() {
  std::unique_lock lock(arrival); // nobody is between a look and the wait then
  lock.unlock();
  changed.notify_all();
}

/// Makes the communicator when all ranks have come for the first time.
void LocalCarrier::open() {
  if (isOpen)
    return;
  isOpen = true;
  auto made = runtime::DeviceCommunicator::createLocal(devices, {.kind = real().kind, .timeoutMs = timeoutMs()});
  unusable = made.status();
  if (made.isOk()) {
    std::scoped_lock lock(ending);
    communicator = std::make_shared<runtime::DeviceCommunicator>(std::move(made).value());
  } else {
    print("calls on a communicator of " + std::to_string(numRanks) + " ranks are forwarded: " + unusable.message());
  }
}

/// Starts the call that every rank has submitted next.
void LocalCarrier::start() {
  std::vector<RequestPointer> call;
  std::vector<runtime::RankBuffers> buffers;
  std::vector<runtime::StreamHandle> streams;
  for (std::deque<RequestPointer> &queue : waiting) {
    call.push_back(queue.front());
    queue.pop_front();
    buffers.push_back(call.back()->buffers);
    streams.push_back(call.back()->stream);
  }
  auto other =
      std::ranges::find_if(call, [&](const RequestPointer &each) { return each->shape != call.front()->shape; });
  if (other != call.end()) {
    std::string message = "ranks call differently: rank 0 " + describe(call.front()->shape) + ", rank " +
                          std::to_string(other - call.begin()) + " " + describe((*other)->shape);
    for (const RequestPointer &each : call) {
      each->code = Code::InvalidArgument;
      each->message = message;
      each->state = CallRequest::State::Failed;
    }
    return;
  }
  open();
  Decision &decision = decisionOn(call.front()->shape, true);
  bool isNamed = !call.front()->shape.program.empty();
  Status status;
  if (!communicator)
    status = unusable;
  else if (decision.plugin)
    status = causeOf(communicator->run(*decision.plugin, decision.arguments, buffers, streams));
  bool isUsable = status.isOk() || !communicator || communicator->query().isOk();
  for (const RequestPointer &each : call) {
    bool isFirst = each == call.front();
    if (communicator && (decision.plugin || !status.isOk())) {
      settle(decision, *each, status, isUsable, isFirst);
    } else if (isNamed) {
      failUnknown(*each);
    } else {
      each->reason = communicator ? decision.reason : "devices that Kolo cannot use";
      each->state = CallRequest::State::Forwarded;
    }
  }
}

void LocalCarrier::await(int rank, const RequestPointer &request) {
  auto isDone = [&] { return request->state != CallRequest::State::Waiting; };
  if (isDone())
    return;
  std::unique_lock arrivalLock(arrival);
  if (changed.wait_for(arrivalLock, std::chrono::milliseconds(timeoutMs()), isDone))
    return;
  arrivalLock.unlock();
  std::scoped_lock lock(mutex);
  if (isDone())
    return;
  auto missing = std::ranges::find_if(waiting, &std::deque<RequestPointer>::empty);
  failAll("rank " + std::to_string(rank) + " waited " + std::to_string(timeoutMs()) + " ms for rank " +
              std::to_string(missing - waiting.begin()) + ", which did not call",
          true);
}

/// Ends all calls that wait.
void LocalCarrier::failAll(const std::string &why, bool isFailure) {
  if (ended.empty())
    ended = why;
  if (isFailure && broken.isOk())
    broken = {runtime::StatusCode::PeerLost, why};
  for (std::deque<RequestPointer> &queue : waiting)
    for (; !queue.empty(); queue.pop_front()) {
      CallRequest &request = *queue.front();
      request.code = Code::RemoteError;
      request.message = describe(request.shape) + ": " + why;
      request.state = CallRequest::State::Failed;
    }
  announce();
}

/// All ranks' kernels are in their streams, so none of them waits for another call.
Status LocalCarrier::flush(int rank) {
  std::scoped_lock lock(mutex);
  if (!communicator || hasLeft[static_cast<size_t>(rank)])
    return {};
  return causeOf(communicator->synchronize());
}

/// Ends what another thread awaits with the mutex, and so without it.
void LocalCarrier::abort(int rank) {
  int none = -1;
  abortedBy.compare_exchange_strong(none, rank);
  std::unique_lock lock(ending);
  std::shared_ptr<runtime::DeviceCommunicator> aborted = communicator;
  lock.unlock();
  if (aborted)
    aborted->abort();
}

/// The devices do not know which rank has aborted.
Status LocalCarrier::causeOf(const Status &status) const {
  if (status.isOk() || abortedBy < 0)
    return status;
  return {runtime::StatusCode::PeerLost, "rank " + std::to_string(abortedBy) + " aborted this communicator"};
}

Status LocalCarrier::failure() {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock || !broken.isOk())
    return lock ? broken : Status();
  return communicator ? causeOf(communicator->query()) : Status();
}

Status LocalCarrier::leave(int rank, Leave how) {
  const bool isAborted = how == Leave::Aborted;
  Status status;
  if (isAborted)
    abort(rank);
  else
    status = flush(rank);
  std::unique_lock lock(mutex);
  if (std::exchange(hasLeft[static_cast<size_t>(rank)], uint8_t(1)))
    return status;
  if (isAborted && communicator) // made meanwhile
    communicator->abort();
  failAll("rank " + std::to_string(rank) + (isAborted ? " aborted this communicator" : " left"), isAborted);
  if (std::ranges::count(hasLeft, 1) < numRanks)
    return status;
  std::unique_lock endingLock(ending);
  std::shared_ptr<runtime::DeviceCommunicator> last = std::exchange(communicator, nullptr);
  endingLock.unlock();
  lock.unlock();
  end(std::move(last), abortedBy < 0 ? how : Leave::Aborted);
  return status;
}

} // namespace kolo::nccl
