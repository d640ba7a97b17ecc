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
/// So long after a failed write the end of the peer may still be noticed by mail, which is the truer cause.
constexpr std::chrono::milliseconds graceTime{300};
/// So long writes that have begun may take to end after a failure.
constexpr std::chrono::milliseconds drainTime{100};

} // namespace

FabricTransport::FabricTransport(const FabricOptions &given, const ProviderRules &providerRules,
                                 ControlTransport &mailPath)
    : options(given), rules(providerRules), mails(mailPath), creatorPid(getpid()), registrations(given.numRanks) {}

FabricTransport::~FabricTransport() {
  if (getpid() == creatorPid) {
    closeDevice();
    return;
  }
  // The device belongs to the parent: closing it here would end the parent's connections.
  for (auto &[number, own] : exposed) {
    for (std::unique_ptr<Memory> &region : own.regions)
      (void)region.release();
    (void)own.cells.release();
  }
  for (auto &[number, peer] : peers)
    (void)peer.meeting.release();
  (void)nic.release();
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
  Result<Info> info = findProvider(**library, rules, options.address);
  if (!info.isOk())
    return info.status();
  std::unique_ptr<FabricTransport> made(new FabricTransport(options, rules, mails));
  Result<std::unique_ptr<Nic>> opened = Nic::open(**library, made->rules, std::move(info).value(), options.rank);
  if (!opened.isOk())
    return opened.status();
  made->nic = std::move(opened).value();
  made->device = made->nic->kind();
  if (rules.order == SignalOrder::Counted)
    if (Status status = made->nic->startReceives(numReceives); !status.isOk())
      return status;
  return made;
}

/// Registers memory and keeps it.
Status FabricTransport::expose(const Registration &registration) {
  Exposed own;
  own.registration = registration;
  own.forSenders.numLanes = registration.numLanes;
  own.forSenders.numSemaphores = registration.numSemaphores;
  own.forSenders.isBySender = registration.isBySender;
  if (!nic)
    return closedStatus();
  auto describe = [&](std::byte *memory, uint64_t sizeBytes, std::unique_ptr<Memory> &kept) -> Result<RemoteRegion> {
    Result<std::unique_ptr<Memory>> made = nic->expose(memory, sizeBytes);
    if (!made.isOk())
      return made.status();
    kept = std::move(made).value();
    return RemoteRegion{kept->key(), kept->remoteBase(), sizeBytes};
  };
  for (const Region &region : registration.regions) {
    own.regions.emplace_back();
    own.forSenders.regions.emplace_back();
    if (region.sizeBytes == 0)
      continue;
    Result<RemoteRegion> made = describe(region.memory, region.sizeBytes, own.regions.back());
    if (!made.isOk())
      return made.status();
    own.forSenders.regions.back() = *made;
  }
  uint64_t numCells =
      uint64_t(registration.numLanes) * registration.numSemaphores * static_cast<uint64_t>(options.numRanks);
  if (rules.order != SignalOrder::Counted && numCells > 0) {
    Result<RemoteRegion> made =
        describe(reinterpret_cast<std::byte *>(registration.cells), numCells * sizeof(Cell), own.cells);
    if (!made.isOk())
      return made.status();
    own.forSenders.cells = *made;
  }
  newestExposed = registration.agreement;
  exposed[registration.agreement] = std::move(own);
  return {};
}

/// Tells a peer what it may write in a registration: nothing if it is no sender.
void FabricTransport::tellRegistered(int number, const Exposed &own) {
  Letter letter;
  letter.kind = LetterKind::Registered;
  letter.agreement = own.registration.agreement;
  if (own.registration.senders[static_cast<size_t>(number)])
    letter.registered = own.forSenders;
  (void)mails.mail(number, write(letter)); // who is lost is noticed by those who wait for it
}

