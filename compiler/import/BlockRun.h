// One run of all thread blocks of a schedule, over calls that follow each other. Vector clocks say what is ordered in
// every interleaving: whatever waits, waits for what one thread does, so all interleavings have the same order. Used by
// Judge.
#pragma once

#include "compiler/import/Finding.h"
#include "compiler/import/Schedule.h"

#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace kolo::foreign {

/// How often each chunk of an input is part of a value.
struct BlockContribution {
  int32_t call, rank, chunk, times;
  auto operator<=>(const BlockContribution &) const = default;
};
using Contributions = std::vector<BlockContribution>; // sorted, each chunk once
using Content = std::shared_ptr<const Contributions>; // null: nobody wrote it

/// An action of the first call, in an order in which all threads can take theirs one after the other.
struct Taken {
  int32_t thread, action;
};

/// Steps that are over, by thread; then those of the ranks' applications.
using BlockClock = std::vector<uint32_t>;
using SharedClock = std::shared_ptr<const BlockClock>;
void join(BlockClock &clock, const BlockClock &other);
/// Nothing, if there is none.
void join(BlockClock &clock, const SharedClock &other);

struct BlockAccess {
  int32_t thread = -1, action = -1, call = 0;
  uint32_t time = 0;
};

/// What is known once an event was raised, by event and call.
struct BlockEvents {
  std::vector<SharedClock> clocks;
  size_t calls;
  SharedClock &at(int32_t event, int32_t call) { return clocks[size_t(event) * calls + size_t(call)]; }
  const SharedClock &at(int32_t event, int32_t call) const { return clocks[size_t(event) * calls + size_t(call)]; }
};

class BlockRun {
public:
  /// Bytes that the clocks of a run may take.
  static constexpr double mostBytes = double(int64_t(2) << 30);
  /// What a run would take, before it starts.
  static double bytesNeeded(const ForeignSchedule &schedule);

  /// The schedule must outlive this, and its places must lie in their memory.
  BlockRun(const ForeignSchedule &schedule, bool isInPlace);

  /// Ends at the first finding of each property that it can find: Deadlock, Race, Result, Bounds, Invocations.
  void run();

  const std::vector<Finding> &findings() const { return allFindings; }
  const std::vector<Taken> &order() const { return takenOrder; }

private:
  using Clock = BlockClock;
  struct BlockCell {
    Content value;
    BlockAccess write;
    std::vector<BlockAccess> reads;
    int32_t packetCall = -1;
    SharedClock packetClock;
  };
  struct BlockMessage {
    int32_t count, line, call;
    std::vector<Content> values;
    SharedClock clock;
  };
  struct BlockProgress {
    size_t next = 0;
    Clock clock;
    int32_t call = 0;
    bool hasDone(int32_t numActions, int32_t ofCall) const {
      return call > ofCall || (call == ofCall && next >= size_t(numActions));
    }
  };
  struct Told {
    SharedClock all, start; // what the signaller knew, and what it knew when its call began
  };
  struct RankProgress {
    int32_t call = 0, numThreads = 0, numEnded = 0; // without proxies
    std::vector<SharedClock> starts;                // of its calls
  };
  struct BlockCounter {
    std::vector<Told> signals;
    int32_t numTaken = 0, numPerCall = 0;
    bool hasOneSignaller = true;
  };

  void countSignallers();
  bool advance(int32_t thread);
  bool endThread(int32_t thread);
  bool isReady(int32_t thread, const Action &action) const;
  bool hasPackets(const ChunkPlace &place, int32_t count, int32_t call) const;
  void take(int32_t thread, const Action &action);
  void joinSemaphore(Clock &clock, int32_t semaphore, int32_t call, bool isRelaxed);
  std::vector<Content> readSources(int32_t thread, const Action &action, const BlockMessage *message);
  void reportLength(int32_t thread, const Action &action, const BlockMessage &message);
  void startCall(int32_t rank);
  void endCall(int32_t rank);
  void checkOutput(int32_t rank, int32_t chunk, int32_t call);
  Contributions expected(int32_t rank, int32_t chunk, int32_t call) const;
  void findBlocked();
  std::string describeBlocked(int32_t thread, const Action &action) const;

  size_t cellIndex(ChunkPlace place, int32_t call) const;
  BlockCell &cell(ChunkPlace place, int32_t call) { return cells[size_t(place.rank)][cellIndex(place, call)]; }
  bool isOver(const BlockAccess &access, int32_t thread) const;
  void read(const ChunkPlace &place, int32_t thread, const BlockAccess &now);
  void write(const ChunkPlace &place, int32_t thread, const BlockAccess &now, Content value);
  void reportConflict(const ChunkPlace &place, const BlockAccess &earlier, const BlockAccess &now, bool isEarlierWrite,
                      bool isWrite);
  void report(Finding finding);
  int32_t application(int32_t rank) const { return int32_t(schedule.threads.size()) + rank; }
  Clock &clockOf(int32_t thread) { return progress[size_t(thread)].clock; }

  const ForeignSchedule &schedule;
  const bool isInPlace;
  const int32_t calls;
  std::vector<BlockProgress> progress; // threads, then applications
  std::vector<RankProgress> ranks;
  std::vector<std::vector<int32_t>> threadsOf;  // by rank
  std::vector<std::vector<BlockCell>> cells;    // by rank
  std::vector<std::deque<BlockMessage>> queues; // by connection
  BlockEvents events;
  std::vector<BlockCounter> counters; // by semaphore
  std::vector<Taken> takenOrder;
  std::vector<Finding> allFindings;
};

} // namespace kolo::foreign
