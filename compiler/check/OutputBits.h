// OutputBits: the bits of a run's outputs: what codecs did to them, and whether ranks that get the same output get the
// same bits. Used by VectorClockRun, where a program is right.
#pragma once

#include "compiler/check/ChunkAccesses.h"

namespace kolo {

/// How much of a run's contents terms must tell apart. Terms in full take a tree per chunk and rank. Beyond
/// `mostRanksInFull` ranks that is done only if the origins of outputs differ.
Terms::Detail detailOfTerms(const Tracer &tracer, const CheckOptions &options, const BufferCodecs &codecs,
                            int64_t mostRanksInFull);

class OutputBits {
public:
  OutputBits(const Tracer &tracer, const RankGroup &ranks, const ChunkRuns &runs, const BufferCodecs &codecs,
             Contents &contents, ChunkAccesses &accesses)
      : tracer(tracer), group(ranks), chunkRuns(runs), codecs(codecs), contents(contents), accesses(accesses) {}

  /// Enters whether ranks agree, as far as terms of this detail decide that.
  void decide(Terms::Detail detail, VectorClockResult &result);
  /// Enters what codecs lose.
  void findLosses(VectorClockResult &result);

private:
  std::optional<OtherBits> findOtherBits();
  OtherBits describeOtherBits(int64_t rank, int64_t base, int64_t chunk);

  const Tracer &tracer;
  const RankGroup &group;
  const ChunkRuns &chunkRuns;
  const BufferCodecs &codecs;
  Contents &contents;
  ChunkAccesses &accesses;
};

} // namespace kolo
