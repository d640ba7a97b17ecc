// How two ranks meet when one of them first writes to the other: addresses by mail, and then a self-test of all that
// they will use. Each step waits for one of the peer, and is taken in `progress`.
#include "base/Error.h"
#include "network/fabric/FabricTransport.h"

#include <utility>

namespace kolo::runtime::fabric {

Status FabricTransport::connect(std::span<const Endpoint> endpoints) {
  if (endpoints.size() != static_cast<size_t>(options.numRanks) || isConnected.load())
    return error(StatusCode::InvalidArgument, "{} endpoints for {} ranks, or connected already", endpoints.size(),
                 options.numRanks);
  for (const Endpoint &endpoint : endpoints)
    mayMeet.push_back(endpoint != Endpoint());
  mayMeet[static_cast<size_t>(options.rank)] = false;
  isConnected.store(true, std::memory_order_release);
  return {};
}

void FabricTransport::ask(int peer) {
  if (!isConnected.load(std::memory_order_acquire) || !mayMeet[static_cast<size_t>(peer)])
    return;
  std::scoped_lock lock(mutex);
  (void)acquaintance(peer);
}

bool FabricTransport::hasMet(int peer) const {
  std::scoped_lock lock(mutex);
  auto found = peers.find(peer);
  return found != peers.end() && found->second.stage == Stage::Met;
}

/// A rank that this one writes to, or that writes here. The two meet from now on. Requires `mutex`, as all below but
/// troubleWith.
FabricTransport::Peer &FabricTransport::acquaintance(int number) {
  auto [found, isNew] = peers.try_emplace(number);
  if (isNew) {
    found->second.meeting = std::make_unique<Meeting>(options.rank, number);
    meetings.insert(number);
  }
  return found->second;
}

/// Takes all steps that can be taken now. False: there will be no more.
bool FabricTransport::meet(int number) {
  Peer &peer = peers.at(number);
  if (hasLeft && peer.stage == Stage::Strange)
    tellLeaving(number, peer);
  if (peer.stage == Stage::Tests && peer.refusal.isOk()) // also if the peer has left since it passed
    look(number, peer);
  if (peer.stage == Stage::Met && peer.paths.at(testLane).isDone()) {
    peer.paths.erase(testLane);
    peer.meeting.reset();
    return false;
  }
  if (hasLeft || peer.isLeaving || !nic || !peer.refusal.isOk() || !peer.failure.isOk() ||
      !mails.stateOf(number).isOk())
    return false;
  if (peer.stage == Stage::Strange)
    introduce(number, peer);
  if (peer.stage == Stage::Introduced && !peer.meeting->address.empty())
    takeAddress(number, peer);
  if (peer.stage == Stage::Addressed && (peer.meeting->isPeerReady || !rules.targetKnowsInitiator))
    beginTest(number, peer);
  return true;
}

Status FabricTransport::noteAddress(int sender, Peer &peer, const Letter &letter) {
  if (!peer.meeting || !peer.meeting->address.empty())
    return rankError(StatusCode::Mismatch, sender, "rank {} tells its address twice", sender);
  Meeting &meeting = *peer.meeting;
  meeting.difference = compare(sender, letter); // for later: the peer must hear from this rank, too
  meeting.address = letter.address;
  meeting.there.regions = {
      {letter.testKey, letter.testAddress + offsetof(SelfTest::Landing, bytes), SelfTest::allBytes}};
  meeting.there.cells = {letter.testKey, letter.testAddress + offsetof(SelfTest::Landing, cell), sizeof(Cell)};
  meeting.there.numLanes = testLane + 1;
  meeting.there.numSemaphores = 1;
  return {};
}

/// Tells this rank's address, and what it has registered.
void FabricTransport::introduce(int number, Peer &peer) {
  auto *memory = reinterpret_cast<std::byte *>(&peer.meeting->test.memory());
  Result<std::unique_ptr<Memory>> opened = nic->expose(memory, sizeof(SelfTest::Landing));
  if (!opened.isOk())
    return giveUp(number, peer, opened.status());
  peer.meeting->memory = std::move(opened).value();
  Letter own;
  own.kind = LetterKind::Address;
  own.provider = rules.name;
  own.order = rules.order;
  own.device = device;
  own.address.assign(nic->address().begin(), nic->address().end());
  own.testKey = peer.meeting->memory->key();
  own.testAddress = peer.meeting->memory->remoteBase();
  (void)mails.mail(number, write(own)); // a peer that is lost is noticed by those who wait for it
  for (const auto &[agreement, one] : exposed)
    tellRegistered(number, one);
  if (newestExposed != 0 && !exposed.contains(newestExposed)) { // the peer must know what is not early
    Letter newest;
    newest.kind = LetterKind::Released;
    newest.agreement = newestExposed;
    (void)mails.mail(number, write(newest));
  }
  peer.stage = Stage::Introduced;
}

void FabricTransport::takeAddress(int number, Peer &peer) {
  if (!peer.meeting->difference.isOk())
    return refuse(peer, peer.meeting->difference);
  if (Status status = nic->addPeer(number, peer.meeting->address); !status.isOk())
    return giveUp(number, peer, status);
  if (rules.targetKnowsInitiator) {
    Letter ready;
    ready.kind = LetterKind::Ready;
    (void)mails.mail(number, write(ready));
  }
  peer.stage = Stage::Addressed;
}

void FabricTransport::beginTest(int number, Peer &peer) {
  SendPath &path = peer.paths[testLane];
  auto put = [&](uint64_t offsetBytes, std::span<const std::byte> data) {
    Request request;
    request.place.offsetBytes = offsetBytes;
    request.src = data.data();
    request.sizeBytes = data.size();
    path.requests.push_back(request);
  };
  auto signal = [&](uint64_t count) {
    Request request;
    request.isSignal = true;
    request.signal.count = count;
    path.requests.push_back(request);
  };
  peer.meeting->test.write(put, signal);
  busy.insert({number, testLane});
  peer.stage = Stage::Tests;
}

/// Looks at what the peer has put here. They have met when both have found all of it right.
void FabricTransport::look(int number, Peer &peer) {
  Meeting &meeting = *peer.meeting;
  if (Status status = meeting.test.look(); !status.isOk()) {
    Status why = ofSelfTest(status);
    tellFailed(number, why);
    return refuse(peer, why);
  }
  if (meeting.test.hasHeardAll() && !std::exchange(meeting.hasPassed, true)) {
    Letter passed;
    passed.kind = LetterKind::Passed;
    (void)mails.mail(number, write(passed));
  }
  if (meeting.hasPassed && meeting.hasPeerPassed)
    peer.stage = Stage::Met;
}

/// This rank cannot even begin the test.
void FabricTransport::giveUp(int number, Peer &peer, const Status &status) {
  Status why =
      rankError(status.code(), number, "rank {} cannot meet rank {}: {}", options.rank, number, status.message());
  tellFailed(number, why);
  refuse(peer, why);
}

/// From now on the two ranks cannot use each other, whatever becomes of the peer.
void FabricTransport::refuse(Peer &peer, const Status &why) {
  if (peer.refusal.isOk())
    peer.refusal = why;
  hasFailed.store(true, std::memory_order_release);
}

Status FabricTransport::ofSelfTest(const Status &status) const {
  return rankError(status.code(), status.rank(), "self-test of provider {}: {}; KOLO_NETWORK=tcp needs none",
                   rules.name, status.message());
}

void FabricTransport::tellFailed(int number, const Status &why) {
  Letter letter;
  letter.kind = LetterKind::Failed;
  letter.reason = why.message();
  (void)mails.mail(number, write(letter));
}

Status FabricTransport::troubleWith(int peer) const {
  std::scoped_lock lock(mutex);
  auto found = peers.find(peer);
  if (found == peers.end())
    return {};
  switch (found->second.stage) {
  case Stage::Strange:
  case Stage::Introduced:
    return rankError(StatusCode::Timeout, peer, "the address of rank {} has not come", peer);
  case Stage::Addressed:
    return rankError(StatusCode::Timeout, peer, "rank {} has not taken the address of rank {}", peer, options.rank);
  case Stage::Tests:
    return rankError(StatusCode::Timeout, peer,
                     "the self-test of provider {} with rank {} is not over; KOLO_NETWORK=tcp needs none", rules.name,
                     peer);
  case Stage::Met:
    break;
  }
  return {};
}

} // namespace kolo::runtime::fabric
