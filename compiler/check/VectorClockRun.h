// Follows one rank of every orbit through a few calls, back to back, with vector clocks. Finds which event comes before
// which in every interleaving, and what every chunk holds. Used by the checker.
//
// A semaphore has one sender and one receiver and is never reset, so the k-th wait belongs to the k-th signal in every
// interleaving. The order of events is therefore the same in all of them, and one run decides about all.
#pragma once

#include "compiler/check/ChunkRuns.h"
#include "compiler/check/Clock.h"
#include "compiler/check/Contents.h"
#include "compiler/check/Verdict.h"

#include <memory>

namespace kolo {

/// A step of one rank. A call has one step of the application, then those of its trace, then another one of the
/// application. The first writes the input and spoils the output; the last reads the output.
struct Moment {
  int32_t rank;
  uint32_t time;
};

/// Two accesses to one chunk, one of them a write, that no rule orders.
struct Conflict {
  Moment earlier, later; // in the order in which this run met them
  bool isEarlierWrite, isLaterWrite;
  bool isOrderedByPuts; // they would be ordered if signals followed puts, and flushes waited for them, on the transport
  int64_t owner;        // whose chunk it is
  uint32_t buffer;
  int64_t chunk;
};

/// A wait for a signal that is never sent, or for packets.
struct Blocked {
  Moment moment;
  std::optional<int64_t> numSignals; // that the peer sends; nothing: of packets
};

struct WrongOutput {
  int64_t rank, call, chunk;
  std::string held, wanted;
  mlir::Operation *op; // that wrote it; null if no op wrote the wanted content
};

/// An output chunk that two ranks of a group hold with other bits.
struct OtherBits {
  int64_t rank, other, chunk; // `rank` has lost less, or as much
  Moment write, otherWrite;   // the last ones of the two ranks
  mlir::Operation *encoding;  // whose result `other` has, and `rank` has not; null: they combined in another order
  bool isEncodedOnMost;       // more ranks have what `other` has
};

/// An output chunk that is summed in another order than the first one of its block.
struct OtherOrder {
  int64_t rank, chunk;
  Moment write; // the last one
};

/// Where a run ended that took more than the options allow.
struct EndedEarly {
  Moment moment;              // the first step that it did not take
  int64_t numSteps, numInAll; // that it took, and that there are, of all representatives
  double share;               // of what is allowed, that all steps would take if they went on as these did
};

/// What a run found. The first problem in this order counts.
struct VectorClockResult {
  std::optional<EndedEarly> ended;
  std::vector<Blocked> blocked;
  std::vector<Conflict> conflicts; // one per pair of ops
  std::optional<WrongOutput> wrongOutput;
  std::optional<bool> ranksAgreeBitwise; // nothing: not decided
  bool needsFullTerms = false;           // to decide that: the origins of outputs differ
  double share = 0;                      // of the limits of time and memory, that the run took
  std::optional<OtherBits> otherBits;    // if ranks do not agree
  SumOrder order;                        // as of Verdict
  std::optional<OtherOrder> otherOrder;  // if two chunks differ
  std::vector<OutputLoss> losses;        // as of Verdict
  int64_t numEncodings = 0;              // as of Verdict
};

class VectorClockRun {
public:
  /// Whether plain clocks of all ranks and the chunks take more than the options allow: see prefersSmallMeshes.
  static bool isTooLarge(const Tracer &tracer, const TracedGroup &traced, const CheckOptions &options);
  /// Beyond `mostRanksInFull` ranks, terms tell origins apart: see Terms.
  VectorClockRun(const Tracer &tracer, const TracedGroup &traced, const CheckOptions &options,
                 int64_t mostRanksInFull = 64);
  ~VectorClockRun();
  VectorClockResult run();

