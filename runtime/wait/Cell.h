// Counter: a number that only grows. One side raises it and others wait for it, in memory shared by threads or by
// processes. Cell: a Counter that is alone in its cache line.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kolo::runtime {

inline constexpr size_t cacheLineBytes = 64;

/// Zero-filled memory is a valid Counter of value 0.
///
/// No wake-up is lost, because number and mark are one word. A sleeper marks the word that it read, and the kernel
/// compares the word again before the sleeper sleeps. The signaller replaces the word in one step: either it sees the
/// mark, or the sleeper sees the new number. With one access, the signaller also does not need the cache line again
/// while the waiting side takes it.
struct Counter {
  std::atomic<uint64_t> word; // twice the number, plus one when somebody may sleep

  bool hasReached(uint64_t target) const { return word.load(std::memory_order_acquire) >= 2 * target; }

  /// Sets the number. Only one writer calls this, each time with a larger number. A thread that sees the number also
  /// sees all that the writer wrote before.
  void raise(uint64_t number) {
    if (word.exchange(2 * number, std::memory_order_seq_cst) & 1)
      wakeAll();
  }

  /// Sleeps until the number changes, for at most `mostUs` microseconds. Returns at once if the target is reached.
  void sleep(uint64_t target, int64_t mostUs);

private:
  void wakeAll();
};

struct alignas(cacheLineBytes) Cell : Counter {};
static_assert(sizeof(Cell) == cacheLineBytes && std::atomic<uint64_t>::is_always_lock_free);

/// A sleeping rank notices death, abort and timeout within this time.
inline constexpr int64_t sleepIntervalUs = 50'000;
/// The same while the network wants to be called between looks. The kernel adds about 50 us.
inline constexpr int64_t progressIntervalUs = 50;
/// The same while the caller wants to, whose peers may wait for each look: see CommunicatorOptions::progress. A look
/// costs some 5 us of the core.
inline constexpr int64_t callerIntervalUs = 20;

} // namespace kolo::runtime
