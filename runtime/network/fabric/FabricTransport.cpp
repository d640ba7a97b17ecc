#include "network/fabric/FabricTransport.h"

#include "base/Error.h"
#include "network/fabric/Providers.h"
#include "wait/Clock.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace kolo::runtime::fabric {
namespace {

/// A device wakes nobody, so a sleep is never longer than this.
constexpr std::chrono::microseconds firstSleep{10}, longestSleep{100};
/// A wait looks so often before it sleeps.
constexpr int looksBeforeSleep = 16;
/// Receives for messages that are under way at a time.
constexpr int numReceives = 64;
/// So long writes that have begun may take to end after a failure.
constexpr std::chrono::milliseconds drainTime{100};
/// A rank that leaves looks this often whether its peers have everything.
constexpr std::chrono::microseconds leaveInterval{100};
/// A peer that computes says nothing. What this rank wrote arrives all the same, so it does not wait longer.
constexpr std::chrono::milliseconds longestAnswer{2000};

/// What a peer cannot place, this rank judges by its own registrations.
Status answer(const Registrations &registrations, int sender, const Question &question) {
  Check check = question.isSignal ? registrations.checkSignal(sender, question.lane, question.signal)
                                  : registrations.checkPut(sender, question.place, question.sizeBytes);
  if (check.verdict == Verdict::Refused)
    return check.refusal;
  if (question.isOld)
    return rankError(StatusCode::Mismatch, sender,
                     "rank {} sets semaphore {} of lane {} in agreement {} to {}, which is not a larger count", sender,
                     question.signal.semaphore, question.lane, question.signal.agreement, question.signal.count);
  return {}; // it was asked before the news of this rank's registration came there
}

/// With memory of GPUs, if that is asked for and there. Else it is noted what is missing.
Result<Info> findFor(const Library &library, FabricState &state) {
  if (!state.options.isForDevices)
    state.gpuLack = error(StatusCode::InvalidArgument, "this network was not opened for memory of devices");
  else if (!state.rules.gpu.isReached)
    state.gpuLack = error(StatusCode::SystemError, "provider {}: the host copies what it writes to memory of devices",
                          state.rules.name);
  else {
    Result<Info> found = findProvider(library, state.rules, {state.options.address, true});
    if (found.isOk())
      return found;
    state.gpuLack = found.status();
  }
  return findProvider(library, state.rules, {state.options.address});
}

/// Whether its regions and cells may be so.
Status checkGpus(const FabricState &state, const Registration &registration) {
  auto isOfGpu = [](const Region &region) { return region.owner.kind != RegionOwner::Kind::Host; };
  const bool isNeeded = registration.makeVisible || std::ranges::any_of(registration.regions, isOfGpu);
  return isNeeded ? state.gpuLack : Status();
}

} // namespace

FabricTransport::FabricTransport(const FabricOptions &given, const ProviderRules &providerRules,
                                 ControlTransport &mailPath)
    : creatorPid(getpid()), registrations(given.numRanks), state(given, providerRules, mailPath), sender(state),
      departure(state), setup(state, sender, departure) {}

FabricTransport::~FabricTransport() {
  if (getpid() == creatorPid) {
    closeDevice();
    return;
  }
  // The device belongs to the parent: closing it here would end the parent's connections.
  state.exposed.forget();
  for (auto &[number, peer] : state.peers)
    if (peer.meeting)
      (void)peer.meeting.release();
  (void)state.nic.release();
}

Result<std::unique_ptr<FabricTransport>> FabricTransport::create(const FabricOptions &options,
                                                                 ControlTransport &mails) {
  Result<const Library *> library = Library::open();
  if (!library.isOk())
    return library.status();
  Result<const ProviderRules *> rules = rulesFor(**library, options.provider);
  if (!rules.isOk())
    return rules.status();
  return create(options, **rules, mails);
}

Result<std::unique_ptr<FabricTransport>> FabricTransport::create(const FabricOptions &options,
                                                                 const ProviderRules &rules, ControlTransport &mails) {
  if (options.numRanks < 1 || options.rank < 0 || options.rank >= options.numRanks ||
      options.numRanks > static_cast<int>(maxCountedRanks))
    return error(StatusCode::InvalidArgument, "rank {} of {}", options.rank, options.numRanks);
  Result<const Library *> library = Library::open();
  if (!library.isOk())
    return library.status();
  std::unique_ptr<FabricTransport> made(new FabricTransport(options, rules, mails));
  Result<Info> info = findFor(**library, made->state);
  if (!info.isOk())
    return info.status();
  Result<std::unique_ptr<Nic>> opened =
      Nic::open(**library, made->state.rules, std::move(info).value(), made->state.options);
  if (!opened.isOk())
    return opened.status();
  made->state.nic = std::move(opened).value();
  made->setup.setDevice(made->state.nic->kind());
  if (made->state.canTell())
    if (Status status = made->state.nic->startReceives(numReceives); !status.isOk())
      return status;
  return made;
}

