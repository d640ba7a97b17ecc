// Whether a statement reads memory that it also writes.
#include "compiler/schedule/Hazards.h"
#include "compiler/model/LoopCount.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/CheckedArithmetic.h"

using namespace mlir;

namespace kolo {

namespace {

/// What a value is multiplied with in each of the sender's coordinates, then the receiver's, one per mesh dimension
/// each. Nothing where the value depends on a coordinate in another way.
using Coefficients = SmallVector<std::optional<int64_t>, 8>;

/// Of the values that a statement's body computes. Others do not depend on coordinates.
llvm::DenseMap<Value, Coefficients> findCoefficients(Block &body) {
  Coefficients none(body.getNumArguments(), 0);
  llvm::DenseMap<Value, Coefficients> found;
  for (BlockArgument argument : body.getArguments())
    found.try_emplace(argument, none).first->second[argument.getArgNumber()] = 1;
  for (Operation &op : body) {
    bool isSum = isa<arith::AddIOp>(op), isDifference = isa<arith::SubIOp>(op);
    Coefficients result = none;
    for (auto [position, operand] : llvm::enumerate(op.getOperands())) {
      auto known = found.find(operand);
      if (known == found.end())
        continue;
      for (auto [sum, coefficient] : llvm::zip_equal(result, known->second))
        if (!sum || !coefficient || (*coefficient != 0 && !isSum && !isDifference))
          sum = std::nullopt;
        else
          sum = isDifference && position == 1 ? llvm::checkedSub(*sum, *coefficient)
                                              : llvm::checkedAdd(*sum, *coefficient);
    }
    for (Value value : op.getResults())
      found.try_emplace(value, result);
  }
  return found;
}

/// Looks at some statements on one mesh, for one root.
class HazardFinder {
public:
  HazardFinder(ChoreographyOp choreography, IndexEvaluator &evaluator, int64_t maxMoves)
      : choreography(choreography), evaluator(evaluator), unfold(evaluator), maxMoves(maxMoves) {}

  /// Adds to the hazards; statements that took too many moves go to `undecided`.
  LogicalResult run(const llvm::SetVector<Operation *> &candidates, llvm::SetVector<Operation *> &hazards,
                    llvm::SetVector<Operation *> &undecided);

private:
  FailureOr<bool> hasHazard(StatementInterface statement);
  FailureOr<bool> hasHazardAt(StatementInterface statement, int64_t rank);
  SmallVector<bool> symmetricDims(StatementInterface statement);
  SmallVector<int64_t> computeRanks(StatementInterface statement);

