#include "peers/Exchange.h"

#include "base/Error.h"
#include "peers/Announced.h"

#include <algorithm>

namespace kolo::runtime {
namespace {

/// A speaker that has not looked for so long has stopped: it looks every 50 ms at least.
constexpr std::chrono::milliseconds speakerPatience{500};

/// A wait for other hosts may take so much longer than one for a rank of this host.
int extraMs(const Peers &peers) { return std::min(peers.settings().timeoutMs / 4, 500); }

/// Whether all ranks made equally many calls without an exchange. The same on all ranks.
Status compareRepeats(Peers &peers, uint64_t exchange) {
  const RepeatCounts &counts = peers.control().host().repeats[exchange % 2];
  if (counts.least == counts.most)
    return {};
  return peers.abort(rankError(StatusCode::Mismatch, counts.leastRank,
                               "ranks disagree on how often they repeated a call: rank {} did so {} times, rank {} {}",
                               counts.leastRank, counts.least, counts.mostRank, counts.most));
}

} // namespace

Record &Exchange::next() {
  Record &record = peers.block(peers.rank()).records[(sequence + 1) % 2];
  record.operation = Operation::Barrier;
  record.hasNews = false;
  record.can = {};
  record.toldSize.reset();
  record.numReleased = 0;
  record.staging = Staging::None;
  record.selectedBy = MemoryKind::Windows;
  record.code = StatusCode::Ok;
  record.join = {};
  record.tables = {};
  record.call = {};
  for (Location &buffer : record.buffers)
    buffer = {};
  record.semaphores = {};
  return record;
}

/// One exchange: announces the plan's number, and returns when every rank has announced something.
Status Exchange::meet(uint64_t plan, PublishedSize published, CombinedRecords *combined) {
  ++sequence;
  repeatedBefore = numRepeated;
  Announcement &own = announcement(peers.rank());
  own.plan = plan;
  RankBlock &block = peers.block(peers.rank());
  block.published[sequence % 2] = published;
  block.numRepeated[sequence % 2] = numRepeated;
  if (explain)
    block.rememberedOf(sequence).store(plan, std::memory_order_relaxed);
  own.raise(sequence);
  const bool isGathered = hosts.areSeveral();
  Status status = !isGathered ? awaitRanksHere(sequence) : hosts.speaks() ? gather(combined) : awaitSpeaker();
  if (!status.isOk())
    return status;
  agreed = isGathered ? peers.control().host().plan[sequence % 2] : planHere(peers, sequence);
  caughtUp = sequence;
  for (int rank = 0; explain && agreed == differentPlans && rank < peers.size(); ++rank)
    if (announcement(rank).plan & aheadMark)
      if (Status difference = compareAhead(rank, sequence); !difference.isOk())
        return difference;
  return isGathered ? compareRepeats(peers, sequence) : Status();
}

Status Exchange::awaitRanksHere(uint64_t exchange) {
  const std::vector<int> &here = hosts.ranksHere();
  for (int place = 0; place < peers.control().numHere(); ++place)
    if (Announcement &awaited = peers.control().block(place).announcementOf(exchange); !awaited.hasReached(exchange))
      if (Status status = await({awaited, exchange, here[static_cast<size_t>(place)]}); !status.isOk())
        return status;
  return {};
}

/// A rank that does not speak for its host.
Status Exchange::awaitSpeaker() {
  Counter &gathered = peers.control().host().gathered;
  return gathered.hasReached(sequence) ? Status() : await({gathered, sequence, hosts.speaker(), extraMs(peers)});
}

/// The speaker of a host: what its ranks announce goes to other hosts, and what others announce comes from there.
Status Exchange::gather(CombinedRecords *combined) {
  if (Status status = awaitRanksHere(sequence); !status.isOk())
    return status;
  HostRounds &rounds = peers.links()->rounds();
  if (combined)
    addRanksHere(peers, sequence, *combined);
  rounds.begin(sequence, announcedHere(peers, sequence), combined);
  for (int round = 0; round < rounds.number(); ++round) {
    rounds.send(round);
    Counter &arrived = rounds.arrivedOf(round);
    if (!arrived.hasReached(sequence))
      if (Status status = await({arrived, sequence, rounds.sourceOf(round), extraMs(peers)}); !status.isOk())
        return status;
    if (Status status = rounds.add(round); !status.isOk())
      return peers.abort(status);
  }
  HostBlock &host = peers.control().host();
  host.plan[sequence % 2] = rounds.all().plan;
  host.repeats[sequence % 2] = rounds.all().repeats;
  if (rounds.all().plan == 0)
    rounds.all().records.store(host.records[sequence % 2]);
  if (rounds.all().plan == planOfMeetings)
    host.combined[sequence % 2].set(combined->write());
  host.gathered.raise(sequence);
  return finishSending();
}

/// A rank may do nothing after an exchange, or leave, so all that it said must be with the kernel then. The others take
/// it, because they cannot finish this exchange before.
Status Exchange::finishSending() {
  const Counter none = {};
  HostRounds &rounds = peers.links()->rounds();
  Clock::time_point start = Clock::now();
  for (int round = 0; round < rounds.number(); ++round)
    while (!rounds.hasSent(round)) {
      int target = rounds.targetOf(round);
      WaitEnd end = peers.checkWait(target, start);
      if (end == WaitEnd::Aborted)
        return peers.abortCause();
      if (end != WaitEnd::Reached)
        return peers.abort(rankError(end == WaitEnd::PeerLost ? StatusCode::PeerLost : StatusCode::Timeout, target,
                                     "rank {} waited {} ms for {} to take what it announced: {}", peers.rank(),
                                     millisecondsSince(start), hosts.describe(target),
                                     end == WaitEnd::PeerLost ? "it has ended or left" : "timed out"));
      peers.policy().callProgress();
      peers.links()->sleep(none, 1, progressIntervalUs);
    }
  return {};
}

Status Exchange::propose(uint64_t plan, PublishedSize published, bool &isAgreed) {
  current = operationOf(plan);
  Status status = meet(plan, published);
  isAgreed = status.isOk() && agreed == plan;
  return status;
}

Status Exchange::combine(CombinedRecords &combined, bool &isAgreed) {
  current = Operation::Run;
  Status status = meet(planOfMeetings, {}, &combined);
  isAgreed = status.isOk() && agreed == planOfMeetings;
  if (!isAgreed)
    return status;
  if (!hosts.areSeveral())
    addRanksHere(peers, sequence, combined);
  else if (!hosts.speaks()) // a speaker has added all
    status = combined.add(peers.control().host().combined[sequence % 2].get());
  return status.isOk() ? status : peers.abort(status);
}

Status Exchange::perform() {
  const Record &own = peers.block(peers.rank()).records[(sequence + 1) % 2];
  current = own.operation;
  if (Status status = meet(0); !status.isOk())
    return status;
  if (agreed != 0) { // some ranks proposed a plan: in the next exchange they announce records, too
    peers.block(peers.rank()).records[(sequence + 1) % 2] = own;
    if (Status status = meet(0); !status.isOk())
      return status;
  }
  heardOfAll = hosts.areSeveral() ? RecordSummary::in(peers.control().host().records[sequence % 2])
                                  : recordsHere(peers, sequence);
  if (!heardOfAll.has(Kept::OtherOperation))
    return {};
  const int other = heardOfAll.rankOf(Kept::OtherOperation);
  return rankError(StatusCode::Mismatch, other, "ranks disagree on the operation: rank 0 called {}, rank {} called {}",
                   toString(heardOfAll.recordOf(Kept::First).operation), other,
                   toString(heardOfAll.recordOf(Kept::OtherOperation).operation));
}

/// A rank that ended before it came here, so that no rank can finish this exchange; -1: none. Not only the one that
/// this rank waits for.
int Exchange::findLost(const Awaited &awaited) const {
  for (int rank : hosts.ranksHere())
    if (peers.isLost(rank) && (rank == awaited.rank || !announcement(rank).hasReached(sequence)))
      return rank;
  return peers.links()->rounds().lostBefore(sequence);
}

/// The rank that the speaker of this host waits for; -1: nobody, or the speaker has stopped and does not know.
int Exchange::awaitedBySpeaker() const {
  const HostBlock &host = peers.control().host();
  Clock::duration age =
      Clock::now().time_since_epoch() - Clock::duration(host.lookedAt.load(std::memory_order_acquire));
  return age < speakerPatience ? host.awaited.load(std::memory_order_relaxed) - 1 : -1;
}

Status Exchange::await(const Awaited &awaited) {
  WaitPolicy policy = peers.policyFor(awaited.rank);
  if (spinUntil(awaited.counter, awaited.exchange, policy))
    return {};
  Clock::time_point start = Clock::now();
  int suspect = awaited.rank;
  HostBlock *spoken = hosts.speaks() ? &peers.control().host() : nullptr;
  if (spoken)
    spoken->awaited.store(awaited.rank + 1, std::memory_order_relaxed);
  WaitEnd end = waitSlowly(awaited.counter, awaited.exchange, policy, [&] {
    if (spoken)
      spoken->lookedAt.store(Clock::now().time_since_epoch().count(), std::memory_order_release);
    if (int lost = findLost(awaited); lost >= 0) {
      suspect = lost;
      return peers.isAborted() ? WaitEnd::Aborted : WaitEnd::PeerLost;
    }
    return peers.checkWait(awaited.rank, start + std::chrono::milliseconds(awaited.extraMs));
  });
  if (end == WaitEnd::Reached) {
    if (spoken)
      spoken->awaited.store(0, std::memory_order_relaxed);
    return {};
  }
  if (end == WaitEnd::Aborted)
    return peers.abortCause();
  std::string deed = current == Operation::Join ? "join" : fmt::format("call {}", toString(current));
  if (end == WaitEnd::PeerLost)
    return peers.abort(rankError(StatusCode::PeerLost, suspect,
                                 "rank {} waited {} ms for {} to {}: rank {} has ended or left", peers.rank(),
                                 millisecondsSince(start), hosts.describe(suspect), deed, suspect));
  int awaitedThere = spoken ? -1 : awaitedBySpeaker();
  if (awaitedThere >= 0 && !announcement(awaitedThere).hasReached(sequence)) // nobody raises those of other hosts
    suspect = awaitedThere;
  return peers.abort(rankError(StatusCode::Timeout, suspect, "rank {} waited {} ms for {} to {}: timed out",
                               peers.rank(), millisecondsSince(start), hosts.describe(suspect), deed));
}

std::optional<Exchange::Announced> Exchange::findDeparture() const {
  HostRounds &rounds = peers.links()->rounds();
  const uint64_t following = sequence + 1;
  for (int rank : hosts.ranksHere()) {
    RankBlock &block = peers.block(rank);
    const Announcement &next = block.announcementOf(following);
    if (rank != peers.rank() && next.hasReached(following) && block.numRepeated[following % 2] < numRepeated)
      return Announced{rank, next.plan, next.plan == 0 ? &block.records[following % 2] : nullptr};
  }
  for (int round = 0; round < rounds.number(); ++round) {
    if (!rounds.arrivedOf(round).hasReached(following))
      continue;
    const HostsAnnounce heard = rounds.announcedIn(round, following);
    if (heard.repeats.least < numRepeated)
      return Announced{heard.repeats.leastRank, heard.plan,
                       heard.plan == 0 ? &heard.records.recordOf(Kept::Departed) : nullptr};
  }
  return {};
}

Status Exchange::firstRefusal() const {
  if (!heardOfAll.has(Kept::Refusal))
    return {};
  const int rank = heardOfAll.rankOf(Kept::Refusal);
  const Record &record = heardOfAll.recordOf(Kept::Refusal);
  if (rank == peers.rank())
    return Status(record.code, record.message, rank);
  return rankError(record.code, rank, "rank {}: {}", rank, record.message);
}

} // namespace kolo::runtime