  uint32_t stepsPerCall(size_t orbit) const { return uint32_t(traced.traces[orbit].events.size()) + 2; }
  /// Calls use two published buffers, and two packet buffers, in turn: call 2 meets what call 0 left.
  static int64_t numCalls(const Tracer &tracer) {
    return tracer.bufferOf(BufferRole::Published) || tracer.bufferOf(BufferRole::Packets) ? 3 : 2;
  }

private:
  /// A step's time in clocks. It grows along the steps of a rank, and is alike on ranks that do alike: see Trace.
  uint32_t tickOf(size_t orbit, uint32_t time) const {
    uint32_t steps = stepsPerCall(orbit), position = time % steps, start = time / steps * ticksPerCall;
    if (position == 0)
      return start;
    if (position == steps - 1)
      return start + ticksPerCall - 1;
    return start + (usesTicks ? traced.traces[orbit].events[position - 1].tick + 1 : position);
  }
  struct SharedClock;
  struct Signal {
    std::shared_ptr<const SharedClock> clock;
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
  /// What a chunk of packets carries beside its content: the clock of its sender, as the owner sees that rank.
  struct Packet {
    std::shared_ptr<const SharedClock> clock; // null: none was put yet
    int32_t rank = -1;
    uint32_t time = 0;
    int64_t call = -1;
    bool isRead = false;
  };
  struct Entry {
    int32_t rank = -1;      // -1: none
    uint32_t time : 31 = 0; // of a put: its number among the puts of that rank
    uint32_t isPut : 1 = 0;
  };
  struct Cell {
    Entry lastWrite;
    llvm::SmallVector<Entry, 1> reads;               // since the last write
    Contents::Id content : 63 = Contents::undefined; // chunks are numbered in 31 bits
    Contents::Id hasOrderedReads : 1 = true;         // by puts none, and by ever higher ranks
  };
  struct RankState {
    explicit RankState(const RankRows &rows) : clock(rows) {}
    Clock clock;                               // of the other ranks; `time` is this rank's own entry
    std::shared_ptr<const SharedClock> shared; // a copy, as long as it is up to date
    uint32_t time = 0;
    size_t numFlushed = 0; // of `putTimes`
    std::vector<uint32_t> putTimes;
    std::vector<PutState> puts;                            // at those times
    llvm::DenseMap<int32_t, PutQueue> putQueues;           // by peer
    llvm::DenseMap<uint64_t, std::vector<Signal>> signals; // by semaphore and peer
    llvm::DenseMap<uint64_t, uint32_t> numWaited;          // by semaphore and peer
    std::vector<uint32_t> enterTimes;                      // by call: when it came to its `enter`
    // [buffer][run of chunks and part, in every turn]; empty until a step touches the buffer
    std::vector<std::vector<Cell>> cells;
    std::vector<std::vector<Packet>> packets;
  };

  /// When the rank of an entry, as seen from its orbit's representative, took that step.
  uint32_t timeOf(const Entry &entry) const {
    return entry.isPut ? states[group.orbitOf(entry.rank)].putTimes[entry.time] : entry.time;
  }
  static const PutState &putAt(const RankState &state, uint32_t time) {
    return state.puts[size_t(std::ranges::lower_bound(state.putTimes, time) - state.putTimes.begin())];
  }
  static PutState &putAt(RankState &state, uint32_t time) {
    return const_cast<PutState &>(putAt(std::as_const(state), time));
  }
  bool advance(size_t orbit);
  bool step(size_t orbit);
  bool wait(size_t orbit, const Event &event);
  void signal(size_t orbit, const Event &event);
  void flush(size_t orbit);
  bool enter(size_t orbit);
  bool receivePackets(size_t orbit, const Event &event);
  void sendPacket(const Event &event, size_t orbit, int32_t chunk);
  void move(size_t orbit, const Event &event);
  void divide(size_t orbit, const Event &event);
  void startCall(size_t orbit, int64_t call);
  void endCall(size_t orbit, int64_t call);
  void join(RankState &state, const Signal &signal, int64_t sender);
  bool isOver(size_t orbit, int64_t rank, uint32_t time) const;
  const Clock &clockOfEnter();
  int64_t workOfApplications() const;
  /// A step takes as long as the joining of so many runs of clocks.
  static constexpr int64_t workOfStep = 12;
  int64_t workOfSteps() const;
  bool isBeyondLimits();
  bool isRefuted() const {
    return options.endsAtRefutation && (!result.conflicts.empty() || result.wrongOutput.has_value());
  }
  void endEarly(size_t orbit);
  double shareOfLimits() const;
  void findBlocked();
  void arrive(size_t senderOrbit, int64_t target, uint32_t numPuts, uint32_t time);

