#include "Carrier.h"
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
  arguments.blocks = buffers.blocks;
  return arguments;
}

} // namespace

Result<std::shared_ptr<HostCarrier>> HostCarrier::connect(const runtime::AllGather &exchange, int rank, int size,
                                                          int device, bool hasPeersHere) {
  Result<Communicator> host = Communicator::create(rank, size, exchange, {.timeoutMs = timeoutMs()});
  if (!host.isOk())
    return host.status();
  Result<DeviceCommunicator> made =
      DeviceCommunicator::create(std::move(host).value(), device, {.kind = real().kind, .timeoutMs = timeoutMs()});
  if (!made.isOk())
    return made.status();
  return std::shared_ptr<HostCarrier>(new HostCarrier(size, hasPeersHere, std::move(made).value()));
}

/// Blocks of their own lengths run in one piece, and internal memory, or an inbox, has room for a longest one in place
/// of each.
bool HostCarrier::isTooLarge(const Shape &shape) const {
  constexpr int64_t most = int64_t(64) << 20;
  const bool isCopied = shape.memory == MemoryKind::Ordinary || crossesNetwork;
  return shape.hasTables && isCopied && shape.count > most / numRanks;
}

constexpr const char *tooLarge = "blocks too large for Kolo to copy";

Examined HostCarrier::examine(int rank, const Shape &shape, const RankBuffers &buffers,
                              const std::array<size_t, 2> &sizeBytes) {
  std::scoped_lock lock(mutex);
  if (!communicator)
    return {"communicator that was aborted", {}};
  Examined examined;
  const void *const addresses[] = {buffers.input, buffers.output};
  for (size_t role : {size_t(0), size_t(1)}) {
    Result<uint64_t> window = communicator->windowOf(addresses[role], sizeBytes[role]);
    if (!window.isOk())
      return {unusableMemory, {}};
    examined.windows[role] = *window;
  }
  Shape asked = shape;
  asked.memory = communicator->memoryFor(shape.kind, {&buffers, 1});
  const Decision &decision = decisionOn(asked, rank == 0, &*communicator);
  if (!decision.plugin)
    examined.whyNot = decision.reason;
  else if (isTooLarge(asked))
    examined.whyNot = tooLarge;
  return examined;
}

/// Null: the call does not run, and `request` says what becomes of it.
Decision *HostCarrier::decideOn(int rank, const RankBuffers &buffers, CallRequest &request) {
  Shape &shape = request.shape;
  if (!communicator) {
    request.state = CallRequest::State::Failed;
    request.code = Code::RemoteError;
    request.message = describe(shape) + ": this communicator was aborted";
    return nullptr;
  }
  shape.memory = numWindows ? communicator->memoryFor(shape.kind, {&buffers, 1}) : MemoryKind::Ordinary;
  Decision &decision = decisionOn(shape, rank == 0, &*communicator);
  if (decision.plugin && !isTooLarge(shape)) [[likely]]
    return &decision;
  if (!shape.program.empty()) {
    failUnknown(request);
  } else {
    request.reason = decision.plugin ? tooLarge : decision.reason;
    request.state = CallRequest::State::Forwarded;
  }
  return nullptr;
}

void HostCarrier::conclude(int rank, Decision &decision, CallRequest &request, const Status &status) {
  bool isUsable = status.isOk() || communicator->query().isOk();
  settle(decision, request, status, isUsable, rank == 0);
}

RequestPointer HostCarrier::submit(int rank, const Shape &shape, const RankBuffers &buffers, Stream stream) {
  auto request = std::make_shared<CallRequest>();
  request->shape = shape;
  request->buffers = buffers;
  std::scoped_lock lock(mutex);
  if (Decision *decision = decideOn(rank, buffers, *request))
    conclude(rank, *decision, *request, communicator->run(*decision->plugin, argumentsOf(*decision, buffers), stream));
  return request;
}

std::vector<RequestPointer> HostCarrier::submitTogether(std::span<const Submission> group) {
  struct Running {
    const Submission *from;
    Decision *decision;
    RequestPointer request;
  };
  std::set<HostCarrier *> carriers;
  for (const Submission &each : group)
    carriers.insert(each.carrier->ofOneRank());
  std::vector<std::unique_lock<std::mutex>> locks;
  for (HostCarrier *carrier : carriers)
    locks.emplace_back(carrier->mutex);
  std::vector<RequestPointer> requests;
  std::vector<Running> running;
  std::vector<DeviceCall> calls;
  for (const Submission &each : group) {
    const RequestPointer &request = requests.emplace_back(std::make_shared<CallRequest>());
    request->shape = *each.shape;
    request->buffers = each.buffers;
    HostCarrier &carrier = *each.carrier->ofOneRank();
    Decision *decision = carrier.decideOn(each.rank, each.buffers, *request);
    if (!decision)
      continue;
    calls.push_back({&*carrier.communicator, decision->plugin, argumentsOf(*decision, each.buffers), each.stream,
                     Status(StatusCode::SystemError, "the group was not started")});
    running.push_back({&each, decision, request});
  }
  (void)DeviceCommunicator::runGroup(calls); // each call has its own status
  for (size_t number = 0; number < calls.size(); ++number) {
    const Running &each = running[number];
    each.from->carrier->ofOneRank()->conclude(each.from->rank, *each.decision, *each.request, calls[number].status);
  }
  return requests;
}

Status HostCarrier::flush(int rank) {
  std::scoped_lock lock(mutex); // an abort by another thread does not take it
  return communicator && !hasLeft ? communicator->synchronize() : Status();
}

Status HostCarrier::failure() {
  std::unique_lock lock(mutex, std::try_to_lock);
  return lock && communicator ? communicator->query() : Status();
}

/// Ends an aborted communicator, or one with peers in this process, aside: a peer may leave later, by this very thread.
/// Another thread may be in a call, for which the end waits.
Status HostCarrier::leave(int rank, Leave how) {
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

Status HostCarrier::addWindow(void *memory, size_t sizeBytes, std::span<void *const> addresses) {
  std::scoped_lock lock(mutex);
  if (!communicator)
    return {StatusCode::Aborted, "this communicator was aborted"};
  Status status = addresses.empty() ? communicator->registerWindow({&memory, 1}, sizeBytes)
                                    : communicator->registerMappedWindow(addresses, sizeBytes);
  numWindows += status.isOk();
  return status;
}

void HostCarrier::removeWindow(void *memory) {
  std::scoped_lock lock(mutex);
  if (communicator && communicator->forgetWindow({&memory, 1}).isOk())
    --numWindows;
}

} // namespace kolo::nccl
