// Proves a pipeline with any number of slices from a proof with few of them. Used by the checker; README.md has the
// argument.
#pragma once

#include "compiler/model/RankGroup.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/OwningOpRef.h"

namespace kolo {

/// A loop over rounds: in round t, phase p moves slice t - p of every chunk, and nothing else depends on the round.
class SlicePipeline {
public:
  /// Nothing if the program has no such loop, or moves parts of chunks elsewhere too.
  static std::optional<SlicePipeline> find(ProgramOp program);

  int64_t numSlices() const { return slices; }
  /// Slices of a proof that stands for all larger numbers: as many as there are phases, and two at least, so that
  /// moves of whole chunks still differ from moves of slices.
  int64_t fewSlices() const { return std::max<int64_t>(phases, 2); }
  /// Changes the program.
  void setNumSlices(int64_t number);

  bool isRounds(mlir::scf::ForOp loop) const { return rounds == loop; }
  /// The phase that takes a step; nothing outside of the loop over rounds.
  std::optional<int64_t> phaseAt(mlir::Operation *op) const {
    auto found = phaseOf.find(op);
    return found == phaseOf.end() ? std::nullopt : std::optional(found->second);
  }

  /// Whether all slices take the same steps, and each signal is waited for with its own slice, in no earlier phase.
  bool areSlicesAlike(const Tracer &tracer, const TracedGroup &traced) const;

private:
  friend class PipelineFinder;
  struct SlicePhase {
    int64_t phase = -1, slice = 0; // phase -1: outside of the loop
    bool operator==(const SlicePhase &) const = default;
  };
  std::optional<std::vector<SlicePhase>> findPhases(const Tracer &tracer, const Trace &trace) const;

  mlir::scf::ForOp rounds;
  int64_t slices = 0, phases = 0;
  llvm::SmallVector<mlir::OpOperand *> numbersOfSlices; // operands that are the number of slices
  llvm::DenseMap<mlir::Operation *, int64_t> phaseOf;   // of every step in the loop
};

} // namespace kolo
