// EventOrder: which event of a run comes before which in every interleaving: program order, signals before their waits,
// and the events that complete puts. Follows one rank of every orbit, by vector clocks.
//
// A semaphore has one sender and one receiver and is never reset, so the k-th wait belongs to the k-th signal in every
// interleaving. The order of events is therefore the same in all of them, and one run decides about all.
#pragma once

#include "compiler/check/Clock.h"
#include "compiler/check/GroupMoves.h"
#include "compiler/check/Verdict.h"
#include "compiler/model/RankGroup.h"

#include <memory>

namespace kolo {

/// The step by which a rank accessed a chunk. The rank is as seen by the representative of the chunk's owner.
struct AccessEntry {
  int32_t rank = -1;      // -1: none
  uint32_t time : 31 = 0; // of a put: its number among the puts of that rank
  uint32_t isPut : 1 = 0;
  bool operator==(const AccessEntry &) const = default;
};

class EventOrder {
public:
  /// What a rank knows when it signals or puts packets.
  struct SharedClock;
  using ClockPointer = std::shared_ptr<const SharedClock>;

  EventOrder(const Tracer &tracer, const TracedGroup &traced, const CheckOptions &options, GroupMoves &moves,
             int64_t numCalls);
  ~EventOrder();
  EventOrder(const EventOrder &) = delete;
  EventOrder &operator=(const EventOrder &) = delete;

  /// Those of the trace, and one of the application before and behind them.
  uint32_t stepsPerCall(size_t orbit) const { return uint32_t(traced.traces[orbit].events.size()) + 2; }
  /// The number of steps that the representative of an orbit has taken.
  uint32_t time(size_t orbit) const { return ranks[orbit].time; }
  void endStep(size_t orbit) { ++ranks[orbit].time; }

  void signal(size_t orbit, const Event &event);
  /// False: the peer has not signalled yet.
  bool wait(size_t orbit, const Event &event);
  int64_t numSignals(size_t orbit, int32_t semaphore, int64_t target) const;
  void flush(size_t orbit);
  /// False: not all ranks have come to their `enter` of this call.
  bool enter(size_t orbit, int64_t call);
  void beginPut(size_t orbit, int32_t target);

  /// Of packets: the clock that the put at hand takes with it, whose chunk is still to be read.
  ClockPointer sendPacket(size_t orbit);
  /// The rank reads a chunk of packets that `sender` put at `time`.
  void receivePacket(size_t orbit, ClockPointer clock, int64_t sender, uint32_t time);

  enum class Order { Settled, HiddenByTransport, None };
  /// Whether the accessor, a representative, knows that an access to a chunk of `owner` is over.
  Order orderOf(const AccessEntry &entry, bool isWrite, size_t orbit, int64_t owner) const;
  /// For cells: of the step at hand.
  AccessEntry entryOf(size_t orbit, int64_t owner, bool isPut) const;
  /// When the rank of an entry, as seen from its orbit's representative, took that step.
  uint32_t timeOf(const AccessEntry &entry) const {
    return entry.isPut ? ranks[group.orbitOf(entry.rank)].putTimes[entry.time] : entry.time;
  }

  int64_t clockBytes() const { return sharedBytes + moves.rows.clockBytes; }
  /// Pieces of clocks that were looked at.
  int64_t work() const { return numPieces; }

private:
  struct Signal {
    ClockPointer clock;
    uint32_t time;    // of the signal itself
    uint32_t numPuts; // to that peer before it
  };
  /// When a put's accesses are over: a rank knows it once it knows of one of these moments.
  struct PutState {
    int32_t target;
    uint32_t waitTime = UINT32_MAX;       // of the target
    uint32_t flushTime = UINT32_MAX;      // of the sender
    uint32_t hiddenWaitTime = UINT32_MAX; // as waitTime, had the transport kept the order
    uint32_t numUnread = 0;               // of its packets; once there are none, that is the time of the target's wait
  };
  struct PutQueue {
    std::vector<uint32_t> numbers; // of the puts
    size_t numArrived = 0;
  };
  /// Of the representative of one orbit.
  struct RankOrder {
    explicit RankOrder(const RankRows &rows) : clock(rows) {}
    Clock clock;         // of the other ranks; `time` is this rank's own entry
    ClockPointer shared; // a copy, as long as it is up to date
    uint32_t time = 0;
    size_t numFlushed = 0; // of `putTimes`
    std::vector<uint32_t> putTimes;
    std::vector<PutState> puts;                            // at those times
    llvm::DenseMap<int32_t, PutQueue> putQueues;           // by peer
    llvm::DenseMap<uint64_t, std::vector<Signal>> signals; // by semaphore and peer
    llvm::DenseMap<uint64_t, uint32_t> numWaited;          // by semaphore and peer
    std::vector<uint32_t> enterTimes;                      // by call: when it came to its `enter`
  };

  /// A step's time in clocks. It grows along the steps of a rank, and is alike on ranks that do alike: see Trace.
  uint32_t tickOf(size_t orbit, uint32_t time) const {
    uint32_t steps = stepsPerCall(orbit), position = time % steps, start = time / steps * ticksPerCall;
    if (position == 0)
      return start;
    if (position == steps - 1)
      return start + ticksPerCall - 1;
    return start + (usesTicks ? traced.traces[orbit].events[position - 1].tick + 1 : position);
  }
  ClockPointer shareClock(RankOrder &rank);
  void join(RankOrder &rank, const SharedClock &clock, int64_t sender, uint32_t time);
  void arrive(size_t senderOrbit, int64_t target, uint32_t numPuts, uint32_t time);
  bool isOver(size_t orbit, int64_t rank, uint32_t time) const;
  const Clock &clockOfEnter(size_t call);

  const Tracer &tracer;
  const TracedGroup &traced;
  const RankGroup &group;
  const CheckOptions &options;
  GroupMoves &moves;
  bool usesTicks = true;
  uint32_t ticksPerCall = 0;
  std::vector<RankOrder> ranks;   // by orbit
  std::vector<size_t> numEntered; // representatives that came to their `enter`, by call
  std::vector<Clock> enterClocks; // by call: when all ranks came to their `enter`
  int64_t sharedBytes = 0;        // of shared clocks that are alive
  int64_t numPieces = 0;
};

} // namespace kolo
