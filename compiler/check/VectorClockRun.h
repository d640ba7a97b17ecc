// Follows one rank of every orbit through a few calls, back to back, with vector clocks. Finds which event comes before
// which in every interleaving, and what every chunk holds. Used by the checker.
#pragma once

#include "compiler/check/ChunkAccesses.h"
#include "compiler/check/ChunkRuns.h"
#include "compiler/check/Contents.h"
#include "compiler/check/EventOrder.h"
#include "compiler/check/VectorClockResult.h"

namespace kolo {

class VectorClockRun {
public:
  /// Whether plain clocks of all ranks and the chunks take more than the options allow: see prefersSmallMeshes.
  static bool isTooLarge(const Tracer &tracer, const TracedGroup &traced, const CheckOptions &options);
  /// Beyond `mostRanksInFull` ranks, terms tell origins apart: see Terms.
  VectorClockRun(const Tracer &tracer, const TracedGroup &traced, const CheckOptions &options,
                 int64_t mostRanksInFull = 64);
  VectorClockResult run();

private:
  /// See ChunkCells::numTurns.
  static int64_t numCalls(const Tracer &tracer) {
    return tracer.bufferOf(BufferRole::Published) || tracer.bufferOf(BufferRole::Packets) ? 3 : 2;
  }
  bool advance(size_t orbit);
  bool step(size_t orbit);
  bool takeEvent(size_t orbit, const Event &event, int64_t call);
  bool isBeyondLimits();
  bool isRefuted() const {
    return options.endsAtRefutation && (!result.conflicts.empty() || result.wrongOutput.has_value());
  }
  void endEarly(size_t orbit);
  double shareOfLimits() const;
  void findBlocked();
  int64_t work() const { return order.work() + accesses.work() + numSteps * workOfStep + predictedWork; }
  int64_t workOfApplications() const;
  /// A step takes as long as the joining of so many runs of clocks.
  static constexpr int64_t workOfStep = 12;
  int64_t workOfSteps() const;

  const Tracer &tracer;
  const TracedGroup &traced;
  const CheckOptions &options;
  const int64_t calls;
  VectorClockResult result;
  GroupMoves moves;
  const BufferCodecs codecs;
  const Terms::Detail detail;
  const ChunkRuns chunkRuns;
  Contents contents;
  EventOrder order;
  ChunkAccesses accesses;
  int64_t mostClockBytes = 0; // at any time
  int64_t predictedWork = 0;  // of a run that is too large to begin
  int64_t numSteps = 0;
};

} // namespace kolo
