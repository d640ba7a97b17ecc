// ChunkAccesses: what the steps of a run do to chunks. Finds accesses that no rule orders, and wrong outputs. Used by
// VectorClockRun.
#pragma once

#include "compiler/check/BlockLengths.h"
#include "compiler/check/ChunkCells.h"
#include "compiler/check/VectorClockResult.h"

namespace kolo {

class ChunkAccesses {
public:
  /// Adds conflicts, a wrong output, and what speaks against block tables to `found`.
  ChunkAccesses(const Tracer &tracer, const TracedGroup &traced, const ChunkRuns &chunkRuns, EventOrder &order,
                Contents &contents, const BufferCodecs &codecs, bool followsLengths, VectorClockResult &found);

  /// The steps that follow belong to this call.
  void setCall(int64_t number);
  /// The application has written its input and spoilt its output.
  void startCall(size_t orbit);
  /// The application reads its output, and may overwrite its buffers from then on. `rows`: of all ranks.
  void endCall(size_t orbit, const RankRows &rows);
  void move(size_t orbit, const Event &event);
  void divide(size_t orbit, const Event &event);
  /// Of a move out of packets, before it: reads them once all packets of a chunk were put in this call. Until then the
  /// rank waits; then this is false.
  bool receivePackets(size_t orbit, const Event &event);
  bool isPackets(uint32_t buffer) const { return tracer.program().buffers[buffer].role == BufferRole::Packets; }

  /// Others took the place of packets that were not read.
  bool hasLostPackets() const { return hasLost; }
  /// Of chunks that were looked at.
  int64_t work() const { return numLooks; }
  int64_t bytes() const { return cells.bytes(); }
  /// Of an output, as it is now.
  const ChunkCells::Cell &outputCell(int64_t rank, int64_t chunk, int32_t part = 0);

private:
  using Cell = ChunkCells::Cell;
  /// One side of a step, which accesses several chunks.
  struct Access {
    size_t orbit;
    int64_t owner;
    uint32_t buffer;
    bool isWrite, isPut;
    AccessEntry entry; // that it leaves in cells
    AccessEntry settled[2] =
        {}; // a read and a write that it was found to follow, as most chunks of a step have the same
  };
  /// What the move at hand moves. Places are numbers on the owner's representative.
  struct Moved {
    std::vector<int32_t> sources, destinations, sourcePlaces, destinationPlaces;
    std::vector<Contents::Id> contents;
  };
  Access accessOf(size_t orbit, int64_t owner, uint32_t buffer, bool isWrite, bool isPut) const {
    return {orbit, owner, buffer, isWrite, isPut, order.entryOf(orbit, owner, isPut)};
  }
  void access(Access &access, int64_t chunk, Cell &cell);
  void check(Access &access, int64_t chunk, const AccessEntry &earlier, bool isWrite);
  void report(const AccessEntry &entry, const Access &access, int64_t chunk, bool isEntryWrite,
              EventOrder::Order ordering);
  uint64_t stepOf(const Moment &moment) const;
  void checkOverlap(size_t orbit, const Event &event);
  void checkOutput(int64_t rank, int64_t chunk, Contents::Id held, const RankSet &combined);
  void sendPacket(const Event &event, size_t orbit, int32_t chunk);
  bool leavesSlot(const Event &event) const;
  Contents::Id leaveSlot(const Event &event, Contents::Id content, int64_t chunk);
  void store(const Event &event, int64_t sourceOwner, int64_t destinationOwner);

  const Tracer &tracer;
  const TracedGroup &traced;
  const RankGroup &group;
  const ChunkRuns &chunkRuns;
  EventOrder &order;
  Contents &contents;
  const BufferCodecs &codecs;
  VectorClockResult &result;
  ChunkCells cells;
  BlockLengths lengths;
  Moved moved;
  int64_t currentCall = 0;
  int64_t numLooks = 0;
  bool hasLost = false;
  llvm::DenseMap<std::pair<uint64_t, uint64_t>, size_t> conflictOf; // by the two ops
};

} // namespace kolo