  ChoreographyOp choreography;
  IndexEvaluator &evaluator;
  Unfold unfold;
  int64_t maxMoves;
  llvm::DenseMap<Operation *, int64_t> movesSeen;
  llvm::DenseMap<Operation *, SmallVector<int64_t>> ranksToLookAt;
};

LogicalResult HazardFinder::run(const llvm::SetVector<Operation *> &candidates, llvm::SetVector<Operation *> &hazards,
                                llvm::SetVector<Operation *> &undecided) {
  auto isOpen = [&](Operation *statement) {
    return candidates.contains(statement) && !hazards.contains(statement) && !undecided.contains(statement);
  };
  int64_t numOpen = llvm::count_if(candidates, isOpen);
  if (numOpen == 0)
    return success();
  constexpr uint64_t mostExecutions = uint64_t(1) << 26;
  if (findTooManyExecutions(choreography, evaluator, {mostExecutions, UINT64_MAX})) {
    for (Operation *statement : llvm::make_filter_range(candidates, isOpen))
      undecided.insert(statement);
    return success();
  }
  LogicalResult walked = unfold.forEachExecution(choreography, [&](StatementInterface statement) -> LogicalResult {
    if (!isOpen(statement))
      return success();
    if (movesSeen[statement] > maxMoves) {
      undecided.insert(statement);
    } else {
      FailureOr<bool> hazard = hasHazard(statement);
      if (failed(hazard))
        return failure();
      if (*hazard)
        hazards.insert(statement);
    }
    numOpen -= !isOpen(statement);
    return success(numOpen > 0); // else the rest of a long loop would change nothing
  });
  return success(succeeded(walked) || numOpen == 0);
}

/// The dimensions along which all ranks see the same picture, shifted. There the coordinate changes neither the pattern
/// of peers nor the distance between the chunks that are read and those that are written.
SmallVector<bool> HazardFinder::symmetricDims(StatementInterface statement) {
  size_t numDims = evaluator.mesh().size();
  Block &body = statement.getBody().front();
  SlicesOp slices = slicesOf(statement);
  SmallVector<bool> result(numDims, true);
  auto transfer = dyn_cast<TransferOp>(statement.getOperation());
  for (size_t dim = 0; transfer && dim < numDims; ++dim) {
    StepKind kind = cast<StepAttr>(transfer.getSteps()[dim]).getKind();
    result[dim] = kind == StepKind::Keep || kind == StepKind::Next || kind == StepKind::Others;
  }
  llvm::DenseMap<Value, Coefficients> known = findCoefficients(body);
  auto coefficientsOf = [&](Value value) {
    auto found = known.find(value);
    return found == known.end() ? Coefficients(body.getNumArguments(), 0) : found->second;
  };
  SmallVector<Value> sameOnAll(slices.getSourceSizes()); // or the picture is another one
  llvm::append_range(sameOnAll, slices.getDestinationSizes());
  if (slices.getCondition())
    sameOnAll.push_back(slices.getCondition());
  for (Value value : sameOnAll)
    for (auto [argument, coefficient] : llvm::enumerate(coefficientsOf(value)))
      result[argument % numDims] = result[argument % numDims] && coefficient == 0;
  auto grid = statement.getSource().getDefiningOp<BufferOp>().getGrid();
  for (auto [from, to, extent] : llvm::zip_equal(slices.getSourceOffsets(), slices.getDestinationOffsets(), grid)) {
    Coefficients read = coefficientsOf(from), written = coefficientsOf(to);
    for (size_t dim = 0; dim < numDims; ++dim) {
      // The receiver's coordinate is the sender's plus a distance, modulo the size of the mesh. They may only add up,
      // or cancel out, if the grid wraps at the same size.
      bool isUsed = false, isLinear = true;
      int64_t distance = 0;
      for (size_t argument = dim; argument < body.getNumArguments(); argument += numDims) {
        isUsed |= read[argument] != 0 || written[argument] != 0;
        isLinear &= read[argument] && written[argument];
        distance += read[argument].value_or(0) - written[argument].value_or(0);
      }
      result[dim] =
          result[dim] && isLinear && distance == 0 && (!isUsed || evaluator.get(extent) == evaluator.mesh()[dim]);
    }
  }
  return result;
}

/// Along symmetric dimensions, the rank with coordinate 0 stands for all.
SmallVector<int64_t> HazardFinder::computeRanks(StatementInterface statement) {
  SmallVector<bool> symmetric = symmetricDims(statement);
  SmallVector<int64_t> ranks{0};
  for (auto [isSymmetric, size] : llvm::zip_equal(symmetric, evaluator.mesh())) {
    SmallVector<int64_t> more;
    for (int64_t rank : ranks)
      for (int64_t coordinate = 0; coordinate < (isSymmetric ? 1 : size); ++coordinate)
        more.push_back(rank * size + coordinate);
    ranks = std::move(more);
  }
  return ranks;
}

FailureOr<bool> HazardFinder::hasHazard(StatementInterface statement) {
  auto [ranks, isNew] = ranksToLookAt.try_emplace(statement);
  if (isNew)
    ranks->second = computeRanks(statement);
  for (int64_t rank : ranks->second) {
    if (movesSeen[statement] > maxMoves)
      break;
    FailureOr<bool> hazard = hasHazardAt(statement, rank);
    if (failed(hazard) || *hazard)
      return hazard;
  }
  return false;
}

FailureOr<bool> HazardFinder::hasHazardAt(StatementInterface statement, int64_t rank) {
  ++movesSeen[statement];        // a rank that moves nothing takes time, too
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

/// The statements whose source and destination are one buffer; others cannot have a hazard. Those that compute with the
/// root, or are executed as often as the root says, are kept apart.
static void findCandidates(ChoreographyOp choreography, llvm::SetVector<Operation *> &ofRoot,
                           llvm::SetVector<Operation *> &others) {
  llvm::SetVector<Operation *> dependents;
  choreography.walk([&](RootOp root) { getForwardSlice(root.getOperation(), &dependents); });
  choreography.walk([&](StatementInterface statement) {
    if (statement.getSource() != statement.getDestination())
      return;
    bool dependsOnRoot = dependents.contains(slicesOf(statement));
    for (Operation *op = statement; op != choreography.getOperation(); op = op->getParentOp())
      dependsOnRoot |= dependents.contains(op);
    (dependsOnRoot ? ofRoot : others).insert(statement);
  });
}

FailureOr<llvm::SetVector<Operation *>> findHazards(ChoreographyOp choreography, int64_t maxMoves) {
  FailureOr<IndexEvaluator> evaluator = IndexEvaluator::create(choreography);
  if (failed(evaluator))
    return failure();
  CollectiveAttr collective = choreography.getCollective();
  llvm::SetVector<Operation *> hazards, ofRoot, others;
  findCandidates(choreography, ofRoot, others);
  for (auto mesh : choreography.getMeshes().getAsRange<DenseI64ArrayAttr>()) {
    llvm::SetVector<Operation *> sampled = ofRoot, unknown;
    evaluator->setMesh(mesh.asArrayRef(), 0);
    if (failed(HazardFinder(choreography, *evaluator, maxMoves).run(others, hazards, sampled)))
      return failure();
    SmallVector<int64_t> smaller = representativeMesh(choreography, mesh, maxRanksInFull(collective.getKind()));
    for (int64_t root = 0; root < countRoots(collective, smaller); ++root) {
      evaluator->setMesh(smaller, root);
      if (failed(HazardFinder(choreography, *evaluator, INT64_MAX).run(sampled, hazards, unknown)))
        return failure();
    }
    hazards.insert(unknown.begin(), unknown.end()); // of loops that CheckChoreography would refuse
  }
  return hazards;
}

} // namespace kolo
