// Exchanges in which a rank need not wait for all others: see Exchange.h.
#include "peers/Exchange.h"

#include <algorithm>

namespace kolo::runtime {

Status Exchange::awaitTurn() {
  constexpr uint64_t numTurns = RankBlock::numTurns;
  if (sequence - caughtUp >= mostAhead)
    return catchUp();
  const uint64_t next = sequence + 1;
  const bool isFree = next < numTurns || next - numTurns + 1 <= caughtUp;
  current = Operation::Run;
  return isFree ? Status() : awaitRanksHere(next - numTurns + 1);
}

void Exchange::announceAhead(uint64_t plan) {
  ++sequence;
  Announcement &own = announcement(peers.rank());
  own.plan = plan | aheadMark;
  remembered(peers.rank(), sequence).store(own.plan, std::memory_order_relaxed);
  own.raise(sequence);
}

Status Exchange::hear(int rank) {
  if (!announcement(rank).hasReached(sequence))
    if (Status status = await({announcement(rank), sequence, rank}); !status.isOk())
      return status;
  return announcement(rank).plan == announcement(peers.rank()).plan ? Status() : compareAhead(rank, sequence);
}

Status Exchange::hearAll() { return catchUp(); }

Status Exchange::catchUpLate() {
  current = Operation::Run;
  if (Status status = awaitRanksHere(sequence); !status.isOk())
    return status;
  for (uint64_t exchange = caughtUp + 1; exchange <= sequence; ++exchange)
    for (int rank : hosts.ranksHere())
      if (Status status = compareAhead(rank, exchange); !status.isOk())
        return status;
  caughtUp = sequence;
  return {};
}

/// Aborts if this rank and that one announced different plans. One of them ran ahead.
Status Exchange::compareAhead(int rank, uint64_t exchange) {
  auto planOf = [&](int of) { return remembered(of, exchange).load(std::memory_order_relaxed); };
  if (planOf(rank) == planOf(peers.rank()))
    return {};
  const auto [first, second] = std::minmax({rank, peers.rank()});
  return peers.abort(explain(announcedBy(first, exchange), announcedBy(second, exchange)));
}

/// A rank that did not run ahead waits for all others, and then aborts. So its record stays.
Exchange::Announced Exchange::announcedBy(int rank, uint64_t exchange) const {
  const uint64_t plan = remembered(rank, exchange).load(std::memory_order_relaxed);
  return {rank, plan & ~aheadMark, plan == 0 ? &peers.block(rank).records[exchange % 2] : nullptr};
}

} // namespace kolo::runtime
