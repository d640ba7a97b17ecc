// Exchange: every rank says one Record to every other and hears theirs. The base of barriers, of window exchange, and of
// the entry to every collective.
#pragma once

#include "transport/World.h"

#include <cstdint>
#include <utility>

namespace kolo::runtime {

/// Each rank owns two records, used in turn. Two are enough: a rank writes its record n + 2 only after it has finished
/// exchange n + 1, for which every peer had to publish record n + 1, and a peer does that only after it has returned from
/// exchange n and from all use of record n, which shares the slot. So nobody reads a slot while it is written, and a rank
/// that is one exchange ahead does not disturb those that are still reading. This holds for exchanges of all kinds
/// together, for which reason they share one sequence number.
class Exchange {
public:
  explicit Exchange(World &owner) : world(owner) {}

  /// The record for the next exchange, empty again, to be filled before `perform`.
  Record &next();

  /// Publishes the record and waits for every rank's. Then `heard` gives them until the next call of `next`.
  /// Timeout, PeerLost, Aborted: the communicator is aborted. Mismatch: ranks are doing different things; all return it.
  Status perform();
  const Record &heard(int rank) const { return world.block(rank).records[sequence % 2]; }

  /// The first rank whose own validation failed, as a Status for this rank: its own words, or "rank 3: ...".
  Status firstRefusal() const;

private:
  Status waitForPeer(int peer);

  World &world;
  uint64_t sequence = 0;
};

/// Puts a validation failure into a record.
void setFailure(Record &record, const Status &status);

} // namespace kolo::runtime