Status FabricTransport::registerMemory(const Registration &registration) {
  if (registration.regions.size() > maxRegions)
    return error(StatusCode::InvalidArgument, "{} regions in one registration, more than {}",
                 registration.regions.size(), maxRegions);
  if (Status status = registrations.add(registration); !status.isOk())
    return status;
  std::scoped_lock lock(mutex);
  if (Status status = expose(registration); !status.isOk()) {
    registrations.remove(registration.agreement);
    return status;
  }
  for (const auto &[number, peer] : peers)
    if (peer.stage != Stage::Strange)
      tellRegistered(number, exposed.at(registration.agreement));
  return {};
}

void FabricTransport::release(uint64_t agreement) {
  registrations.remove(agreement);
  std::scoped_lock lock(mutex);
  auto found = exposed.find(agreement);
  if (found == exposed.end())
    return;
  // A peer may be in the middle of a write to memory of a call that failed, and this device in the middle of a read.
  if (hasStopped())
    closeDevice();
  exposed.erase(agreement);
  Letter letter;
  letter.kind = LetterKind::Released;
  letter.agreement = agreement;
  for (const auto &[number, peer] : peers)
    if (peer.stage != Stage::Strange)
      (void)mails.mail(number, write(letter));
}

/// Whether a call has failed. A write to a peer that has left fails, too, and is no failure of a call. Requires
/// `mutex`.
bool FabricTransport::hasStopped() const {
  return (options.mustStop && options.mustStop()) ||
         std::ranges::any_of(peers, [&](const auto &one) { return !failureOf(one.first, one.second).isOk(); });
}

/// From now on nothing is written or read here. What has begun may end within drainTime; the rest is dropped. Requires
/// `mutex`.
void FabricTransport::closeDevice() {
  Event event;
  for (Clock::time_point until = Clock::now() + drainTime; nic && nic->isWriting() && Clock::now() < until;)
    if (nic->poll(event))
      note(event);
  if (nic && !nic->bindsMemory())
    nic->closeEndpoint();
  for (auto &[number, own] : exposed) {
    own.regions.clear();
    own.cells.reset();
  }
  for (auto &[number, peer] : peers)
    if (peer.meeting)
      peer.meeting->memory.reset();
  nic.reset();
  isClosed.store(true, std::memory_order_release);
}

Status FabricTransport::closedStatus() const {
  return error(StatusCode::Aborted, "rank {} closed provider {} after a failure", options.rank, rules.name);
}

Status FabricTransport::checkPath(Path path) const {
  if (path.peer < 0 || path.peer >= options.numRanks || path.peer == options.rank)
    return error(StatusCode::InvalidArgument, "rank {} is not a peer of rank {} of {}", path.peer, options.rank,
                 options.numRanks);
  if (!isConnected.load(std::memory_order_acquire) || !mayMeet[static_cast<size_t>(path.peer)])
    return error(StatusCode::InvalidArgument, "rank {} is not connected to rank {}", options.rank, path.peer);
  if (path.lane >= testLane)
    return error(StatusCode::InvalidArgument, "lane {} is not below {}", path.lane, testLane);
  Status status = stateOf(path.peer);
  return status.isOk() && isClosed.load(std::memory_order_acquire) ? closedStatus() : status;
}

Status FabricTransport::enqueue(Path path, const Request &request) {
  std::scoped_lock lock(mutex);
  acquaintance(path.peer).paths[path.lane].requests.push_back(request);
  busy.insert({path.peer, path.lane});
  advance(path.peer, path.lane);
  return {};
}

Status FabricTransport::put(Path path, RemotePlace place, const void *src, uint64_t sizeBytes) {
  Status status = checkPath(path);
  if (!status.isOk() || sizeBytes == 0)
    return status;
  if (sizeBytes > kolo::runtime::maxPutBytes)
    return error(StatusCode::InvalidArgument, "a put of {} bytes, more than {}", sizeBytes, kolo::runtime::maxPutBytes);
  Request request;
  request.place = place;
  request.src = static_cast<const std::byte *>(src);
  request.sizeBytes = sizeBytes;
  return enqueue(path, request);
}

