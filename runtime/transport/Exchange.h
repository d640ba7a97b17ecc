// Exchange: every rank says something to every other and hears theirs: a whole Record, or just the number of a plan
// that all agreed on before. The base of barriers, of window exchange, and of the entry to every collective.
#pragma once

#include "transport/Peers.h"

#include <cstdint>
#include <utility>

namespace kolo::runtime {

/// Each rank owns two slots, used in turn: its count of exchanges, beside it a plan's number and what a program
/// publishes, and a record. Two are enough: a rank writes into slot n + 2 only after it has finished exchange n + 1,
/// for which every peer had to publish n + 1, and a peer does that only after it has returned from exchange n and from
/// all use of what it heard there, in the same slot. So nobody reads a slot while it is written, and a rank that is one
/// exchange ahead does not disturb those that are still reading. This holds for exchanges of all kinds together, for
/// which reason they share one sequence number.
///
/// Every rank decides from the same words, those of exchange n, what exchange n was:
/// - all are one number, not 0: agreed; nobody wrote or reads a record.
/// - all are 0: everybody's record is in slot n.
/// - anything else: exchange n + 1 follows on all ranks, with 0 and records from all. Those who had published a record
/// in
///   exchange n say it again; nobody reads the one in slot n, which they had no need of before.
class Exchange {
public:
  explicit Exchange(Peers &owner) : peers(owner) {}

  /// What a rank publishes goes to its memory for this turn, before `propose`, and may be read by all once `propose`
  /// has returned with an agreement, until their next exchange: see above, whether that memory is in a slot or
  /// elsewhere.
  size_t nextTurn() const { return (sequence + 1) % 2; }
  /// In the slot: Announcement::maxPublishedBytes.
  std::byte *published(int rank, size_t turn) const { return peers.block(rank).entered[turn].published; }

  /// Says the number of a plan (not 0), and waits for every rank. `isAgreed`: all said the same. If not, fill the
  /// record of `next` and `perform` must follow, before anything else. Timeout, PeerLost, Aborted: the communicator is
  /// aborted.
  Status propose(uint64_t plan, bool &isAgreed);

  /// The record for the next exchange, empty again, to be filled before `perform`.
  Record &next();

  /// Publishes the record and waits for every rank's. Then `heard` gives them until the next call of `next` or
  /// `propose`. Timeout, PeerLost, Aborted: the communicator is aborted. Mismatch: ranks are doing different things;
  /// all return it.
  Status perform();
  const Record &heard(int rank) const { return peers.block(rank).records[sequence % 2]; }

  /// The first rank whose own validation failed, as a Status for this rank: its own words, or "rank 3: ...".
  Status firstRefusal() const;

private:
  Status meet(uint64_t plan);
  bool haveAllSaid(uint64_t plan) const;
  Status waitForPeer(int peer);
  Announcement &announcement(int rank) const { return peers.block(rank).entered[sequence % 2]; }

  Peers &peers;
  uint64_t sequence = 0;
  Operation current = Operation::Run;
};

/// Puts a validation failure into a record.
void setFailure(Record &record, const Status &status);

} // namespace kolo::runtime
