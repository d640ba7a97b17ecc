// The closed form: what a program costs on a machine, from its choreography, without running it step by step. Used by
// `kolo cost` and by exploration. README.md of this folder says what is counted.
//
// Every load is a share of the call's bytes, so it is found once and holds for all sizes. The time of a statement is
//   latency of its worst message + largest over resources of (load / bandwidth)
// times its executions. Variants of a stripe run at the same time: their latencies count once, and their loads add up
// on each resource.
//
// In a pipeline of D slices, one slice goes through all phases. Then D - 1 slices follow. Each takes the largest of:
// - the largest total load of all phases / bandwidth;
// - the time in which ranks only wait, or read;
// - the time until what a phase puts last has arrived. A rank waits for it one round later.
//
// In a pipeline, rounds of a loop may overlap: those in which no device of a node sends what an earlier round brought.
// Together they take
//   the worst of their latencies + largest over resources of (total load / bandwidth).
// Without a pipeline, ranks of a node wait in every round for what it brings them: see RankChains.
#pragma once

#include "compiler/cost/Prediction.h"

#include <memory>
#include <set>

namespace kolo {
class ChoreographyOp;
class ProgramOp;

namespace cost {

/// What only the channel program shows; to know it costs an inference of synchronisation. Statements are known by their
/// locations, as mlir::Location's opaque pointers, so choreography and program are of one context.
struct ProgramFacts {
  /// The statements of a `fuse`: what moves into the slice that they have in common, and out of it.
  struct Fused {
    std::set<const void *> into, outOf;
  };

  std::set<const void *> waitsAtEntry; // statements whose ranks first wait for credits of their peers
  bool entersTogether = false;         // every rank first waits for all others
  std::vector<Fused> fused;
  static ProgramFacts of(ProgramOp program);
};

class ClosedForm {
public:
  /// `choreography`: as buildChoreographyPipeline leaves it; its own meshes do not matter, the placement's does. Time
  /// and memory do not grow with the ranks where relations, slices and conditions are alike for all of them. Else the
  /// ranks that differ are looked at one by one; what needs more than `mostMoves` of them is refused.
  /// `lanes`: of every rank; 0: as many as it takes. The root is rank 0 of its group. Without `facts` no statements are
  /// fused, and the prediction has a row for the entry only if the schedule says that ranks enter together. The machine
  /// must outlive the result. `elementBytes`: of the call; matters to programs with codecs only.
  static std::variant<ClosedForm, CostMistake> create(ChoreographyOp choreography, const ResolvedSchedule &schedule,
                                                      const Machine &machine, const Placement &placement, Rates rates,
                                                      int64_t lanes, const ProgramFacts *facts = nullptr,
                                                      int64_t elementBytes = defaultElementBytes);
  ClosedForm(ClosedForm &&) noexcept;
  ClosedForm &operator=(ClosedForm &&) noexcept;
  ~ClosedForm();

  /// As `create` gives it for another depth of a pipeline; both are more than 1.
  void setPipelineDepth(int64_t depth);

  /// `bytes`: as LowerBound counts; at least 0. Takes microseconds.
  Prediction predict(int64_t bytes) const;
  /// `predict(bytes).seconds`, without the rest: for search.
  double seconds(int64_t bytes) const;

  static constexpr int64_t mostMoves = int64_t(1) << 26;

  struct Terms; // private to ClosedForm.cpp

private:
  ClosedForm() = default;
  const Terms &termsFor(int64_t bytes) const;

  double workingSet = 0;                     // as a share of the call's bytes
  std::vector<std::unique_ptr<Terms>> terms; // by growing working set: a host's caches are faster than its memory
};

} // namespace cost
} // namespace kolo
