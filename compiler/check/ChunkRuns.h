// Chunks that every step of every rank accesses together, in their order: one of them stands for all. Used by
// VectorClockRun, so that a slice of many chunks takes the time of one.
#pragma once

#include "compiler/check/Terms.h"
#include "compiler/model/RankGroup.h"

namespace kolo {

/// Cuts the chunks of every buffer, in row-major order, into runs. No slice contains a part of a run, and a move takes
/// every run of its source to one run of its destination. So the chunks of a run have equal accesses, and contents that
/// differ by their places in the run alone. Where chunks are translated, stored by codecs or in slots, or where outputs
/// are not input chunks of the same number, every chunk is a run.
class ChunkRuns {
public:
  ChunkRuns(const Tracer &tracer, const TracedGroup &traced, const BufferCodecs &codecs);

  int64_t count(uint32_t buffer) const;
  /// False: every chunk is a run, and has its number.
  bool hasLongRuns(uint32_t buffer) const { return !starts[buffer].empty(); }
  /// Number of the run that begins with this chunk.
  int64_t numberOf(uint32_t buffer, int64_t first) const;
  /// The chunk that the next run begins with, or the number of chunks.
  int64_t next(uint32_t buffer, int64_t first) const;
  /// As expandBox, of the first chunks of all runs in the box.
  void expand(const Trace &trace, const Box &box, std::vector<int32_t> &firsts) const;

private:
  const Tracer &tracer;
  std::vector<std::vector<int32_t>> starts; // of the runs, ascending, by buffer; empty: every chunk is a run
};

} // namespace kolo
