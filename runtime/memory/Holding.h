// Holding: the memory that peers access and that one communicator holds for its calls: published inputs, scratch
// memory, staged and packet buffers. The communicators of a rank hold a bounded amount together.
#pragma once

#include "memory/Segments.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

namespace kolo::runtime {

class Holding;

/// What a communicator keeps until it ends, whatever it calls.
enum class Keeps : uint8_t {
  Own,  // control memory, semaphores, and what the process itself has of it
  Plans // beyond those that each communicator may have
};
inline constexpr size_t numKeeps = 2;

/// Of the limit, all communicators of a rank may keep so much. The rest, at least a quarter, is for calls.
constexpr size_t keptLimit(Keeps what, size_t limitBytes) { return limitBytes / 8 * (what == Keeps::Own ? 5 : 1); }

/// What all communicators of one rank hold. One for each rank of this process, and never destroyed. Thread-safe.
class Budget {
public:
  static Budget &ofRank(RankKind kind, int rank);

  /// Of what can be given back.
  size_t heldBytes() const;

private:
  friend class Holding;
  Status makeRoom(const Holding &needing, size_t moreBytes);
  size_t keptBytes() const { return kept[0] + kept[1]; }
  enum class Found : uint8_t { GivenBack, Unfinished, Nothing };
  Found takeFromOldest(const Holding &needing);

  mutable std::mutex mutex;
  std::list<Holding *> holdings;
  size_t held = 0;
  size_t kept[numKeeps] = {}; // by Keeps
  std::atomic<uint64_t> numUses = 0;
};

/// When the communicators of a rank would hold more than the limit, the one that has not used its memory for longest
/// gives it back to the kernel. The peers keep their mappings of it. It gets new pages when it is used again, so
/// nothing that a communicator keeps from one call to the next may lie there. A call that needs more than the limit
/// leaves by itself takes it after all others have given back theirs.
///
/// For the thread that runs the communicator's calls. Only `Budget` comes from other threads.
class Holding {
public:
  /// `mayGiveBack`: whether no peer can still access the memory. Any thread calls it, between two calls. Null: never.
  Holding(Budget &ofRank, size_t mostBytes, std::function<bool()> mayGiveBack);
  ~Holding();
  Holding(const Holding &) = delete;
  Holding &operator=(const Holding &) = delete;

  /// The call that begins uses the memory: from here to `end` nobody takes it. Repeating it does nothing. OutOfMemory:
  /// it was given back, and there is no room for it now.
  Status begin() {
    State expected = State::Idle;
    if (isBegun || state.compare_exchange_strong(expected, State::InUse, std::memory_order_acquire)) [[likely]] {
      isBegun = true;
      return {};
    }
    return restore();
  }
  /// The call has ended on this rank.
  void end() {
    if (!isBegun)
      return;
    lastUse.store(budget.numUses.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
    isBegun = false;
    state.store(State::Idle, std::memory_order_release);
  }

  /// Memory of the table that belongs to this holding until `drop`. Begins. OutOfMemory, SystemError.
  Result<std::unique_ptr<Segment>> create(SegmentTable &segments, size_t sizeBytes);
  void drop(std::unique_ptr<Segment> segment);
  /// Counts what the communicator keeps, and lets others give back as much. OutOfMemory: all would keep more than
  /// `keptLimit`.
  Status keep(Keeps what, size_t sizeBytes);

  bool hasBegun() const { return isBegun; }
  /// Other communicators of this rank that have memory, or had it and gave it back.
  size_t numOthers() const;

private:
  friend class Budget;
  enum class State : uint8_t { Idle, InUse, GivenBack };

  Status restore();
  void giveBack();

  Budget &budget;
  const size_t limitBytes;
  const std::function<bool()> isFinished;
  std::atomic<State> state = State::Idle;
  std::atomic<uint64_t> lastUse = 0;
  bool isBegun = false;
  std::list<Segment *> segments; // changed only while the holding is in use, and by its end
  size_t bytes = 0;              // of the segments, given back or not
  size_t kept[numKeeps] = {};    // by Keeps
};

} // namespace kolo::runtime
