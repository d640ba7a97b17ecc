// Exchange: every rank announces something and reads what all others announce. That is a whole Record, or the number of
// a plan that all ranks agreed on before. Barriers, window exchange and the entry to every collective use it.
#pragma once

#include "peers/CombinedRecords.h"
#include "peers/Peers.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

namespace kolo::runtime {

/// Instead of a plan's number: a barrier.
inline constexpr uint64_t planOfBarriers = uint64_t(1) << 60;
/// Of a plan's number that is not 0.
constexpr Operation operationOf(uint64_t plan) { return plan == planOfBarriers ? Operation::Barrier : Operation::Run; }

/// Each rank owns two records, and uses them in turn: exchange n uses that of turn n % 2. So does memory for published
/// inputs outside of the announcement.
///
/// Two turns are enough. A rank writes for exchange n + 2 only after it has finished exchange n + 1. For that, every
/// peer had to announce n + 1. A peer announces n + 1 only when it no longer uses what it read in exchange n. So nobody
/// reads a record while its owner writes it. The argument needs one sequence number for exchanges of all kinds.
///
/// Ranks that run ahead do not finish an exchange: they wait for those alone whose published inputs they read, or for
/// nobody. For them there are T = RankBlock::numTurns announcements. A rank writes that of exchange n + T when every
/// peer has announced n + 1 (`awaitTurn`). Before any other exchange it waits until all have announced as much as it
/// has (`catchUp`). That finishes the exchanges that it left, so the argument for two turns holds again. No rank waits
/// for ever: the one that has announced least waits for ranks alone that have yet to come.
///
/// A rank that runs ahead says so in its announcement. No other announcement goes with it, so a difference is a mistake
/// of the program. Whoever sees one aborts the communicator. All see it at the latest when they catch up, as they do
/// after `mostAhead` such exchanges: each rank remembers what it announced.
///
/// With several hosts, a rank waits for those of its own host alone, or for the speaker of its host. Speakers wait for
/// each other in rounds: see HostRounds. A host's contribution to exchange n + 1 leaves only when all its ranks have
/// announced n + 1, so what arrives for n + 2 finds nobody who reads what it replaces.
///
/// All ranks read the same announcements, so all come to the same result of exchange n:
/// - All announce one number, not 0: the plan is agreed, or all are in a barrier or a meeting. Nobody wrote or reads a
///   record.
/// - All announce 0: each rank's record is that of turn n % 2. What follows from all of them is in `summary`.
/// - Anything else: all ranks go on to exchange n + 1 with 0 and a record. A rank that wrote a record for exchange n
///   copies it to the next turn; nobody has read it.
///
/// Ranks of several hosts may make calls without an exchange: see `skip`. Every exchange compares how many they were.
class Exchange {
public:
  /// So many calls in a row may go without an exchange; the next one has one. Ranks that need nothing of each other
  /// would else drift apart, until one waits longer than the timeout, and would not hear that the communicator is
  /// aborted. With 64, the ranks' delays of 64 calls add up at most, and a call costs 1/64 of an exchange.
  static constexpr uint64_t mostRepeated = 64;
  /// After so many exchanges in a row that a rank may have left early, it waits for all others.
  static constexpr uint64_t mostAhead = 64;
  static_assert(mostAhead + RankBlock::numTurns < RankBlock::numRemembered);

  explicit Exchange(Peers &owner) : peers(owner), hosts(owner.hosts()) {}

  /// The number of the last exchange; the same on all ranks.
  uint64_t number() const { return sequence; }

  /// The turn of the next exchange; outside of announcements, what counts is whether it is even. A rank publishes its
  /// input in its memory of this turn before it calls `propose`. When `propose` returns with an agreement, all ranks
  /// may read that memory until their next exchange. This holds for memory inside and outside of the announcement.
  size_t nextTurn() const { return (sequence + 1) % RankBlock::numTurns; }
  /// Grows by one from each exchange of a turn to the next: says which part of that turn's memory to publish in. The
  /// same on all ranks.
  size_t nextSlot() const { return static_cast<size_t>((sequence + 1) / 2); }
  /// Memory for published inputs inside the announcement: Announcement::maxPublishedBytes bytes. Of a rank of another
  /// host, what has come of its input; `slotBytes` as it was for `propose`.
  std::byte *published(int rank, size_t turn, size_t slotBytes) const {
    return peers.isRemote(rank) ? peers.control().farInput(rank, turn, slotBytes).data()
                                : peers.block(rank).announcements[turn].published;
  }