Status FabricTransport::signal(Path path, RemoteSignal signal) {
  if (Status status = checkPath(path); !status.isOk())
    return status;
  if (signal.count == 0 || signal.count >= endOfCounts)
    return error(StatusCode::InvalidArgument, "a signal with count {}", signal.count);
  Request request;
  request.isSignal = true;
  request.signal = signal;
  return enqueue(path, request);
}

/// Whether all of the lane is complete at the peer. `numMoved` changes when something moves, also of their meeting.
/// `wasDropped` becomes true if some of it never will be complete.
bool FabricTransport::isDone(Path path, uint64_t &numMoved, bool &wasDropped) {
  std::scoped_lock lock(mutex);
  Peer &peer = peers.at(path.peer);
  SendPath &lane = peer.paths.at(path.lane);
  auto test = peer.paths.find(testLane);
  numMoved = lane.numMoved + static_cast<uint64_t>(peer.stage) + (test == peer.paths.end() ? 0 : test->second.numMoved);
  wasDropped |= std::exchange(lane.wasDropped, false) || !peer.refusal.isOk() || !peer.failure.isOk();
  return lane.isDone() && !wasDropped;
}

/// The peers to which the lane has written.
std::vector<int> FabricTransport::peersOf(uint32_t lane) const {
  std::scoped_lock lock(mutex);
  std::vector<int> found;
  for (const auto &[number, peer] : peers)
    if (peer.paths.contains(lane))
      found.push_back(number);
  return found;
}

/// Blocks until all that the lane wrote to the peer is complete. A peer that leaves waits for what is under way, so
/// that only what was dropped fails then.
Status FabricTransport::flushPath(Path path) {
  const Counter none = {};
  uint64_t numMoved = 0, lastMoved = 0;
  bool wasDropped = false;
  Clock::time_point lastTime = Clock::now();
  for (int look = 0; !isDone(path, numMoved, wasDropped); ++look) {
    if (Status status = wasDropped ? stateOf(path.peer) : mails.stateOf(path.peer); !status.isOk())
      return status;
    if (isClosed.load(std::memory_order_acquire))
      return closedStatus();
    if (options.mustStop && options.mustStop())
      return rankError(StatusCode::Aborted, path.peer, "rank {} stopped while rank {} took no data", options.rank,
                       path.peer);
    (void)progress(); // another peer's failure does not end this
    if (numMoved != lastMoved) {
      lastMoved = numMoved;
      lastTime = Clock::now();
      look = 0;
    }
    if (Clock::now() - lastTime >= std::chrono::milliseconds(options.timeoutMs)) {
      Status trouble = troubleWith(path.peer);
      return rankError(StatusCode::Timeout, path.peer, "rank {} waited {} ms for rank {} to take data: timed out{}{}",
                       options.rank, options.timeoutMs, path.peer, trouble.isOk() ? "" : "; ", trouble.message());
    }
    if (look >= looksBeforeSleep)
      (void)mails.idle(none, 1, Clock::now() + longestSleep);
  }
  return {};
}

Status FabricTransport::flush(uint32_t lane) {
  Status first;
  for (int peer : peersOf(lane))
    if (Status status = flushPath({peer, lane}); !status.isOk() && first.isOk())
      first = status;
  return first;
}

Status FabricTransport::progress() {
  Status ofMails = mails.progress();
  {
    std::scoped_lock lock(mutex);
    work();
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
    (void)mails.idle(counter, target, std::min(until, Clock::now() + sleep));
    if (!status.isOk())
      return status;
    sleep = std::min(2 * sleep, longestSleep);
  }
}

/// Why the peer cannot be written to, although it is neither lost nor has left. Requires `mutex`.
Status FabricTransport::failureOf(int number, const Peer &peer) const {
  if (!peer.refusal.isOk())
    return peer.refusal;
  bool isOld = !peer.failure.isOk() && Clock::now() - peer.failedAt >= graceTime;
  return isOld && mails.stateOf(number).isOk() ? peer.failure : Status();
}

