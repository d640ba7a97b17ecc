// The closed form: what a program costs on a machine, from its choreography, without running it step by step. Used by
// `kolo cost` and by exploration. README.md of this folder says what is counted.
//
// Every load is a share of the call's bytes, so it is found once and holds for all sizes. The time of a statement is
//   latency of its worst message + largest over resources of (load / bandwidth)
// times its executions. Statements that run at the same time (`Overlap` below) add up their loads on each resource.
#pragma once

#include "compiler/cost/Prediction.h"

#include <memory>
#include <set>

namespace mlir {
class ModuleOp;
}

namespace kolo {
class ChoreographyOp;
class ProgramOp;

namespace cost {

/// A statement's place in its author's text: the choreography's statements and the program's ops share it.
struct Place {
  std::string file;
  unsigned line = 0, column = 0;
  auto operator<=>(const Place &) const = default;
};

/// What only the channel program shows. It costs an inference of synchronisation to know.
struct ProgramFacts {
  bool waitsAtEntry = false;          // for entry credits, or for all ranks to have entered
  std::vector<std::set<Place>> fused; // the statements of every `fuse`
  static ProgramFacts of(ProgramOp program);
};

/// Immutable.
class ClosedForm {
public:
  /// `choreography`: as buildChoreographyPipeline leaves it; its own meshes do not matter, the placement's does. Time
  /// and memory do not grow with the ranks where relations, slices and conditions are alike for all of them; else the
  /// ranks that differ are looked at one by one, and a program that needs more than `mostMoves` of these is refused.
  /// `lanes`: of every rank; 0: as many as it takes. Root: rank 0 of its group. Without `facts` the prediction has no
  /// row for the entry, and no statements are fused.
  static std::variant<ClosedForm, CostMistake> create(ChoreographyOp choreography, const ResolvedSchedule &schedule,
                                                      const Machine &machine, const Placement &placement, Rates rates,
                                                      int64_t lanes, const ProgramFacts *facts = nullptr);
  ClosedForm(ClosedForm &&) noexcept;
  ClosedForm &operator=(ClosedForm &&) noexcept;
  ~ClosedForm();

  /// `bytes`: as LowerBound counts; at least 0. Takes microseconds.
  Prediction predict(int64_t bytes) const;
  /// `predict(bytes).seconds`, without the rest: for search.
  double seconds(int64_t bytes) const;

  static constexpr int64_t mostMoves = int64_t(1) << 26;

private:
  struct Terms;
  explicit ClosedForm(std::unique_ptr<const Terms> terms);
  std::unique_ptr<const Terms> terms;
};

} // namespace cost
} // namespace kolo
