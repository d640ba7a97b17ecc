// ChunkCells: for every chunk of one rank of every orbit, who accessed it last and what it holds. Used by the checker
// of channel programs.
#pragma once

#include "compiler/check/ChunkRuns.h"
#include "compiler/check/Contents.h"
#include "compiler/check/EventOrder.h"

namespace kolo {

class ChunkCells {
public:
  struct Cell {
    AccessEntry lastWrite;
    llvm::SmallVector<AccessEntry, 1> reads;         // since the last write
    Contents::Id content : 63 = Contents::undefined; // chunks are numbered in 31 bits
    Contents::Id hasOrderedReads : 1 = true;         // by puts none, and by ever higher ranks
  };
  /// What a chunk of packets carries beside its content: the clock of its sender, as the owner sees that rank.
  struct Packet {
    EventOrder::ClockPointer clock; // null: none was put yet
    int32_t rank = -1;
    uint32_t time = 0;
    int64_t call = -1;
    bool isRead = false;
  };
  /// The cells of chunks of one owner, by their numbers on the owner's representative.
  struct OfOwner {
    Cell *first;
    size_t stride;
    Cell &operator[](int32_t place) const { return first[size_t(place) * stride]; }
  };

  ChunkCells(const Tracer &tracer, const TracedGroup &traced, const ChunkRuns &chunkRuns);
  /// The least bytes that the cells of all chunks take.
  static double leastBytes(const Tracer &tracer, size_t numOrbits);
  /// Calls use two published buffers, and two packet buffers, in turn: call 2 meets what call 0 left.
  static int64_t numTurns(BufferRole role) {
    return role == BufferRole::Published || role == BufferRole::Packets ? 2 : 1;
  }

  /// What follows belongs to this call.
  void setCall(int64_t number) { call = number; }
  Cell &cellOf(int64_t owner, uint32_t buffer, int64_t chunk, int32_t part);
  Packet &packetOf(int64_t owner, uint32_t buffer, int64_t chunk, int32_t part);
  /// The chunks in a box, and their places.
  OfOwner find(const Trace &trace, const Box &box, int64_t owner, int32_t part, std::vector<int32_t> &chunks,
               std::vector<int32_t> &places);

  /// A later read of the same rank comes after the earlier one, and takes its place.
  void addRead(Cell &cell, const AccessEntry &read);
  /// The reads before it no longer count.
  void setWrite(Cell &cell, const AccessEntry &write);

  int64_t bytes() const { return numBytes; }

private:
  /// [buffer][run of chunks and part, in every turn]; empty until a step touches the buffer
  struct RankCells {
    std::vector<std::vector<Cell>> cells;
    std::vector<std::vector<Packet>> packets;
  };
  size_t firstOfTurn(uint32_t buffer, int32_t part) const;
  size_t placeOf(int64_t owner, uint32_t buffer, int64_t chunk, int32_t part) const;
  template <typename Place> Place &at(std::vector<Place> &places, uint32_t buffer, size_t number);
  AccessEntry *readOf(Cell &cell, int32_t rank);

  const Tracer &tracer;
  const RankGroup &group;
  const ChunkRuns &chunkRuns;
  std::vector<RankCells> ranks; // by orbit
  int64_t call = 0;
  llvm::DenseMap<const Cell *, llvm::DenseMap<int32_t, uint32_t>> readPlaces; // of cells with many reads, by rank
  int64_t numBytes = 0;
};

} // namespace kolo