/// Registers it for a moment.
Status FabricTransport::tryMemory(const Region &region) {
  if (!state.gpuLack.isOk())
    return state.gpuLack;
  if (region.owner.needsRead && state.rules.gpu.read == GpuRead::None)
    return error(StatusCode::SystemError,
                 "provider {}: what arrives in memory of this device is visible only behind a read of it, which this "
                 "provider does not make",
                 state.rules.name);
  std::scoped_lock lock(mutex);
  return state.nic ? state.nic->expose(region).status() : closedStatus();
}

Status FabricTransport::connect(std::span<const Endpoint> endpoints) {
  if (endpoints.size() != static_cast<size_t>(state.options.numRanks) || isConnected.load())
    return error(StatusCode::InvalidArgument, "{} endpoints for {} ranks, or connected already", endpoints.size(),
                 state.options.numRanks);
  for (const Endpoint &endpoint : endpoints)
    mayMeet.push_back(endpoint != Endpoint());
  mayMeet[static_cast<size_t>(state.options.rank)] = false;
  isConnected.store(true, std::memory_order_release);
  return {};
}

void FabricTransport::ask(int peer) {
  if (!isConnected.load(std::memory_order_acquire) || !mayMeet[static_cast<size_t>(peer)])
    return;
  std::scoped_lock lock(mutex);
  (void)setup.acquaintance(peer);
}

bool FabricTransport::hasMet(int peer) const {
  std::scoped_lock lock(mutex);
  auto found = state.peers.find(peer);
  return found != state.peers.end() && found->second.stage == Stage::Met;
}

Status FabricTransport::troubleWith(int peer) const {
  std::scoped_lock lock(mutex);
  return setup.troubleWith(peer);
}

Status FabricTransport::registerMemory(const Registration &registration) {
  if (registration.regions.size() > maxRegions)
    return error(StatusCode::InvalidArgument, "{} regions in one registration, more than {}",
                 registration.regions.size(), maxRegions);
  if (Status status = checkGpus(state, registration); !status.isOk())
    return status;
  if (Status status = registrations.add(registration); !status.isOk())
    return status;
  std::scoped_lock lock(mutex);
  Status status = state.nic ? state.exposed.add(*state.nic, registration, !state.isCounted()) : closedStatus();
  if (!status.isOk()) {
    registrations.remove(registration.agreement);
    return status;
  }
  for (const auto &[number, peer] : state.peers)
    if (peer.stage != Stage::Strange)
      state.tell(number, state.exposed.messageOf(registration.agreement, number));
  return {};
}

void FabricTransport::release(uint64_t agreement) {
  registrations.remove(agreement);
  std::scoped_lock lock(mutex);
  if (!state.exposed.contains(agreement))
    return;
  // A peer may be in the middle of a write to memory of a call that failed, and this device in the middle of a read.
  if (hasStopped())
    closeDevice();
  state.exposed.remove(agreement);
  ControlMessage message;
  message.kind = ControlKind::Released;
  message.agreement = agreement;
  for (const auto &[number, peer] : state.peers)
    if (peer.stage != Stage::Strange)
      state.tell(number, message);
}

/// Whether a call has failed. A write to a peer that has left fails, too, and is no failure of a call.
bool FabricTransport::hasStopped() const {
  return state.isStopped() || std::ranges::any_of(state.peers, [&](const auto &one) {
           return !state.failureOf(one.first, one.second).isOk();
         });
}

/// From now on nothing is written or read here. What has begun may end within drainTime; the rest is dropped.
void FabricTransport::closeDevice() {
  sender.drain(Clock::now() + drainTime);
  if (state.nic && !state.nic->bindsMemory())
    state.nic->closeEndpoint();
  state.exposed.closeRegions();
  for (auto &[number, peer] : state.peers)
    if (peer.meeting)
      peer.meeting->memory.reset();
  state.nic.reset();
  isClosed.store(true, std::memory_order_release);
}

Status FabricTransport::closedStatus() const {
  return error(StatusCode::Aborted, "rank {} closed provider {} after a failure", state.options.rank, state.rules.name);
}

Status FabricTransport::checkPath(Path path) const {
  if (path.peer < 0 || path.peer >= state.options.numRanks || path.peer == state.options.rank)
    return error(StatusCode::InvalidArgument, "rank {} is not a peer of rank {} of {}", path.peer, state.options.rank,
                 state.options.numRanks);
  if (!isConnected.load(std::memory_order_acquire) || !mayMeet[static_cast<size_t>(path.peer)])
    return error(StatusCode::InvalidArgument, "rank {} is not connected to rank {}", state.options.rank, path.peer);
  if (path.lane >= testLane)
    return error(StatusCode::InvalidArgument, "lane {} is not below {}", path.lane, testLane);
  Status status = stateOf(path.peer);
  return status.isOk() && isClosed.load(std::memory_order_acquire) ? closedStatus() : status;
}

