// Counts executions: loops whose rounds are alike by a product, others round by round.
#include "compiler/model/LoopCount.h"
#include "compiler/model/Unfold.h"

#include "ir/IndexArithmetic.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kolo {

uint64_t countRounds(int64_t lower, int64_t upper, int64_t step) {
  return lower < upper ? (uint64_t(upper) - uint64_t(lower) - 1) / uint64_t(step) + 1 : 0;
}

static ExecutionCount operator+(const ExecutionCount &a, const ExecutionCount &b) {
  return {llvm::SaturatingAdd(a.executions, b.executions), llvm::SaturatingAdd(a.moves, b.moves)};
}

static ExecutionCount operator*(uint64_t times, const ExecutionCount &count) {
  return {llvm::SaturatingMultiply(times, count.executions), llvm::SaturatingMultiply(times, count.moves)};
}

namespace {

class ExecutionCounter {
public:
  ExecutionCounter(IndexEvaluator &evaluator, const ExecutionCount &most) : evaluator(evaluator), most(most) {}

  ExecutionCount countBlock(Block &block);
  std::optional<TooManyExecutions> found;

private:
  bool isOver() const { return found || hasFailed; }
  ExecutionCount countLoop(scf::ForOp loop);
  ExecutionCount countRound(scf::ForOp loop, int64_t index);
  uint64_t countMoves(StatementInterface statement);
  bool haveUnlikeRounds(scf::ForOp loop);
  void note(Operation *loop, const ExecutionCount &count, bool isExact) {
    if (!isOver() && !count.isWithin(most))
      found = TooManyExecutions{loop, count, isExact && count.executions < UINT64_MAX};
  }

  IndexEvaluator &evaluator;
  ExecutionCount most;
  bool hasFailed = false;
  llvm::DenseMap<Operation *, bool> unlike;
};

ExecutionCount ExecutionCounter::countBlock(Block &block) {
  ExecutionCount total;
  for (Operation &op : block) {
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      total = total + countLoop(loop);
      note(loop, total, /*isExact=*/false); // more may follow
    } else if (auto statement = dyn_cast<StatementInterface>(op)) {
      total = total + ExecutionCount{1, countMoves(statement)};
    } else if (op.getNumRegions() == 0) {
      hasFailed |= failed(evaluator.execute(&op));
    }
    if (isOver())
      break;
  }
  return total;
}

/// Sizes of slices that the body computes are not known here, and count as one.
uint64_t ExecutionCounter::countMoves(StatementInterface statement) {
  uint64_t number = 1;
  auto multiply = [&](int64_t factor) {
    number = llvm::SaturatingMultiply(number, uint64_t(std::max<int64_t>(factor, 1)));
  };
  for (Value size : slicesOf(statement).getDestinationSizes())
    if (size.getParentBlock() != &statement.getBody().front())
      multiply(evaluator.get(size));
  if (auto transfer = dyn_cast<TransferOp>(statement.getOperation()))
    for (auto [step, size] : llvm::zip_equal(transfer.getSteps().getAsRange<StepAttr>(), evaluator.mesh()))
      multiply(step.getKind() == StepKind::Others ? size - 1 : 1);
  return number;
}

/// Whether the number of executions may differ from round to round.
bool ExecutionCounter::haveUnlikeRounds(scf::ForOp loop) {
  auto [known, isNew] = unlike.try_emplace(loop, false);
  if (isNew) {
    SmallVector<Value> bounds;
    loop.getBody()->walk([&](scf::ForOp inner) { bounds.append({inner.getLowerBound(), inner.getUpperBound()}); });
    known->second = dependsOn(bounds, loop.getInductionVar());
  }
  return known->second;
}

ExecutionCount ExecutionCounter::countRound(scf::ForOp loop, int64_t index) {
  evaluator.set(loop.getInductionVar(), index);
  ExecutionCount count = countBlock(*loop.getBody());
  return count.executions == 0 ? ExecutionCount{1, 1} : count;
}

ExecutionCount ExecutionCounter::countLoop(scf::ForOp loop) {
  int64_t lower = evaluator.get(loop.getLowerBound()), step = evaluator.get(loop.getStep());
  uint64_t numRounds = step < 1 ? 0 : countRounds(lower, evaluator.get(loop.getUpperBound()), step);
  ExecutionCount total;
  if (numRounds == 0)
    return total;
  if (!haveUnlikeRounds(loop)) {
    total = numRounds * countRound(loop, lower);
    note(loop, total, /*isExact=*/true);
    return total;
  }
  for (uint64_t round = 0; round < numRounds && !isOver(); ++round) {
    total = total + countRound(loop, lower + int64_t(round) * step);
    note(loop, total, /*isExact=*/false);
  }
  return total;
}

} // namespace

std::optional<TooManyExecutions> findTooManyExecutions(ChoreographyOp choreography, IndexEvaluator &evaluator,
                                                       const ExecutionCount &most) {
  ScopedDiagnosticHandler quiet(choreography.getContext(), [](Diagnostic &) { return success(); });
  ExecutionCounter counter(evaluator, most);
  counter.countBlock(choreography.getBody().front());
  return counter.found;
}

LogicalResult checkExecutions(ChoreographyOp choreography, IndexEvaluator &evaluator, int64_t numRoots) {
  constexpr uint64_t mostMoves = uint64_t(1) << 26, leastOfRank = uint64_t(1) << 12;
  uint64_t numRuns = llvm::SaturatingMultiply(uint64_t(evaluator.numRanks()), uint64_t(numRoots));
  uint64_t mostOfRank = std::max(mostMoves / std::max<uint64_t>(numRuns, 1), leastOfRank);
  std::optional<TooManyExecutions> found = findTooManyExecutions(choreography, evaluator, {UINT64_MAX, mostOfRank});
  if (!found)
    return success();
  return found->loop->emitError() << "going through this loop takes " << (found->isExact ? "" : "at least ")
                                  << found->count.executions << " executions of statements, and " << found->count.moves
                                  << " moves of chunks by each rank; " << mostOfRank << " moves are allowed (mesh "
                                  << describeMesh(choreography, evaluator.mesh()) << ")";
}

} // namespace kolo
