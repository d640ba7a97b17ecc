// BlockFlow: what every rank moves in a call with block tables. Follows all ranks through one call without time, since
// a rank may take the length of a chunk from a note that came with the chunk. Used by Simulation.
#pragma once

#include "compiler/model/BlockCounts.h"
#include "compiler/model/ChunkSizes.h"
#include "compiler/model/RankGroup.h"
#include "ir/BlockTables.h"

#include <map>
#include <set>

namespace kolo::cost {

class BlockFlow {
public:
  /// Of a program that takes block tables.
  BlockFlow(const Tracer &tracer, const TracedGroup &traced, const BlockCounts &counts, const CallSize &call);

  /// Elements that a rank moves in an event of its representative.
  int64_t elements(int64_t rank, size_t event) const { return moved[size_t(rank)][event]; }

private:
  /// One side of a move: the rank whose memory it is, and its chunks there, of a buffer.
  struct Side {
    uint32_t buffer;
    int64_t owner;
    std::vector<int32_t> chunks;
  };
  bool advance(int64_t rank);
  int64_t move(int64_t rank, const Trace &trace, const Event &event);
  Side sideOf(int64_t rank, const Trace &trace, const Event &event, MoveSide side) const;
  int64_t &noteOf(const Side &side, size_t chunk, int32_t part);

  const Tracer &tracer;
  const TracedGroup &traced;
  const BlockCounts &counts;
  const CallSize call;
  std::vector<std::optional<Measure>> measures;      // by op; nothing: it moves nothing
  std::vector<std::vector<int64_t>> notes;           // by buffer: [rank][chunk][part], of the block that it lies in
  std::vector<std::vector<int64_t>> moved;           // by rank and event
  std::map<std::array<int64_t, 3>, int64_t> signals; // not waited for yet, by semaphore, sender and receiver
  std::set<int64_t> entered; // ranks that have published what others read behind kolo.chan.enter
};

} // namespace kolo::cost
