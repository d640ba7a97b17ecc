// Finds the ranks of a mesh of one dimension that move alike, without looking at all of them. Private to the closed
// form.
#pragma once

#include "compiler/cost/closedform/StatementMoves.h"

namespace kolo::cost {

/// A rooted tree's ranks are alike by the remainder of their distance from the root, and by whether they have a child
/// that the mesh still has. So progressions of ranks are cut in two, by remainders or in the middle, until bounds of
/// the index arithmetic say of each whether it moves, and how much.
class StatementMoves::AlikeRanks {
public:
  /// All arithmetic around the statement being executed, and the amounts of `moves.steps` being known.
  AlikeRanks(StatementMoves &of, IndexEvaluator &evaluator, Moves &moves)
      : of(of), evaluator(evaluator), moves(moves), size(evaluator.mesh()[0]),
        ranges(evaluator, of.body->getArgument(0), {}), decides(of.condition ? of.condition.getDefiningOp() : nullptr) {
    for (mlir::Operation *op : of.ofArguments)
      if (const IndexEvaluator::Instruction *instruction = evaluator.instructionOf(op))
        arithmetic.push_back(instruction);
  }

  /// Fills `moves.alike`. Takes what it looks at from `budget`, which may become negative. False, and nothing is
  /// filled, where ranks are too different, or their number of chunks depends on the receiver. Fails with a diagnostic.
  mlir::FailureOr<bool> find(double chunkShare, int64_t &budget);

private:
  /// What is known of some ranks; nothing: too little.
  struct Known {
    bool moves;
    double chunks;
  };
  mlir::FailureOr<std::optional<Known>> lookAt(const Progression &ranks, int64_t &cut);
  mlir::FailureOr<Known> execute(int64_t rank);
  bool add(const Progression &ranks, double share);

  StatementMoves &of;
  IndexEvaluator &evaluator;
  Moves &moves;
  int64_t size;
  IndexRanges ranges;
  mlir::Operation *decides;                                              // gives the condition
  llvm::SmallVector<const IndexEvaluator::Instruction *, 32> arithmetic; // that depends on the ends of a move
};

} // namespace kolo::cost
