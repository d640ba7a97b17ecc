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
  peers.block(peers.rank()).rememberedOf(sequence).store(own.plan, std::memory_order_relaxed);
  own.raise(sequence);
}

Status Exchange::hear(int rank) {
  if (!announcement(rank).hasReached(sequence))
    if (Status status = await({announcement(rank), sequence, rank}); !status.isOk())
      return status;
  return announcement(rank).plan == announcement(peers.rank()).plan ? Status() : compareAhead(rank, sequence);
}

Status Exchange::catchUp() {
  if (caughtUp == sequence)
    return {};
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

/// Aborts if this rank and that one announced different plans. One of them ran ahead. A rank that did not waits for all
/// others, and then aborts, so its record stays.
Status Exchange::compareAhead(int rank, uint64_t exchange) {
  auto announcedBy = [&](int of) {
    RankBlock &block = peers.block(of);
    const uint64_t plan = block.rememberedOf(exchange).load(std::memory_order_relaxed);
    return Announced{of, plan, plan == 0 ? &block.records[exchange % 2] : nullptr};
  };
  Announced first = announcedBy(std::min(rank, peers.rank())), second = announcedBy(std::max(rank, peers.rank()));
  if (first.plan == second.plan)
    return {};
  first.plan &= ~aheadMark;
  second.plan &= ~aheadMark;
  return peers.abort(explain(first, second));
}

} // namespace kolo::runtime
