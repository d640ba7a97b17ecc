#include "device/DeviceMeeting.h"

#include "base/Error.h"
#include "call/BlockTables.h"
#include "call/CallIdentity.h"
#include "call/CommunicatorState.h"

#include <algorithm>
#include <new>

namespace kolo::runtime {
namespace {

const char *toString(DevicePurpose purpose) {
  switch (purpose) {
  case DevicePurpose::Join:
    return "joins";
  case DevicePurpose::Grow:
    return "needs internal memory for a call";
  case DevicePurpose::Drain:
    return "frees internal memory for a call";
  case DevicePurpose::Register:
    return "registers a window";
  case DevicePurpose::Deregister:
    return "deregisters a window";
  case DevicePurpose::Leave:
    break;
  }
  return "leaves";
}

/// The finalizer of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
uint64_t mixed(uint64_t digest, uint64_t value) {
  uint64_t bits = (digest ^ value) + 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

uint64_t digestOf(const DeviceCallKey &key, uint64_t digest) {
  const CallKey &call = key.call;
  digest = mixed(digest, call.plugin);
  for (int64_t size : call.mesh)
    digest = mixed(digest, static_cast<uint64_t>(size));
  digest = mixed(digest, static_cast<uint64_t>(call.count));
  digest = mixed(digest, call.hasTables);
  for (int32_t value : {call.program, call.type, call.reduction, call.root})
    digest = mixed(digest, static_cast<uint32_t>(value));
  return mixed(mixed(mixed(digest, key.input), key.output), static_cast<uint64_t>(key.lanes));
}

Status rankRefused(int rank, StatusCode code, const char *message) {
  return rankError(code, rank, "rank {}: {}", rank, message);
}

std::string describePlace(DevicePlace place) {
  return place == 0 ? "memory in no window" : fmt::format("offset {} of window {}", offsetOf(place), windowOf(place));
}

/// Between two calls that differ.
Status nameDifference(int first, const DeviceCallKey &left, int second, const DeviceCallKey &right) {
  if (Status status = compareCalls(left.call, right.call, {first, second}); !status.isOk())
    return status;
  const struct {
    const char *name;
    DevicePlace left, right;
  } places[] = {{"input", left.input, right.input}, {"output", left.output, right.output}};
  for (const auto &place : places)
    if (place.left != place.right)
      return rankError(StatusCode::Mismatch, second,
                       "ranks disagree on where the {} is: rank {} called with {}, rank {} with {}", place.name, first,
                       describePlace(place.left), second, describePlace(place.right));
  if (left.lanes != right.lanes)
    return rankError(StatusCode::Mismatch, second,
                     "ranks disagree on lanes: rank {} has {} in this call, rank {} has {}", first, left.lanes, second,
                     right.lanes);
  return rankError(StatusCode::Mismatch, second, "ranks {} and {} disagree on an earlier call", first, second);
}

} // namespace

Result<DeviceMeeting> DeviceMeeting::create(Communicator host) {
  for (int peer = 0; peer < host.size(); ++peer)
    if (Peers &peers = host.state->peers(); peers.isRemote(peer))
      return rankError(StatusCode::SystemError, peer, "{} is on another host than rank {}: devices need one host",
                       peers.hosts().describe(peer), host.rank());
  const auto numCounts = numAnnouncements * static_cast<size_t>(host.size());
  Result<Window> board = host.allocate(sizeof(Board) + numCounts * sizeof(CountPair));
  if (!board.isOk())
    return board.status();
  Result<std::vector<RemoteWindow>> boards = host.exchange(*board);
  if (!boards.isOk())
    return boards.status();
  return DeviceMeeting(std::move(host), std::move(board).value(), std::move(boards).value());
}

Peers &DeviceMeeting::peers() const { return host.state->peers(); }

DeviceRecord &DeviceMeeting::next() { return *new (&boardOf(rank()).records[(sequence + 1) % 2]) DeviceRecord{}; }

Status DeviceMeeting::perform() {
  ++sequence;
  if (Status status = host.barrier(); !status.isOk())
    return status;
  for (int peer = 1; peer < size(); ++peer)
    if (heard(peer).purpose != heard(0).purpose)
      return rankError(StatusCode::Mismatch, peer, "ranks disagree on what they do: rank 0 {}, rank {} {}",
                       toString(heard(0).purpose), peer, toString(heard(peer).purpose));
  return {};
}

void DeviceMeeting::leave(bool isWell) {
  next().purpose = DevicePurpose::Leave;
  if (!isWell || !perform().isOk())
    peers().waitUntilQuiet();
  // Another thread may still read the board.
  if (peers().kind() == RankKind::Threads)
    peers().keepForPeers(std::make_shared<Window>(std::move(own)));
}

Status DeviceMeeting::firstRefusal() const {
  for (int peer = 0; peer < size(); ++peer) {
    const DeviceRecord &record = heard(peer);
    if (record.code == StatusCode::Ok)
      continue;
    if (peer == rank())
      return Status(record.code, record.message, peer);
    return rankRefused(peer, record.code, record.message);
  }
  return {};
}

Status DeviceMeeting::announce(const DeviceCallKey &key, const Status &refusal, const Call *tabled) {
  const uint64_t call = ++numCalls;
  // A refused call is not one that peers must agree on.
  digest = refusal.isOk() ? digestOf(key, digest) : digest;
  DeviceAnnouncement &mine = boardOf(rank()).announcements[call % numAnnouncements];
  mine.number.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release); // a reader that sees what follows sees 0, too
  mine.digest.store(digest, std::memory_order_relaxed);
  mine.code.store(refusal.code(), std::memory_order_relaxed);
  mine.key = key;
  mine.blocks = tabled ? tabled->digests : CountDigests();
  for (int64_t distance = 0; tabled && distance < numDistances(*tabled); ++distance)
    countsOf(rank(), call)[static_cast<size_t>(distance)] = countsAtDistance(*tabled, rank(), distance);
  if (!refusal.isOk())
    setRefusal(mine, refusal);
  mine.number.store(call, std::memory_order_seq_cst);
  const int after = (rank() + 1) % size(), before = (rank() + size() - 1) % size();
  Status status = compare(after, mine);
  if (status.isOk() && before != after)
    status = compare(before, mine);
  return status.isOk() && tabled ? compareBlocks(*tabled) : status;
}

std::span<DeviceMeeting::CountPair> DeviceMeeting::countsOf(int peer, uint64_t call) const {
  const auto number = static_cast<size_t>(size());
  auto *counts = reinterpret_cast<CountPair *>(&boardOf(peer) + 1);
  return {counts + call % numAnnouncements * number, number};
}

/// Null: it has not announced this rank's last call yet, or has announced so many later ones that it is gone.
const DeviceAnnouncement *DeviceMeeting::announcedBy(int peer) const {
  const DeviceAnnouncement &theirs = boardOf(peer).announcements[numCalls % numAnnouncements];
  return theirs.number.load(std::memory_order_seq_cst) == numCalls ? &theirs : nullptr;
}

/// Mismatch, where all ranks have announced this call, if one block has two counts.
Status DeviceMeeting::compareBlocks(const Call &call) const {
  CountDigests sum;
  for (int peer = 0; peer < size(); ++peer) {
    const DeviceAnnouncement *theirs = announcedBy(peer);
    if (!theirs || theirs->code.load(std::memory_order_relaxed) != StatusCode::Ok)
      return {};
    sum.given += theirs->blocks.given;
    sum.taken += theirs->blocks.taken;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (theirs->number.load(std::memory_order_relaxed) != numCalls)
      return {};
  }
  return sum.given == sum.taken ? Status() : nameBlock(call);
}

Status DeviceMeeting::nameBlock(const Call &call) const {
  std::vector<std::vector<CountPair>> known; // by rank
  for (int peer = 0; peer < size(); ++peer) {
    std::span<const CountPair> theirs = countsOf(peer, numCalls);
    known.emplace_back(theirs.begin(), theirs.end());
    std::atomic_thread_fence(std::memory_order_acquire);
  }
  for (int64_t distance = 0; distance < numDistances(call); ++distance) {
    std::vector<CountPair> ofDistance;
    for (int peer = 0; peer < size() && announcedBy(peer); ++peer)
      ofDistance.push_back(known[static_cast<size_t>(peer)][static_cast<size_t>(distance)]);
    if (ofDistance.size() == known.size())
      if (Status status = compareCounts(call, ofDistance, distance); !status.isOk())
        return status;
  }
  return error(StatusCode::Mismatch, "ranks disagree on counts of blocks");
}

Status DeviceMeeting::compare(int peer, const DeviceAnnouncement &mine) const {
  const DeviceAnnouncement *found = announcedBy(peer);
  if (!found)
    return {};
  const DeviceAnnouncement &theirs = *found;
  const StatusCode code = theirs.code.load(std::memory_order_relaxed);
  if (theirs.digest.load(std::memory_order_relaxed) == digest && code == mine.code.load(std::memory_order_relaxed))
    return {};
  const DeviceCallKey key = theirs.key;
  char message[sizeof(theirs.message)];
  std::copy(std::begin(theirs.message), std::end(theirs.message), message);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (theirs.number.load(std::memory_order_relaxed) != numCalls)
    return {}; // its owner is far ahead and has begun to write a later call
  const StatusCode ownCode = mine.code.load(std::memory_order_relaxed);
  bool isRefusedHere = ownCode != StatusCode::Ok, isRefusedThere = code != StatusCode::Ok;
  if (isRefusedHere && isRefusedThere)
    return {};
  if (isRefusedThere)
    return rankRefused(peer, code, message);
  if (isRefusedHere)
    return rankRefused(rank(), ownCode, mine.message);
  return peer < rank() ? nameDifference(peer, key, rank(), mine.key) : nameDifference(rank(), mine.key, peer, key);
}

} // namespace kolo::runtime