/// Requires a path that is right.
void FabricTransport::push(Path path, const WriteRequest &request) {
  std::scoped_lock lock(mutex);
  (void)setup.acquaintance(path.peer);
  sender.push(path, request);
}

Status FabricTransport::put(Path path, RemotePlace place, const void *src, uint64_t sizeBytes) {
  Status status = checkPath(path);
  if (!status.isOk() || sizeBytes == 0)
    return status;
  if (sizeBytes > kolo::runtime::maxPutBytes)
    return error(StatusCode::InvalidArgument, "a put of {} bytes, more than {}", sizeBytes, kolo::runtime::maxPutBytes);
  WriteRequest request;
  request.place = place;
  request.src = static_cast<const std::byte *>(src);
  request.sizeBytes = sizeBytes;
  push(path, request);
  return {};
}

Status FabricTransport::signal(Path path, RemoteSignal signal) {
  if (Status status = checkPath(path); !status.isOk())
    return status;
  if (signal.count == 0 || signal.count >= endOfCounts)
    return error(StatusCode::InvalidArgument, "a signal with count {}", signal.count);
  WriteRequest request;
  request.isSignal = true;
  request.signal = signal;
  push(path, request);
  return {};
}

/// Whether all of the lane is complete at the peer. `numMoved` changes when something moves, also of their meeting.
/// `wasDropped` becomes true if some of it never will be complete.
bool FabricTransport::isDone(Path path, uint64_t &numMoved, bool &wasDropped) {
  std::scoped_lock lock(mutex);
  FabricPeer &peer = state.peers.at(path.peer);
  SendPath &lane = peer.paths.at(path.lane);
  auto test = peer.paths.find(testLane);
  numMoved = lane.numMoved + static_cast<uint64_t>(peer.stage) + (test == peer.paths.end() ? 0 : test->second.numMoved);
  wasDropped |= std::exchange(lane.wasDropped, false) || !peer.isWorking();
  return lane.isDone() && !wasDropped;
}

/// Blocks until all that the lane wrote to the peer is complete. A peer that leaves waits for what is under way, so
/// that only what was dropped fails then.
Status FabricTransport::flushPath(Path path) {
  const Counter none = {};
  const int self = state.options.rank;
  uint64_t numMoved = 0, lastMoved = 0;
  bool wasDropped = false;
  Clock::time_point lastTime = Clock::now();
  for (int look = 0; !isDone(path, numMoved, wasDropped); ++look) {
    if (Status status = wasDropped ? stateOf(path.peer) : state.mails.stateOf(path.peer); !status.isOk())
      return status;
    if (isClosed.load(std::memory_order_acquire))
      return closedStatus();
    if (state.isStopped())
      return rankError(StatusCode::Aborted, path.peer, "rank {} stopped while rank {} took no data", self, path.peer);
    (void)progress(); // another peer's failure does not end this
    if (std::exchange(lastMoved, numMoved) != numMoved) {
      lastTime = Clock::now();
      look = 0;
    }
    if (Clock::now() - lastTime >= std::chrono::milliseconds(state.options.timeoutMs)) {
      Status trouble = troubleWith(path.peer);
      return rankError(StatusCode::Timeout, path.peer, "rank {} waited {} ms for rank {} to take data: timed out{}{}",
                       self, state.options.timeoutMs, path.peer, trouble.isOk() ? "" : "; ", trouble.message());
    }
    if (look >= looksBeforeSleep)
      (void)state.mails.idle(none, 1, Clock::now() + longestSleep);
  }
  return {};
}

Status FabricTransport::flush(uint32_t lane) {
  std::vector<int> writtenTo;
  {
    std::scoped_lock lock(mutex);
    for (const auto &[number, peer] : state.peers)
      if (peer.paths.contains(lane))
        writtenTo.push_back(number);
  }
  Status first;
  for (int peer : writtenTo)
    if (Status status = flushPath({peer, lane}); !status.isOk() && first.isOk())
      first = status;
  return first;
}

PutCounts FabricTransport::countPuts(Path path) const {
  std::scoped_lock lock(mutex);
  auto peer = state.peers.find(path.peer);
  if (isClosed.load(std::memory_order_acquire) || peer == state.peers.end())
    return noPutsUnderWay;
  auto lane = peer->second.paths.find(path.lane);
  return lane == peer->second.paths.end() ? PutCounts() : PutCounts{lane->second.numPuts, lane->second.numRead()};
}

