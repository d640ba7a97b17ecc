// From a statement of a choreography to its moves on one mesh. Private to the closed form.
#pragma once

#include "compiler/cost/closedform/IndexRanges.h"
#include "compiler/cost/closedform/Loads.h"
#include "compiler/model/IndexEvaluator.h"

#include "llvm/ADT/SetVector.h"

#include <array>

namespace kolo::cost {

/// A slice of a rank's buffer: offsets, sizes and extents by grid dimension; offsets and ranges wrap around.
struct Access {
  int64_t rank; // as EnumeratedMoves says it
  mlir::Value buffer;
  llvm::SmallVector<std::array<int64_t, 3>, 4> dims;
};
struct Accesses {
  std::vector<Access> read, written;
};

/// Whether some slice of the one has a chunk in common with some slice of the other.
bool overlap(llvm::ArrayRef<Access> some, llvm::ArrayRef<Access> others);

/// A statement, and what its moves depend on. Where a chunk lies does not matter for loads, how many there are does.
class StatementMoves {
public:
  StatementMoves(StatementInterface statement, size_t numDims);

  /// Whether the number of chunks, or whether there is a move at all, depends on a coordinate, of either end.
  bool dependsOn(size_t dim) const { return ofSender[dim] || ofReceiver[dim]; }
  /// The loop indices that moves depend on.
  llvm::ArrayRef<mlir::Value> indices() const { return loopIndices.getArrayRef(); }
  /// The relation's steps, without their amounts.
  const std::vector<DimStep> &steps() const { return stepKinds; }
  /// Whether the ranks have to be told apart along some dimension.
  bool isEnumerated(const LoadModel &model) const;

  /// Whether ranks are told apart among the devices of a node alone, and all moves are in nodes.
  bool staysInNode(const LoadModel &model) const;

  /// Whether the moves are the same for all indices of a range, all arithmetic around the statement being executed. Not
  /// for a statement whose ranks have to be told apart.
  bool isAlike(IndexRanges &ranges);

  /// The moves of one execution, all arithmetic around the statement being executed. `blocks`: of the larger of one
  /// rank's buffers. Takes the number of enumerated moves from `budget`. Fails with a diagnostic.
  mlir::FailureOr<Moves> evaluate(IndexEvaluator &evaluator, const LoadModel &model, const Placement &placement,
                                  double blocks, int64_t &budget);

  /// What enumerated moves read and write; of a statement that stays in its nodes. After `evaluate`.
  mlir::FailureOr<Accesses> accesses(IndexEvaluator &evaluator, const Placement &placement, const Moves &moves);

private:
  class Enumeration;
  class AlikeRanks; // AlikeRanks.cpp
  mlir::LogicalResult readSteps(IndexEvaluator &evaluator, std::vector<DimStep> &steps);
  mlir::LogicalResult refuseStep(const DimStep &step, size_t dim, int64_t size);
  double chunkShare(IndexEvaluator &evaluator, double blocks);
  bool executeBody(IndexEvaluator &evaluator, bool &isFailed, double &chunks);

  StatementInterface statement;
  mlir::Block *body;
  mlir::Value measured; // the buffer whose chunks say how long a move is
  mlir::OperandRange sizes;
  mlir::Value condition;
  std::vector<DimStep> stepKinds;
  std::vector<bool> ofSender, ofReceiver;
  std::vector<mlir::Operation *> ofArguments; // ops of the body that use its arguments
  llvm::SetVector<mlir::Value> loopIndices;
};

/// The loop indices and coordinates that a value is computed from.
void collectArguments(mlir::Value value, llvm::SetVector<mlir::Value> &arguments);

} // namespace kolo::cost