  /// One side of a step, which accesses several chunks.
  struct Access {
    size_t orbit;
    int64_t owner;
    uint32_t buffer;
    bool isWrite, isPut;
    Entry entry;           // that it leaves in cells
    Entry settled[2] = {}; // a read and a write that it was found to follow, as most chunks of a step have the same
  };
  Access accessOf(size_t orbit, int64_t owner, uint32_t buffer, bool isWrite, bool isPut) const;
  size_t firstOfTurn(uint32_t buffer, int32_t part) const;
  size_t packetNumber(int64_t owner, uint32_t buffer, int64_t chunk, int32_t part) const;
  template <typename Place> Place &placeOf(std::vector<Place> &places, uint32_t buffer, size_t number);
  Cell &cellOf(int64_t owner, uint32_t buffer, int64_t chunk, int32_t part);
  Packet &packetOf(int64_t owner, uint32_t buffer, int64_t chunk, int32_t part);
  /// The cells of chunks of one owner.
  struct Cells {
    Cell *first;
    size_t stride;
    Cell &operator[](int32_t place) const { return first[size_t(place) * stride]; }
  };
  Cells findChunks(const Trace &trace, const Box &box, int64_t owner, int32_t part, std::vector<int32_t> &chunks,
                   std::vector<int32_t> &places);
  bool isPackets(uint32_t buffer) const { return tracer.program().buffers[buffer].role == BufferRole::Packets; }
  std::shared_ptr<const SharedClock> shareClock(RankState &state);
  void access(Access &access, int64_t chunk, Cell &cell);
  Entry *readOf(Cell &cell, int32_t rank);
  void addRead(Cell &cell, const Entry &read);
  enum class Order { Settled, HiddenByTransport, None };
  Order orderOf(const Entry &entry, bool isWrite, size_t orbit, int64_t owner) const;
  void report(const Entry &entry, const Access &access, int64_t chunk, bool isEntryWrite, Order order);
  bool leavesSlot(const Event &event) const;
  Contents::Id leaveSlot(const Event &event, Contents::Id content, int64_t chunk);
  void checkOverlap(size_t orbit, const Event &event);
  void checkOutput(size_t orbit, int64_t call);
  Terms::Detail detailOfTerms(int64_t mostRanksInFull) const;
  void convert(const Event &event, int64_t sourceOwner, int64_t destinationOwner);
  const Cell &outputCell(int64_t rank, int64_t chunk);
  class OrderFinder; // Bits.cpp
  void decideBits();
  std::optional<OtherBits> findOtherBits();
  OtherBits describeOtherBits(int64_t rank, int64_t base, int64_t chunk);
  void findLosses();

  const Tracer &tracer;
  const TracedGroup &traced;
  const RankGroup &group;
  const CheckOptions &options;
  const int64_t calls;
  bool usesTicks = true;
  uint32_t ticksPerCall = 0;
  int64_t currentCall = 0; // that the step at hand belongs to
  GroupMoves moves;
  const BufferCodecs codecs;
  const Terms::Detail detail;
  const ChunkRuns chunkRuns;
  Contents contents;
  std::vector<RankState> states;  // by orbit
  std::vector<size_t> numEntered; // representatives that came to their `enter`, by call
  std::vector<Clock> enterClocks; // by call: when all ranks came to their `enter`
  llvm::DenseMap<const Cell *, llvm::DenseMap<int32_t, uint32_t>> readPlaces; // of cells with many reads, by rank
  std::vector<int32_t> sourceChunks, destinationChunks;                       // of the move at hand
  std::vector<int32_t> sourcePlaces, destinationPlaces;                       // numbers on the owner's representative
  std::vector<Contents::Id> movedContents;
  int64_t clockBytes = 0;     // of shared clocks that are alive
  int64_t mostClockBytes = 0; // at any time
  int64_t cellBytes = 0;
  int64_t work = 0; // steps, chunks, and pieces of clocks
  int64_t numSteps = 0;
  bool hasLostPackets = false;                                      // that others took the place of
  llvm::DenseMap<std::pair<uint64_t, uint64_t>, size_t> conflictOf; // by the two ops
  VectorClockResult result;
};

} // namespace kolo
