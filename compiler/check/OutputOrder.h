// OutputOrder: the order in which a run's outputs were summed, and whether it depends on the size. Used by
// VectorClockRun, where a program is right.
#pragma once

#include "compiler/check/ChunkAccesses.h"

namespace kolo {

class OutputOrder {
public:
  /// Terms of this detail.
  OutputOrder(const Tracer &tracer, const RankGroup &ranks, const ChunkRuns &runs, const BufferCodecs &codecs,
              Terms::Detail detail, Contents &contents, ChunkAccesses &accesses)
      : tracer(tracer), group(ranks), chunkRuns(runs), codecs(codecs), detail(detail), contents(contents),
        accesses(accesses), output(tracer.bufferOf(BufferRole::Output)) {}

  /// Looks whether all chunks of an output's block are summed in one order, and enters that of the first ones, or the
  /// chunk that differs. Representatives stand for their orbits: a translation of ranks turns equal terms into equal
  /// ones. `result` has been told whether ranks agree.
  void decide(VectorClockResult &result);

private:
  SumOrder find(VectorClockResult &result);
  bool isSummed() const;
  bool areChunksAlike(int64_t rank, VectorClockResult &result);
  void compare(int64_t rank, int64_t first, int64_t chunk, VectorClockResult &result);

  const Tracer &tracer;
  const RankGroup &group;
  const ChunkRuns &chunkRuns;
  const BufferCodecs &codecs;
  const Terms::Detail detail;
  Contents &contents;
  ChunkAccesses &accesses;
  const std::optional<uint32_t> output;
  std::string difference;
};

} // namespace kolo
