// The steps of all thread blocks as the simulator runs them. Used by BlockTimes. No MLIR.
#pragma once

#include "compiler/cost/machine/Machine.h"
#include "compiler/cost/simulation/Workload.h"
#include "compiler/import/Schedule.h"

namespace kolo::cost {

/// How the interpreter cuts what its steps move.
struct MessageCut {
  double pieceBytes = 0;      // of every chunk: all steps are run for one piece after the other
  int64_t numPieces = 1;      // of every chunk
  int32_t chunksPerWrite = 1; // of a step, in one message
  /// The slices of a message, by their bytes: its receiver may read one as soon as it has come.
  std::vector<int64_t> slices(double messageBytes) const;
  Protocol protocol = Protocol::Bulk;
};

/// Of chunks of so many bytes.
MessageCut cutMessages(const foreign::ForeignSchedule &schedule, double chunkBytes);

/// LL, LL128, or Bulk for Simple.
Protocol protocolOf(const foreign::ForeignSchedule &schedule);

/// Thread blocks are the workload's ranks, and lines of the file its statements, from 1 on in the order of `lines`.
struct BlockWorkload {
  Workload workload;
  std::vector<int32_t> lines;
  int64_t numSteps = 0; // of all blocks
};

/// With the first pieces of every chunk. `laneShare`: what a lane moves of messages, beside what it moves in its own
/// memory.
BlockWorkload makeWorkload(const foreign::ForeignSchedule &schedule, const MessageCut &cut, int64_t numPieces,
                           double laneShare);

} // namespace kolo::cost
