// A choreography's transfers on one mesh: which rank sends which chunks to which rank, in the order of the text.
#pragma once

#include "compiler/model/IndexEvaluator.h"

#include <memory>

namespace kolo {

/// A range of grid indices that starts at offset, modulo extent.
struct GridRange {
  int64_t offset, size, extent;
  bool operator==(const GridRange &) const = default;
};
/// Some chunks of one buffer on one rank: a wrapping range per grid dimension.
using GridBox = llvm::SmallVector<GridRange, 3>;

bool overlaps(const GridBox &a, const GridBox &b);

/// The mesh itself or, if it has more than `maxRanks` ranks, a smaller one of the same kind. Powers of two stay powers
/// of two, and a dimension keeps its size if a relation maps it by a table or if `findTabledDims` says so. Whoever uses
/// the smaller mesh records it, as in `checked` of kolo.choreography.
llvm::SmallVector<int64_t> representativeMesh(ChoreographyOp choreography, llvm::ArrayRef<int64_t> mesh,
                                              int64_t maxRanks);

/// The mesh dimensions on whose size or coordinates an index of kolo.lookup depends, in a program of either phase. A
/// table is made for their sizes.
llvm::SmallVector<bool> findTabledDims(mlir::Operation *program, CollectiveAttr collective, size_t numDims);

/// "node=2,gpu=4".
std::string describeMesh(ChoreographyOp choreography, llvm::ArrayRef<int64_t> mesh);

/// "[1, 3]": the indices of a chunk in a grid.
std::string describeIndices(llvm::ArrayRef<int64_t> grid, int64_t chunk);
/// "chunk [1, 3] of 'out'"; of a buffer that is not cut, "all of 'out'".
std::string describeChunk(llvm::ArrayRef<int64_t> grid, int64_t chunk, llvm::StringRef buffer);

/// Makes the largest dimension that may shrink smaller, in the same way. None shrinks below two, where nothing would
/// move along it. False when there is none.
bool shrinkMesh(llvm::MutableArrayRef<int64_t> mesh, llvm::ArrayRef<bool> mayShrink);

/// Ranks of the largest mesh on which all ranks are looked at. Rooted collectives take one run per root.
int64_t maxRanksInFull(CollectiveKind kind);

/// Number of roots that a collective can have on a mesh; 1 if it has none.
int64_t countRoots(CollectiveAttr collective, llvm::ArrayRef<int64_t> mesh);

/// The chunks that one rank sends to another in one execution of a statement.
struct ConcreteMove {
  int64_t sender, receiver; // rank numbers; the same for a local statement
  GridBox source, destination;
};

/// Runs through a choreography on the evaluator's mesh. Diagnostics carry the author's location; all functions fail
/// once one was emitted.
class Unfold {
public:
  explicit Unfold(IndexEvaluator &evaluator) : evaluator(evaluator) {}

  using Visitor = llvm::function_ref<mlir::LogicalResult(StatementInterface)>;
  using MoveVisitor = llvm::function_ref<mlir::LogicalResult(const ConcreteMove &)>;

  /// Calls `visit` for every execution of every statement, loops unrolled, indices set. However many there are: ask
  /// checkExecutions before.
  mlir::LogicalResult forEachExecution(ChoreographyOp choreography, Visitor visit);

  /// The moves of the statement that is being visited, for one sender.
  mlir::LogicalResult forEachMoveFrom(StatementInterface statement, int64_t sender, MoveVisitor visit);
  /// The moves of the statement that is being visited that end at one receiver.
  mlir::LogicalResult forEachMoveInto(StatementInterface statement, int64_t receiver, MoveVisitor visit);

private:
  using Coordinates = llvm::SmallVector<int64_t, 4>;
  struct BoxRegisters {
    llvm::SmallVector<unsigned, 3> offsets, sizes, extents;
  };
  /// What the moves of a statement are computed from, looked up once: registers of the evaluator.
  struct StatementCode {
    llvm::SmallVector<unsigned, 8> arguments;
    std::optional<unsigned> condition;
    BoxRegisters source, destination;
  };
  const StatementCode &codeOf(StatementInterface statement);
  BoxRegisters registersOf(mlir::Value buffer, mlir::OperandRange offsets, mlir::OperandRange sizes) const;
  GridBox valueOf(const BoxRegisters &registers) const;
  mlir::LogicalResult walkBlock(mlir::Block &block, Visitor visit);
  mlir::LogicalResult walkOp(mlir::Operation &op, Visitor visit);
  /// Coordinates reached along one dimension from `coordinate`: forwards to receivers, which may lie outside of the
  /// mesh, or backwards to the senders that there are.
  mlir::FailureOr<Coordinates> reach(TransferOp transfer, size_t dim, int64_t coordinate, bool backwards);
  mlir::LogicalResult forEachMove(StatementInterface statement, int64_t rank, bool backwards, MoveVisitor visit);
  mlir::LogicalResult evaluateMove(StatementInterface statement, const Coordinates &sender, const Coordinates &receiver,
                                   MoveVisitor visit);
  mlir::LogicalResult checkReceiver(StatementInterface statement, const Coordinates &sender,
                                    const Coordinates &receiver);
  Coordinates coordinatesOf(int64_t rank) const;
  int64_t rankOf(const Coordinates &coordinates) const;

  IndexEvaluator &evaluator;
  llvm::DenseMap<mlir::Operation *, std::unique_ptr<StatementCode>> codes;
};

} // namespace kolo
