// Whether a statement reads memory that it also writes.
#include "compiler/schedule/Hazards.h"
#include "compiler/check/ChunkState.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace kolo {

namespace {

/// Coefficients of a value that is linear in the sender's and receiver's coordinates, one per mesh dimension. The receiver's
/// coordinate along a dimension counts as the sender's: rotations differ by a constant, and only those are asked about.
using Coefficients = SmallVector<int64_t, 4>;

std::optional<Coefficients> linearCoefficients(Value value, Block &body, size_t numDims) {
  Coefficients result(numDims, 0);
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getOwner() == &body)
      result[argument.getArgNumber() % numDims] = 1;
    return result;
  }
  Operation *op = value.getDefiningOp();
  if (op->getBlock() != &body)
    return result;
  bool isSum = isa<arith::AddIOp>(op), isDifference = isa<arith::SubIOp>(op);
  for (auto [position, operand] : llvm::enumerate(op->getOperands())) {
    std::optional<Coefficients> coefficients = linearCoefficients(operand, body, numDims);
    if (!coefficients)
      return std::nullopt;
    bool isConstant = llvm::all_of(*coefficients, [](int64_t coefficient) { return coefficient == 0; });
    if (!isConstant && !isSum && !isDifference)
      return std::nullopt;
    for (size_t dim = 0; dim < numDims; ++dim)
      result[dim] += isDifference && position == 1 ? -(*coefficients)[dim] : (*coefficients)[dim];
  }
  return result;
}

class HazardFinder {
public:
  HazardFinder(ChoreographyOp choreography, IndexEvaluator &evaluator, int64_t maxMoves)
      : choreography(choreography), evaluator(evaluator), unfold(evaluator), maxMoves(maxMoves) {}

  LogicalResult run(llvm::SetVector<Operation *> &hazards);

private:
  FailureOr<bool> hasHazard(StatementInterface statement);
  FailureOr<bool> hasHazardAt(StatementInterface statement, int64_t rank);
  SmallVector<bool> symmetricDims(StatementInterface statement);

  ChoreographyOp choreography;
  IndexEvaluator &evaluator;
  Unfold unfold;
  int64_t maxMoves;
  llvm::DenseMap<Operation *, int64_t> movesSeen;
};

LogicalResult HazardFinder::run(llvm::SetVector<Operation *> &hazards) {
  return unfold.forEachExecution(choreography, [&](StatementInterface statement) -> LogicalResult {
    if (statement.getSource() != statement.getDestination() || hazards.contains(statement))
      return success();
    FailureOr<bool> hazard = hasHazard(statement);
    if (succeeded(hazard) && *hazard)
      hazards.insert(statement);
    return hazard;
  });
}

/// The dimensions along which all ranks see the same picture, shifted: neither the pattern of peers nor the distance between
/// what is read and what is written depends on the coordinate.
SmallVector<bool> HazardFinder::symmetricDims(StatementInterface statement) {
  size_t numDims = evaluator.mesh().size();
  Block &body = statement.getBody().front();
  SlicesOp slices = slicesOf(statement);
  SmallVector<bool> none(numDims, false), result(numDims, true);
  auto transfer = dyn_cast<TransferOp>(statement.getOperation());
  for (size_t dim = 0; transfer && dim < numDims; ++dim) {
    StepKind kind = cast<StepAttr>(transfer.getSteps()[dim]).getKind();
    result[dim] = kind == StepKind::Keep || kind == StepKind::Next || kind == StepKind::Others;
  }
  auto isConstant = [&](Value value) {
    auto coefficients = linearCoefficients(value, body, numDims);
    return coefficients && llvm::all_of(*coefficients, [](int64_t coefficient) { return coefficient == 0; });
  };
  if (!llvm::all_of(slices.getSourceSizes(), isConstant) || !llvm::all_of(slices.getDestinationSizes(), isConstant) ||
      (slices.getCondition() && !isConstant(slices.getCondition())))
    return none;
  auto grid = statement.getSource().getDefiningOp<BufferOp>().getGrid();
  for (auto [from, to, extent] : llvm::zip_equal(slices.getSourceOffsets(), slices.getDestinationOffsets(), grid)) {
    auto read = linearCoefficients(from, body, numDims), written = linearCoefficients(to, body, numDims);
    if (!read || !written)
      return none;
    for (size_t dim = 0; dim < numDims; ++dim)
      result[dim] = result[dim] && (*read)[dim] == (*written)[dim] &&
                    ((*read)[dim] == 0 || evaluator.get(extent) == evaluator.mesh()[dim]);
  }
  return result;
}

FailureOr<bool> HazardFinder::hasHazard(StatementInterface statement) {
  SmallVector<bool> symmetric = symmetricDims(statement);
  for (int64_t rank = 0; rank < evaluator.numRanks(); ++rank) {
    bool isRepresented = false; // by a rank whose coordinate along a symmetric dimension is 0
    int64_t rest = rank;
    for (size_t dim = symmetric.size(); dim-- > 0; rest /= evaluator.mesh()[dim])
      isRepresented |= symmetric[dim] && rest % evaluator.mesh()[dim] != 0;
    if (isRepresented)
      continue;
    FailureOr<bool> hazard = hasHazardAt(statement, rank);
    if (failed(hazard) || *hazard)
      return hazard;
  }
  return false;
}

FailureOr<bool> HazardFinder::hasHazardAt(StatementInterface statement, int64_t rank) {
  if (movesSeen[statement] > maxMoves)
    return true;
  SmallVector<GridBox, 2> reads; // without repetitions
  auto collect = [&](const ConcreteMove &move) -> LogicalResult {
    ++movesSeen[statement];
    if (!llvm::is_contained(reads, move.source))
      reads.push_back(move.source);
    return success();
  };
  if (failed(unfold.forEachMoveFrom(statement, rank, collect)))
    return failure();
  bool hazard = false;
  auto compare = [&](const ConcreteMove &move) -> LogicalResult {
    ++movesSeen[statement];
    hazard |= llvm::any_of(reads, [&](const GridBox &read) { return overlaps(read, move.destination); });
    return success();
  };
  if (failed(unfold.forEachMoveInto(statement, rank, compare)))
    return failure();
  return hazard;
}

} // namespace

FailureOr<llvm::SetVector<Operation *>> findHazards(ChoreographyOp choreography, int64_t maxMoves) {
  FailureOr<IndexEvaluator> evaluator = IndexEvaluator::create(choreography);
  if (failed(evaluator))
    return failure();
  llvm::SetVector<Operation *> hazards;
  for (auto mesh : choreography.getMeshes().getAsRange<DenseI64ArrayAttr>()) {
    int64_t groupSize = 1;
    for (int64_t dim : choreography.getCollective().getGroupDims())
      groupSize *= mesh[size_t(dim)];
    HazardFinder finder(choreography, *evaluator, maxMoves);
    for (int64_t root = 0; root < (isRooted(choreography.getCollective().getKind()) ? groupSize : 1); ++root) {
      evaluator->setMesh(mesh.asArrayRef(), root);
      if (failed(finder.run(hazards)))
        return failure();
    }
  }
  return hazards;
}

} // namespace kolo
