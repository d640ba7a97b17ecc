#include "device/DeviceMeeting.h"

#include "base/Error.h"
#include "call/BlockTables.h"
#include "call/CallIdentity.h"
#include "call/CommunicatorState.h"
#include "call/Remote.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_set>

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

/// The plan that all ranks announce when they exchange devices.
constexpr uint64_t planOfDevices = planOfMeetings + 1;
constexpr uint32_t deviceSlotBytes = Control::slotBytesFor(sizeof(DeviceId));

Status somethingElse() {
  return error(StatusCode::Mismatch, "some ranks use their devices, and others call something else");
}

/// Of an announcement that nobody writes meanwhile.
AnnouncedCall copyOf(const DeviceAnnouncement &mine) {
  const StatusCode code = mine.code.load(std::memory_order_relaxed);
  return {mine.number.load(std::memory_order_relaxed), mine.digest.load(std::memory_order_relaxed), code, mine.key,
          code == StatusCode::Ok ? "" : mine.message};
}

/// Whether two hosts may be one machine; the same on all ranks. `said`: by all ranks when they joined.
bool mayShareMachines(const Hosts &hosts, const DeviceSummary &said) {
  std::unordered_set<std::string_view> names;
  for (int host = 0; host < hosts.number(); ++host)
    if (!names.insert(hosts.nameOf(hosts.speakerOf(host))).second)
      return true;
  return said.someMayShare();
}

} // namespace

Result<HostWindow> DeviceMeeting::exchangeBy(Communicator &host, Window window) {
  Result<std::vector<RemoteWindow>> here = host.state->exchangeWindows(*window.state, ExchangedWindows::OfThisHost);
  if (!here.isOk())
    return here.status();
  const uint64_t agreement = here->front().state->remoteNumber;
  return HostWindow{std::move(window), std::move(here).value(), agreement};
}

Result<DeviceMeeting> DeviceMeeting::create(Communicator host) {
  // No peer has anything to note before all have come to the exchange.
  std::shared_ptr<HostCalls> calls = HostCalls::start(host.state->peers());
  const bool hasCounts = !host.state->peers().hosts().areSeveral(); // ranks of other hosts do not see them
  const auto numCounts = hasCounts ? numAnnouncements * static_cast<size_t>(host.size()) : 0;
  Result<Window> board = host.allocate(sizeof(Board) + numCounts * sizeof(CountPair));
  if (!board.isOk())
    return board.status();
  Result<HostWindow> boards = exchangeBy(host, std::move(board).value());
  if (!boards.isOk())
    return boards.status();
  return DeviceMeeting(std::move(host), std::move(boards).value(), std::move(calls));
}

Peers &DeviceMeeting::peers() const { return host.state->peers(); }

Result<HostWindow> DeviceMeeting::exchange(Window window) {
  return guarded([&] { return exchangeBy(host, std::move(window)); });
}

void DeviceMeeting::keepForPeers(Window window) {
  if (peers().kind() == RankKind::Threads)
    peers().keepForPeers(std::make_shared<Window>(std::move(window)));
}

Result<uint64_t> DeviceMeeting::registerMemory(Registration registration) {
  registration.agreement = cellsNumber(++host.state->agreements);
  Status status = peers().transport().registerMemory(registration);
  return status.isOk() ? Result<uint64_t>(registration.agreement) : Result<uint64_t>(status);
}

const std::byte *DeviceMeeting::publishedBy(int peer, size_t slotBytes) const {
  const Exchange &exchange = host.state->exchange;
  return exchange.published(peer, exchange.number() % RankBlock::numTurns, slotBytes);
}

const DeviceRecord &DeviceMeeting::heard(int peer) const {
  return *reinterpret_cast<const DeviceRecord *>(publishedBy(peer, 0));
}

/// The record is what this rank publishes in an exchange, as if it were an input.
Status DeviceMeeting::perform() {
  if (!peers().mayCall())
    return peers().whyNoCall();
  Exchange &exchange = host.state->exchange;
  if (Status status = exchange.catchUp(); !status.isOk())
    return status;
  own->numCalls = numCalls;
  own->digest = digest;
  std::memcpy(exchange.published(rank(), exchange.nextTurn(), 0), own.get(), sizeof(DeviceRecord));
  summary = DeviceSummary(size());
  bool isAgreed = false;
  if (Status status = exchange.combine(summary, isAgreed); !status.isOk())
    return status;
  return isAgreed ? compareRecords() : peers().abort(somethingElse());
}

