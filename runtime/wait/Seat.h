// Seat: keeps the ranks of a host evenly spread over its cores where there are more ranks than cores.
//
// The kernel may leave threads that yield where they are for 100 ms and more. If three ranks of four share one core of
// two, a call takes twice as long, because it waits for that core to run each of them in turn.
// bench/results/2026-11-23-ordinary-memory-swing.md has measurements.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace kolo::runtime {

/// One more than the number of the core that a rank runs on; 0: unknown. In shared memory.
using SeatedOn = std::atomic<int32_t>;

/// The core that rank `self` should move to: the one of `allowed` with the fewest ranks, if at least two more are on
/// its own. Of these ranks only the last moves, so that not all do. -1: it should stay. `seated`: by rank.
int findBetterCore(std::span<const int32_t> seated, size_t self, const cpu_set_t &allowed);

/// Of one rank. For the thread that waits for it, not for several at once.
class Seat {
public:
  /// `ranksHere`: where the ranks of this host say which core they run on. `rank`: this one among them.
  Seat(std::vector<SeatedOn *> ranksHere, size_t rank)
      : ranks(std::move(ranksHere)), seated(ranks.size()), self(rank) {}

  /// This thread is about to give its core away. Sometimes moves it to another one. The set of cores that it may use
  /// stays what it is.
  void beforeYield() {
    int32_t here = sched_getcpu() + 1;
    if (ranks[self]->load(std::memory_order_relaxed) != here)
      ranks[self]->store(here, std::memory_order_relaxed);
    if (++numYields % yieldsPerLook == 0)
      look();
  }
  /// This rank has left.
  void leave() { ranks[self]->store(0, std::memory_order_relaxed); }

  static constexpr uint32_t yieldsPerLook = 64; // about 150 us
  /// No rank moves more often, whatever else wants the cores.
  static constexpr std::chrono::milliseconds leastStay{10};

private:
  void look();

  std::vector<SeatedOn *> ranks;
  std::vector<int32_t> seated; // what they said last
  size_t self;
  uint32_t numYields = 0;
  std::chrono::steady_clock::time_point movedAt = {};
};

} // namespace kolo::runtime