  /// Announces the number of a plan (not 0), or `planOfBarriers`, and how much this rank publishes, and blocks until
  /// every rank has announced something. `isAgreed`: all announced the same. If not, the caller fills the record of
  /// `next` and calls `perform` before anything else. Timeout, PeerLost, Aborted: the communicator is aborted.
  Status propose(uint64_t plan, PublishedSize published, bool &isAgreed);

  /// Announces `planOfMeetings`, and blocks until every rank has announced something. `isAgreed`: all announced the
  /// same. Then `combined` has what all ranks publish, each in its announcement of `nextTurn`; `published` gives those
  /// of this host until the next exchange. Errors as of `propose`. Mismatch: also if a host sends what is no such sum.
  Status combine(CombinedRecords &combined, bool &isAgreed);

  /// The empty record for the next exchange; the caller fills it before `perform`.
  Record &next();

  /// Announces the record, and blocks until every rank has announced one. The next functions tell of them until the
  /// next call of `next` or `propose`. Timeout, PeerLost, Aborted: the communicator is aborted. Mismatch: ranks called
  /// different operations; all return it.
  Status perform();
  /// Of a rank of this host.
  const Record &heard(int rank) const { return peers.block(rank).records[sequence % 2]; }
  /// Of all ranks.
  const RecordSummary &summary() const { return heardOfAll; }

  /// The refusal of the first rank that refused, as a Status for this rank: its own message, or "rank 3: ...".
  Status firstRefusal() const;

  /// Whether another call may go without an exchange; the same on all ranks.
  bool maySkip() const { return numRepeated - repeatedBefore < mostRepeated; }

  /// This rank begins a call without an exchange. Requires several hosts, and `maySkip`. All ranks must do so equally
  /// often between two exchanges; else the next one returns Mismatch on all of them, and the communicator is aborted.
  void skip() { ++numRepeated; }

  /// What a rank has announced.
  struct Announced {
    int rank = 0;
    uint64_t plan = 0;              // that it proposes, or `differentPlans`
    const Record *record = nullptr; // where `plan` is 0
    Operation operation() const { return record ? record->operation : operationOf(plan); }
  };
  /// A rank that has come to the next exchange without the call that this rank has begun, if one is known here. Any
  /// thread, in a call that this rank began by `skip`.
  std::optional<Announced> findDeparture() const;

  // Running ahead, in Ahead.cpp. Only where all ranks are on this host, and only after `letRunAhead` on all of them.

  /// Says why two ranks that announced different plans cannot both be right. The lower rank comes first.
  using Explain = std::function<Status(const Announced &first, const Announced &second)>;
  void letRunAhead(Explain explainDifference) { explain = std::move(explainDifference); }
  /// Blocks until this rank may publish in its announcement of the next exchange. Timeout, PeerLost, Aborted; the
  /// status of `Explain`: the communicator is aborted. So with `hear` and `catchUp`.
  Status awaitTurn();
  /// Announces the number of a plan for which this rank need not wait for all others. After `awaitTurn`.
  void announceAhead(uint64_t plan);
  /// After `announceAhead`: blocks until this rank may read what that rank publishes.
  Status hear(int rank);
  /// Blocks until every rank has announced as much as this one, and this rank may read what they publish. Before
  /// anything but the functions above.
  Status catchUp();

private:
  /// What a wait is for: something that a rank does, perhaps on another host.
  struct Awaited {
    Counter &counter;
    uint64_t exchange = 0; // that the counter shall reach
    int rank = 0;
    int extraMs = 0; // a rank that stays away is named by its host first: others wait a little longer
  };

  Status meet(uint64_t plan, PublishedSize published = {}, CombinedRecords *combined = nullptr);
  Status gather(CombinedRecords *combined);
  Status finishSending();
  Status awaitRanksHere(uint64_t exchange);
  Status compareAhead(int rank, uint64_t exchange);
  Status awaitSpeaker();
  Status await(const Awaited &awaited);
  int findLost(const Awaited &awaited) const;
  int awaitedBySpeaker() const;
  Announcement &announcement(int rank) const { return peers.block(rank).announcementOf(sequence); }

  Peers &peers;
  const Hosts &hosts;
  uint64_t sequence = 0;
  uint64_t agreed = 0;         // in the last exchange: the plan that all ranks announced, or `differentPlans`
  uint64_t numRepeated = 0;    // calls without an exchange, so far
  uint64_t repeatedBefore = 0; // of them, those before the last exchange
  Operation current = Operation::Run;
  RecordSummary heardOfAll; // in the last exchange of records
  Explain explain;          // empty: no rank runs ahead
  uint64_t caughtUp = 0;    // every rank has announced so many exchanges, and the same in those where some ran ahead
};

/// Marks the plan in the announcement of a rank that runs ahead.
inline constexpr uint64_t aheadMark = uint64_t(1) << 62;

} // namespace kolo::runtime
