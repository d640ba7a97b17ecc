// The oracle of the checker's tests: as VectorClockRun, with plain vector clocks of all ranks and bit vectors for sets
// of ranks. Nothing is held as runs, and nothing is shared.
//
// A semaphore has one sender and one receiver and is never reset, so the k-th wait belongs to the k-th signal in every
// interleaving. The order of events is therefore the same in all of them, and one run decides about all.
#pragma once

#include "compiler/check/VectorClockRun.h"
#include "tests/mutation/oracle/DenseContents.h"

#include <memory>

namespace kolo::oracle {

class DenseRun {
public:
  DenseRun(const Tracer &tracer, const TracedGroup &traced, const CheckOptions &options);
  ~DenseRun();
  VectorClockResult run();

  uint32_t stepsPerCall(size_t orbit) const { return uint32_t(traced.traces[orbit].events.size()) + 2; }
  /// Calls use two published buffers, and two packet buffers, in turn: call 2 meets what call 0 left.
  static int64_t numCalls(const Tracer &tracer) {
    return tracer.bufferOf(BufferRole::Published) || tracer.bufferOf(BufferRole::Packets) ? 3 : 2;
  }

private:
  using Clock = std::vector<uint32_t>; // of every rank, how many of its steps are known to be over
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
    std::vector<uint32_t> times;
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
    int32_t rank = -1; // -1: none
    uint32_t time : 31 = 0;
    uint32_t isPut : 1 = 0;
  };
  struct Cell {
    Entry lastWrite;
    llvm::SmallVector<Entry, 1> reads; // since the last write
    DenseContents::Id content = DenseContents::undefined;
  };
  struct RankState {
    Clock clock;
    std::shared_ptr<const SharedClock> shared; // a copy, as long as it is up to date
    uint32_t time = 0;
    size_t numFlushed = 0; // of `putTimes`
    std::vector<uint32_t> putTimes;
    llvm::DenseMap<uint32_t, PutState> puts;               // by time
    llvm::DenseMap<int32_t, PutQueue> putQueues;           // by peer
    llvm::DenseMap<uint64_t, std::vector<Signal>> signals; // by semaphore and peer
    llvm::DenseMap<uint64_t, uint32_t> numWaited;          // by semaphore and peer
    std::vector<uint32_t> enterTimes;                      // by call: when it came to its `enter`
    std::vector<std::vector<Cell>> cells;                  // [buffer][chunk and part, in every turn]
    std::vector<std::vector<Packet>> packets;              // likewise; empty for other buffers
  };

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
  void join(Clock &clock, const Signal &signal, int64_t sender);
  void arrive(size_t senderOrbit, int64_t target, uint32_t numPuts, uint32_t time);

  struct Access {
    size_t orbit;
    int64_t owner;
    uint32_t buffer;
    bool isWrite, isPut;
  };
  size_t packetNumber(int64_t owner, uint32_t buffer, int64_t chunk, int32_t part) const;
  Cell &cellOf(int64_t owner, uint32_t buffer, int64_t chunk, int32_t part) {
    return states[group.orbitOf(owner)].cells[buffer][packetNumber(owner, buffer, chunk, part)];
  }
  Packet &packetOf(int64_t owner, uint32_t buffer, int64_t chunk, int32_t part) {
    return states[group.orbitOf(owner)].packets[buffer][packetNumber(owner, buffer, chunk, part)];
  }
  bool isPackets(uint32_t buffer) const { return tracer.program().buffers[buffer].role == BufferRole::Packets; }
  std::shared_ptr<const SharedClock> shareClock(RankState &state);
  void access(const Access &access, int64_t chunk, Cell &cell);
  enum class Order { Settled, HiddenByTransport, None };
  Order orderOf(const Entry &entry, bool isWrite, size_t orbit, int64_t owner) const;
  void report(const Entry &entry, const Access &access, int64_t chunk, bool isEntryWrite, Order order);
  bool leavesSlot(const Event &event) const;
  DenseContents::Id leaveSlot(const Event &event, DenseContents::Id content, int64_t chunk);
  void checkOverlap(size_t orbit, const Event &event);
  void checkOutput(size_t orbit, int64_t call);
  /// The order in which contributions were combined takes a tree per chunk, so it is followed on few ranks only.
  bool tracksOrder() const { return tracer.numRanks() <= 64; }
  bool agreeBitwise();
  llvm::BitVector groupMembers(int64_t rank) const;

  const Tracer &tracer;
  const TracedGroup &traced;
  const RankGroup &group;
  const CheckOptions &options;
  const int64_t calls;
  int64_t currentCall = 0; // that the step at hand belongs to
  DenseContents contents;
  std::vector<RankState> states;                                    // by orbit
  std::vector<int32_t> sourceChunks, destinationChunks;             // of the move at hand
  int64_t clockBytes = 0;                                           // of shared clocks that are alive
  bool hasLostPackets = false;                                      // that others took the place of
  llvm::DenseMap<std::pair<uint64_t, uint64_t>, size_t> conflictOf; // by the two ops
  VectorClockResult result;
};

} // namespace kolo::oracle
