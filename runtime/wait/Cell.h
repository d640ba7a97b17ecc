// Counter: a number that only grows, that one side raises and others wait for; in memory shared by threads or by processes.
// Cell: one that is alone in its cache line.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kolo::runtime {

inline constexpr size_t cacheLineBytes = 64;

/// Zero-filled memory is a valid Counter of value 0.
///
/// No wake-up is lost: the signaller writes `value` and then reads `sleepers`, the sleeper raises `sleepers` and then reads
/// `value`. With all four operations sequentially consistent there is one order of them all, so at least one side sees
/// the other's write (Dekker). Operations rather than fences, because the thread sanitizer does not model fences.
struct Counter {
  std::atomic<uint64_t> value;
  std::atomic<uint32_t> sleepers;

  bool hasReached(uint64_t target) const { return value.load(std::memory_order_acquire) >= target; }

  /// Sets the value; the only writer calls it, with ever larger values. All that it wrote before is visible to whoever
  /// then sees the value.
  void raise(uint64_t newValue) {
    value.store(newValue, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) != 0)
      wakeAll();
  }

  /// Sleeps until the value moves, at most sleepSliceMs; returns at once if the target is reached.
  void sleep(uint64_t target);

private:
  void wakeAll();
};

struct alignas(cacheLineBytes) Cell : Counter {};
static_assert(sizeof(Cell) == cacheLineBytes && std::atomic<uint64_t>::is_always_lock_free);

/// Death, abort and timeout of a sleeping rank are noticed within this time.
inline constexpr int sleepSliceMs = 50;

} // namespace kolo::runtime