Status FabricTransport::firstFailure() const {
  if (!hasFailed.load(std::memory_order_acquire))
    return {};
  std::scoped_lock lock(mutex);
  for (const auto &[number, peer] : peers)
    if (Status status = failureOf(number, peer); !status.isOk())
      return status;
  return {};
}

Status FabricTransport::stateOf(int number) const {
  Status status = mails.stateOf(number);
  if (!hasFailed.load(std::memory_order_acquire) && !isSomeoneLeaving.load(std::memory_order_acquire))
    return status;
  std::scoped_lock lock(mutex);
  auto found = peers.find(number);
  if (found == peers.end())
    return status;
  const Peer &peer = found->second;
  if (!peer.refusal.isOk() || !status.isOk())
    return peer.refusal.isOk() ? status : peer.refusal;
  return peer.isLeaving ? rankError(StatusCode::PeerLost, number, "rank {} has left", number) : failureOf(number, peer);
}

/// What a peer cannot place, this rank judges by its own registrations.
Status FabricTransport::answer(int sender, const Question &question) {
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

/// Mismatch: the peer's device and this one's do not fit each other.
Status FabricTransport::compare(int sender, const Letter &address) const {
  if (address.provider != rules.name || address.order != rules.order)
    return rankError(StatusCode::Mismatch, sender, "rank {} uses provider {} ({}), this rank {} ({})", sender,
                     address.provider, toString(address.order), rules.name, toString(rules.order));
  if (address.device != device)
    return rankError(StatusCode::Mismatch, sender,
                     "rank {} uses another kind of device of provider {} ({}) than this rank ({})", sender, rules.name,
                     describe(address.device), describe(device));
  return {};
}

Status FabricTransport::take(int sender, std::span<const std::byte> mail) {
  Result<Letter> letter = parseLetter(mail);
  if (!letter.isOk())
    return rankError(StatusCode::Mismatch, sender, "rank {} sent {}", sender, letter.status().message());
  if (letter->kind == LetterKind::Question)
    return answer(sender, letter->question);
  std::scoped_lock lock(mutex);
  bool isFirst = letter->kind == LetterKind::Address || letter->kind == LetterKind::Failed;
  if (!isFirst && !peers.contains(sender))
    return rankError(StatusCode::Mismatch, sender, "rank {} sent a letter before its address", sender);
  return takeFrom(sender, acquaintance(sender), *letter);
}

Status FabricTransport::takeFrom(int sender, Peer &peer, const Letter &letter) {
  switch (letter.kind) {
  case LetterKind::Address:
    return noteAddress(sender, peer, letter);
  case LetterKind::Ready:
    if (peer.meeting)
      peer.meeting->isPeerReady = true;
    break;
  case LetterKind::Registered:
    peer.newest = std::max(peer.newest, letter.agreement);
    peer.agreements[letter.agreement] = letter.registered;
    break;
  case LetterKind::Released:
    peer.newest = std::max(peer.newest, letter.agreement);
    peer.agreements.erase(letter.agreement);
    for (auto &[lane, path] : peer.paths)
      std::erase_if(path.counts, [&](const auto &one) { return one.first.first == letter.agreement; });
    break;
  case LetterKind::Leaving:
    return noteLeaving(sender, peer, letter);
  case LetterKind::Farewell:
    peer.saidFarewell = true;
    break;
  case LetterKind::Passed:
    if (peer.meeting)
      peer.meeting->hasPeerPassed = true;
    break;
  case LetterKind::Failed:
    refuse(peer, rankError(StatusCode::SystemError, sender, "{}", letter.reason));
    break;
  case LetterKind::Question:
    break; // see take
  }
  return {};
}

} // namespace kolo::runtime::fabric
