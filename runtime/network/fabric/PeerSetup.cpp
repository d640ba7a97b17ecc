#include "network/fabric/PeerSetup.h"

#include "base/Error.h"

#include <utility>

namespace kolo::runtime::fabric {

FabricPeer &PeerSetup::acquaintance(int number) {
  auto [found, isNew] = state.peers.try_emplace(number);
  if (isNew) {
    found->second.meeting = std::make_unique<MeetingState>(state.options.rank, number);
    meetings.insert(number);
  }
  return found->second;
}

void PeerSetup::progress() {
  std::erase_if(meetings, [this](int number) { return !meet(number); });
}

/// Takes all steps that can be taken now. False: there will be no more.
bool PeerSetup::meet(int number) {
  FabricPeer &peer = state.peers.at(number);
  if (state.hasLeft && peer.stage == Stage::Strange)
    departure.tell(number, peer);
  if (peer.stage == Stage::Tests && peer.refusal.isOk()) // also if the peer has left since it passed
    look(number, peer);
  if (peer.stage == Stage::Met && peer.paths.at(testLane).isDone()) {
    peer.paths.erase(testLane);
    peer.meeting.reset();
    return false;
  }
  if (state.hasLeft || peer.isLeaving || !state.nic || !peer.isWorking() || !state.isThere(number))
    return false;
  if (peer.stage == Stage::Strange)
    introduce(number, peer);
  if (peer.stage == Stage::Introduced && !peer.meeting->address.empty())
    takeAddress(number, peer);
  if (peer.stage == Stage::Addressed && (peer.meeting->isPeerReady || !state.rules.targetKnowsInitiator))
    beginTest(number, peer);
  return true;
}

/// Mismatch: the peer's device and this one's do not fit each other.
Status PeerSetup::compare(int peer, const ControlMessage &address) const {
  const ProviderRules &rules = state.rules;
  if (address.provider != rules.name || address.order != rules.order)
    return rankError(StatusCode::Mismatch, peer, "rank {} uses provider {} ({}), this rank {} ({})", peer,
                     address.provider, toString(address.order), rules.name, toString(rules.order));
  if (address.device != device)
    return rankError(StatusCode::Mismatch, peer,
                     "rank {} uses another kind of device of provider {} ({}) than this rank ({})", peer, rules.name,
                     describe(address.device), describe(device));
  return {};
}

Status PeerSetup::noteAddress(int peer, FabricPeer &from, const ControlMessage &message) {
  if (!from.meeting || !from.meeting->address.empty())
    return rankError(StatusCode::Mismatch, peer, "rank {} tells its address twice", peer);
  MeetingState &meeting = *from.meeting;
  meeting.difference = compare(peer, message); // for later: the peer must hear from this rank, too
  meeting.address = message.address;
  meeting.there.regions = {
      {message.testKey, message.testAddress + offsetof(SelfTest::Landing, bytes), SelfTest::allBytes}};
  meeting.there.cells = {message.testKey, message.testAddress + offsetof(SelfTest::Landing, cell), sizeof(Cell)};
  meeting.there.numLanes = testLane + 1;
  meeting.there.numSemaphores = 1;
  return {};
}

/// Tells this rank's address, and what it has registered.
void PeerSetup::introduce(int number, FabricPeer &peer) {
  auto *memory = reinterpret_cast<std::byte *>(&peer.meeting->test.memory());
  Result<std::unique_ptr<Memory>> opened = state.nic->expose({memory, sizeof(SelfTest::Landing)});
  if (!opened.isOk())
    return giveUp(number, peer, opened.status());
  peer.meeting->memory = std::move(opened).value();
  ControlMessage own;
  own.kind = ControlKind::Address;
  own.provider = state.rules.name;
  own.order = state.rules.order;
  own.device = device;
  own.address.assign(state.nic->address().begin(), state.nic->address().end());
  own.testKey = peer.meeting->memory->key();
  own.testAddress = peer.meeting->memory->remoteBase();
  state.tell(number, own);
  for (const ControlMessage &message : state.exposed.messagesTo(number))
    state.tell(number, message);
  peer.stage = Stage::Introduced;
}

void PeerSetup::takeAddress(int number, FabricPeer &peer) {
  if (!peer.meeting->difference.isOk())
    return state.refuse(peer, peer.meeting->difference);
  if (Status status = state.nic->addPeer(number, peer.meeting->address); !status.isOk())
    return giveUp(number, peer, status);
  if (state.rules.targetKnowsInitiator) {
    ControlMessage ready;
    ready.kind = ControlKind::Ready;
    state.tell(number, ready);
  }
  peer.stage = Stage::Addressed;
}

void PeerSetup::beginTest(int number, FabricPeer &peer) {
  auto put = [&](uint64_t offsetBytes, std::span<const std::byte> data) {
    WriteRequest request;
    request.place.offsetBytes = offsetBytes;
    request.src = data.data();
    request.sizeBytes = data.size();
    sender.pushLater({number, testLane}, request);
  };
  auto signal = [&](uint64_t count) {
    WriteRequest request;
    request.isSignal = true;
    request.signal.count = count;
    sender.pushLater({number, testLane}, request);
  };
  peer.meeting->test.write(put, signal);
  peer.stage = Stage::Tests;
}

/// Looks at what the peer has put here. They have met when both have found all of it right.
void PeerSetup::look(int number, FabricPeer &peer) {
  MeetingState &meeting = *peer.meeting;
  if (Status status = meeting.test.look(); !status.isOk()) {
    Status why = state.ofSelfTest(status);
    state.tellFailed(number, why);
    return state.refuse(peer, why);
  }
  if (meeting.test.hasHeardAll() && !std::exchange(meeting.hasPassed, true)) {
    ControlMessage passed;
    passed.kind = ControlKind::Passed;
    state.tell(number, passed);
  }
  if (meeting.hasPassed && meeting.hasPeerPassed)
    peer.stage = Stage::Met;
}

/// This rank cannot even begin the test.
void PeerSetup::giveUp(int number, FabricPeer &peer, const Status &status) {
  Status why =
      rankError(status.code(), number, "rank {} cannot meet rank {}: {}", state.options.rank, number, status.message());
  state.tellFailed(number, why);
  state.refuse(peer, why);
}

Status PeerSetup::troubleWith(int peer) const {
  auto found = state.peers.find(peer);
  if (found == state.peers.end())
    return {};
  switch (found->second.stage) {
  case Stage::Strange:
  case Stage::Introduced:
    return rankError(StatusCode::Timeout, peer, "the address of rank {} has not come", peer);
  case Stage::Addressed:
    return rankError(StatusCode::Timeout, peer, "rank {} has not taken the address of rank {}", peer,
                     state.options.rank);
  case Stage::Tests:
    return rankError(StatusCode::Timeout, peer,
                     "the self-test of provider {} with rank {} is not over; KOLO_NETWORK=tcp needs none",
                     state.rules.name, peer);
  case Stage::Met:
    break;
  }
  return {};
}

} // namespace kolo::runtime::fabric
