// Counter: a number that only grows, that one side raises and others wait for; in memory shared by threads or by
// processes. Cell: one that is alone in its cache line.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kolo::runtime {

inline constexpr size_t cacheLineBytes = 64;

/// Zero-filled memory is a valid Counter of value 0.
///
/// No wake-up is lost, since number and sleepers are one word: a sleeper marks the word as it saw it, and has the
/// kernel compare it once more; the signaller replaces the word in one step, and so either sees the mark, or has
/// changed the word before it could be marked. One access also means that the signaller does not come back to a cache
/// line that who waits is taking away from it.
struct Counter {
  std::atomic<uint64_t> word; // twice the number; plus one when somebody may sleep

  bool hasReached(uint64_t target) const { return word.load(std::memory_order_acquire) >= 2 * target; }

  /// Sets the number; the only writer calls it, with ever larger numbers. All that it wrote before is visible to
  /// whoever then sees the number.
  void raise(uint64_t number) {
    if (word.exchange(2 * number, std::memory_order_seq_cst) & 1)
      wakeAll();
  }

  /// Sleeps until the number moves, at most sleepIntervalMs; returns at once if the target is reached.
  void sleep(uint64_t target);

private:
  void wakeAll();
};

struct alignas(cacheLineBytes) Cell : Counter {};
static_assert(sizeof(Cell) == cacheLineBytes && std::atomic<uint64_t>::is_always_lock_free);

/// Death, abort and timeout of a sleeping rank are noticed within this time.
inline constexpr int sleepIntervalMs = 50;

} // namespace kolo::runtime