/// Ranks of different hosts learn here that they have made different calls.
Status DeviceMeeting::compareRecords() const {
  const DeviceTerms &first = summary.first();
  if (summary.has(DeviceKept::OtherPurpose)) {
    const int other = summary.rankOf(DeviceKept::OtherPurpose);
    return rankError(StatusCode::Mismatch, other, "ranks disagree on what they do: rank 0 {}, rank {} {}",
                     toString(first.purpose), other, toString(summary.termsOf(DeviceKept::OtherPurpose).purpose));
  }
  if (!hosts().areSeveral() || first.purpose == DevicePurpose::Leave || !summary.has(DeviceKept::OtherCalls))
    return {};
  const int other = summary.rankOf(DeviceKept::OtherCalls);
  return peers().abort(rankError(StatusCode::Mismatch, other,
                                 "ranks 0 and {} disagree on an earlier call: they made {} and {} calls so far", other,
                                 first.numCalls, summary.termsOf(DeviceKept::OtherCalls).numCalls));
}

Result<int> DeviceMeeting::ranksElsewhereOn(const DeviceId &own) {
  if (!hosts().areSeveral() || !mayShareMachines(hosts(), summary))
    return 0;
  Exchange &exchange = host.state->exchange;
  std::memcpy(exchange.published(rank(), exchange.nextTurn(), deviceSlotBytes), own.data(), own.size());
  bool isAgreed = false;
  if (Status status = exchange.propose(planOfDevices, {sizeof(DeviceId), deviceSlotBytes}, isAgreed); !status.isOk())
    return status;
  if (!isAgreed)
    return peers().abort(somethingElse());
  int found = 0;
  for (int peer : hosts().others())
    found += std::memcmp(publishedBy(peer, deviceSlotBytes), own.data(), own.size()) == 0;
  return found;
}

void DeviceMeeting::leave(bool isWell) {
  next().purpose = DevicePurpose::Leave;
  if (!isWell || !perform().isOk())
    peers().waitUntilQuiet();
  if (calls) // what still comes finds no object that it is about
    peers().links()->setNoteTaker([](int, std::span<const std::byte>) { return Status(); });
  keepForPeers(std::move(boards.own)); // another thread may still read the board
}

Status DeviceMeeting::firstRefusal() const {
  const auto &[refusing, code, message] = summary.refusal();
  if (refusing < 0)
    return {};
  return refusing == rank() ? Status(code, message, refusing)
                            : rankError(code, refusing, "rank {}: {}", refusing, message);
}

Status DeviceMeeting::announce(const DeviceCallKey &key, const Status &refusal, const Call *tabled, bool isNew) {
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
  const bool areCompared = tabled && !hosts().areSeveral();
  for (int64_t distance = 0; areCompared && distance < numDistances(*tabled); ++distance)
    countsOf(rank(), call)[static_cast<size_t>(distance)] = countsAtDistance(*tabled, rank(), distance);
  if (!refusal.isOk())
    setRefusal(mine, refusal);
  mine.number.store(call, std::memory_order_seq_cst);
  const std::vector<int> &here = hosts().ranksHere();
  const size_t place = static_cast<size_t>(hosts().placeOf(rank())), number = here.size();
  const int after = here[(place + 1) % number], before = here[(place + number - 1) % number];
  if (calls)
    if (Status status = calls->announce(copyOf(mine), isNew); !status.isOk())
      return status;
  Status status = compare(after, mine);
  if (status.isOk() && before != after)
    status = compare(before, mine);
  return status.isOk() && areCompared ? compareBlocks(*tabled) : status;
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
  AnnouncedCall copy = {numCalls, theirs.digest.load(std::memory_order_relaxed), code, theirs.key, {}};
  char message[sizeof(theirs.message)];
  std::copy(std::begin(theirs.message), std::end(theirs.message), message);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (theirs.number.load(std::memory_order_relaxed) != numCalls)
    return {}; // its owner is far ahead and has begun to write a later call
  copy.message = message;
  return compareDeviceCalls({rank(), peer}, copyOf(mine), copy);
}

} // namespace kolo::runtime