Status FabricTransport::progress() {
  Status ofMails = state.mails.progress();
  {
    std::scoped_lock lock(mutex);
    sender.takeEvents();
    setup.progress();
    sender.advance();
    departure.answer();
  }
  Status own = firstFailure();
  return own.isOk() ? ofMails : own;
}

Status FabricTransport::idle(const Counter &counter, uint64_t target, Clock::time_point until) {
  auto sleep = firstSleep;
  for (int look = 0;; ++look) {
    Status status = progress();
    if (counter.hasReached(target) || Clock::now() >= until)
      return status;
    if (look < looksBeforeSleep && status.isOk()) {
      sched_yield();
      continue;
    }
    (void)state.mails.idle(counter, target, std::min(until, Clock::now() + sleep));
    if (!status.isOk())
      return status;
    sleep = std::min(2 * sleep, longestSleep);
  }
}

Status FabricTransport::firstFailure() const {
  if (!state.hasFailed.load(std::memory_order_acquire))
    return {};
  std::scoped_lock lock(mutex);
  if (!state.ownFailure.isOk())
    return state.ownFailure;
  for (const auto &[number, peer] : state.peers)
    if (Status status = state.failureOf(number, peer); !status.isOk())
      return status;
  return {};
}

Status FabricTransport::stateOf(int number) const {
  Status status = state.mails.stateOf(number);
  if (!state.hasFailed.load(std::memory_order_acquire) && !isSomeoneLeaving.load(std::memory_order_acquire))
    return status;
  std::scoped_lock lock(mutex);
  auto found = state.peers.find(number);
  if (found == state.peers.end())
    return status;
  const FabricPeer &peer = found->second;
  if (!peer.refusal.isOk() || !status.isOk())
    return peer.refusal.isOk() ? status : peer.refusal;
  return peer.isLeaving ? rankError(StatusCode::PeerLost, number, "rank {} has left", number)
                        : state.failureOf(number, peer);
}

Status FabricTransport::take(int from, std::span<const std::byte> mail) {
  Result<ControlMessage> message = parseControlMessage(mail);
  if (!message.isOk())
    return rankError(StatusCode::Mismatch, from, "rank {} sent {}", from, message.status().message());
  if (message->kind == ControlKind::Question)
    return answer(registrations, from, message->question);
  std::scoped_lock lock(mutex);
  bool isFirst = message->kind == ControlKind::Address || message->kind == ControlKind::Failed;
  if (!isFirst && !state.peers.contains(from))
    return rankError(StatusCode::Mismatch, from, "rank {} sent a message before its address", from);
  return take(from, setup.acquaintance(from), *message);
}

Status FabricTransport::take(int from, FabricPeer &peer, const ControlMessage &message) {
  switch (message.kind) {
  case ControlKind::Address:
    return setup.noteAddress(from, peer, message);
  case ControlKind::Ready:
    if (peer.meeting)
      peer.meeting->isPeerReady = true;
    break;
  case ControlKind::Registered:
    peer.newest = std::max(peer.newest, message.agreement);
    peer.agreements[message.agreement] = message.registered;
    break;
  case ControlKind::Released:
    peer.newest = std::max(peer.newest, message.agreement);
    peer.agreements.erase(message.agreement);
    for (auto &[lane, path] : peer.paths)
      std::erase_if(path.counts, [&](const auto &one) { return one.first.first == message.agreement; });
    break;
  case ControlKind::Leaving: {
    Status status = departure.note(from, peer, message);
    isSomeoneLeaving.store(true, std::memory_order_release);
    return status;
  }
  case ControlKind::Farewell:
    peer.saidFarewell = true;
    break;
  case ControlKind::Passed:
    if (peer.meeting)
      peer.meeting->hasPeerPassed = true;
    break;
  case ControlKind::Failed:
    state.refuse(peer, rankError(StatusCode::SystemError, from, "{}", message.reason));
    break;
  case ControlKind::Question:
    break; // see take
  }
  return {};
}

void FabricTransport::leave() {
  if (getpid() != creatorPid || !isConnected.load(std::memory_order_acquire))
    return;
  const Counter none = {};
  const Clock::time_point begin = Clock::now(), until = begin + std::chrono::milliseconds(state.options.timeoutMs);
  {
    std::scoped_lock lock(mutex);
    state.hasLeft = true;
    setup.stop();
    for (auto &[number, peer] : state.peers)
      if (state.nic && state.isThere(number))
        departure.tell(number, peer);
  }
  while (Clock::now() < until && !state.isStopped()) {
    (void)progress(); // a peer's failure does not end this
    {
      std::scoped_lock lock(mutex);
      if (!state.nic || departure.mayLeave(Clock::now() - begin < longestAnswer))
        return;
    }
    (void)state.mails.idle(none, 1, Clock::now() + leaveInterval);
  }
}

} // namespace kolo::runtime::fabric
