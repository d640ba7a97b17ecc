// CheckChoreography: refuses a choreography that does not do what its collective asks, at the author's line.
//   Changes nothing but the attribute `checked`: one proof per mesh.
// Runs all ranks over symbolic chunks. A chunk's content is the input chunk that it descends from, and the set of ranks
// whose contribution it holds. Requires choreography form. Runs first: every later pass relies on slices that lie in
// their grids, and on paired chunks of equal size.
#include "compiler/Passes.h"
#include "compiler/check/ChunkState.h"
#include "compiler/model/LoopCount.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_CHECKCHOREOGRAPHY
#include "compiler/Passes.h.inc"

namespace {

/// Runs one choreography on one mesh, for one root.
class Checker {
public:
  /// Reports a statement's mistake once: those in `mistaken` are not executed, and new ones are added to it.
  Checker(ChoreographyOp choreography, IndexEvaluator &evaluator, std::string mesh,
          llvm::SmallPtrSetImpl<Operation *> &mistaken)
      : choreography(choreography), evaluator(evaluator), unfold(evaluator), mesh(std::move(mesh)), mistaken(mistaken) {
  }

  LogicalResult run(int64_t root, bool checkResult);

private:
  LogicalResult start(int64_t root);
  LogicalResult checkNumChunks();
  LogicalResult execute(StatementInterface statement);
  LogicalResult check(StatementInterface statement, const ConcreteMove &move);
  LogicalResult checkBox(StatementInterface statement, Value buffer, const GridBox &box);
  LogicalResult read(StatementInterface statement, const ConcreteMove &move);
  LogicalResult write(StatementInterface statement);
  std::string nameOf(Value buffer) { return buffer.getDefiningOp<BufferOp>().getName().str(); }

  struct PendingWrite {
    int64_t rank, chunk;
    ChunkContent content;
  };

  ChoreographyOp choreography;
  IndexEvaluator &evaluator;
  Unfold unfold;
  std::string mesh;
  std::optional<ChunkState> state;
  std::vector<PendingWrite> writes;
  llvm::SmallPtrSetImpl<Operation *> &mistaken;
  llvm::DenseSet<Value> unknown; // buffers that hold what a mistake left, of which nothing more is said
};

LogicalResult Checker::run(int64_t root, bool checkResult) {
  int64_t numRoots = countRoots(choreography.getCollective(), evaluator.mesh());
  if (failed(checkExecutions(choreography, evaluator, numRoots)))
    return failure();
  // Grids are computed by arithmetic at the top level, which the walk below executes; buffers come before statements.
  auto visit = [&](StatementInterface statement) -> LogicalResult {
    if (!state && failed(start(root)))
      return failure();
    if (mistaken.contains(statement) || failed(execute(statement))) {
      mistaken.insert(statement);
      unknown.insert(statement.getDestination());
    }
    return success();
  };
  if (failed(unfold.forEachExecution(choreography, visit)) || !mistaken.empty())
    return failure();
  if (!checkResult)
    return success();
  if (!state && failed(start(root)))
    return failure();
  if (std::optional<std::string> wrong = state->findWrongResult())
    return choreography.emitError() << "the result is not "
                                    << stringifyCollectiveKind(choreography.getCollective().getKind()) << ": " << *wrong
                                    << " (mesh " << mesh << ")";
  return success();
}

/// A grid may have more chunks than can be looked at, and so may a mesh that no smaller one represents.
LogicalResult Checker::checkNumChunks() {
  constexpr uint64_t mostChunks = 1 << 22;
  BufferOp largest;
  uint64_t most = 0, total = 0;
  for (auto buffer : choreography.getBody().getOps<BufferOp>()) {
    uint64_t number = ChunkState::countChunks(buffer, evaluator);
    total = llvm::SaturatingAdd(total, llvm::SaturatingMultiply(number, uint64_t(evaluator.numRanks())));
    if (number > most) {
      most = number;
      largest = buffer;
    }
  }
  if (total <= mostChunks)
    return success();
  if (evaluator.numRanks() > maxRanksInFull(choreography.getCollective().getKind()) && most <= mostChunks)
    return choreography.emitError() << "mesh " << mesh << " has more than " << mostChunks
                                    << " chunks on all ranks together, and no smaller mesh represents it, since a "
                                       "relation maps a dimension by a table";
  return largest.emitError() << "'" << largest.getName() << "' has " << most
                             << " chunks on every rank; all buffers on all ranks together may have " << mostChunks
                             << " (mesh " << mesh << ")";
}

LogicalResult Checker::start(int64_t root) {
  if (failed(checkNumChunks()))
    return failure();
  state.emplace(choreography, evaluator, root);
  return success();
}

LogicalResult Checker::execute(StatementInterface statement) {
  writes.clear();
  if (unknown.contains(statement.getSource()))
    unknown.insert(statement.getDestination());
  for (int64_t sender = 0; sender < evaluator.numRanks(); ++sender) {
    auto visit = [&](const ConcreteMove &move) -> LogicalResult {
      return failed(check(statement, move)) ? failure() : read(statement, move);
    };
    if (failed(unfold.forEachMoveFrom(statement, sender, visit)))
      return failure();
  }
  return write(statement);
}

LogicalResult Checker::checkBox(StatementInterface statement, Value buffer, const GridBox &box) {
  for (auto [dim, range] : llvm::enumerate(box)) {
    if (range.extent < 1)
      return statement->emitError() << "grid dimension " << dim << " of '" << nameOf(buffer) << "' has " << range.extent
                                    << " chunks on mesh " << mesh;
    if (range.size < 0 || range.size > range.extent)
      return statement->emitError() << "a slice takes " << range.size << " chunks along dimension " << dim << " of '"
                                    << nameOf(buffer) << "', which has " << range.extent << " there (mesh " << mesh
                                    << ")";
  }
  return success();
}

LogicalResult Checker::check(StatementInterface statement, const ConcreteMove &move) {
  if (failed(checkBox(statement, statement.getSource(), move.source)) ||
      failed(checkBox(statement, statement.getDestination(), move.destination)))
    return failure();
  SlicesOp slices = slicesOf(statement);
  SmallVector<int64_t, 3> sourceShape, destinationShape;
  for (auto [size, range] : llvm::zip_equal(slices.getSourceSizes(), move.source))
    if (isRanged(size))
      sourceShape.push_back(range.size);
  for (auto [size, range] : llvm::zip_equal(slices.getDestinationSizes(), move.destination))
    if (isRanged(size))
      destinationShape.push_back(range.size);
  if (sourceShape == destinationShape)
    return success();
  InFlightDiagnostic error = statement->emitError() << "the source slice has [";
  llvm::interleaveComma(sourceShape, error);
  error << "] chunks, the destination slice [";
  llvm::interleaveComma(destinationShape, error);
  return error << "] (rank " << move.sender << " to " << move.receiver << ", mesh " << mesh << ")";
}

LogicalResult Checker::read(StatementInterface statement, const ConcreteMove &move) {
  auto sources = state->chunksOf(move.source), destinations = state->chunksOf(move.destination);
  for (auto [source, destination] : llvm::zip_equal(sources, destinations)) {
    if (!state->haveEqualSize(statement.getSource(), source, statement.getDestination(), destination))
      return statement->emitError() << "chunks of different size: " << state->describe(statement.getSource(), source)
                                    << " and " << state->describe(statement.getDestination(), destination)
                                    << state->describeCuts(statement.getSource(), statement.getDestination())
                                    << " (mesh " << mesh << ")";
    const ChunkContent &content = state->at(move.sender, statement.getSource(), source);
    const bool isKnown = !unknown.contains(statement.getSource());
    if (isKnown && !content.isDefined())
      return statement->emitError() << "rank " << move.sender << " reads "
                                    << state->describe(statement.getSource(), source)
                                    << " before anything wrote it (mesh " << mesh << ")";
    if (isKnown && !state->isAsLongAs(content, statement.getDestination(), destination))
      return statement->emitError() << state->describe(statement.getSource(), source) << " on rank " << move.sender
                                    << " holds " << content.describe() << ", which may be of another size than "
                                    << state->describe(statement.getDestination(), destination) << " (mesh " << mesh
                                    << ")";
    if (!state->mayWrite(move.receiver, statement.getDestination()))
      return statement->emitError() << "writes the output of rank " << move.receiver
                                    << (hasRoot(choreography.getCollective().getKind())
                                            ? ", but only the root has an output"
                                            : ", but the first rank has no output")
                                    << " (mesh " << mesh << ")";
    writes.push_back({move.receiver, destination, content});
  }
  return success();
}

LogicalResult Checker::write(StatementInterface statement) {
  Value buffer = statement.getDestination();
  const bool isKnown = !unknown.contains(buffer);
  llvm::DenseSet<std::pair<int64_t, int64_t>> written;
  for (PendingWrite &pending : writes) {
    ChunkContent &target = state->at(pending.rank, buffer, pending.chunk);
    auto place = [&] { return state->describe(buffer, pending.chunk) + " on rank " + std::to_string(pending.rank); };
    if (!statement.isReducing()) {
      if (!written.insert({pending.rank, pending.chunk}).second)
        return statement->emitError() << "several senders write " << place() << " (mesh " << mesh << ")";
      target = std::move(pending.content);
      continue;
    }
    if (!isKnown)
      continue;
    if (!target.isDefined())
      return statement->emitError() << "reduces into " << place() << " before anything wrote it (mesh " << mesh << ")";
    if (std::optional<std::string> problem = target.combine(pending.content))
      return statement->emitError() << *problem << " in " << place()
                                    << "; a statement starts when those before it are complete (mesh " << mesh << ")";
  }
  return success();
}

struct CheckChoreography : impl::CheckChoreographyBase<CheckChoreography> {
  using CheckChoreographyBase::CheckChoreographyBase;

  void runOnOperation() override {
    ChoreographyOp choreography = getOperation();
    FailureOr<IndexEvaluator> evaluator = IndexEvaluator::create(choreography);
    if (failed(evaluator))
      return signalPassFailure();
    SmallVector<Attribute> checked;
    mistaken.clear();
    bool isRight = true;
    for (auto mesh : choreography.getMeshes().getAsRange<DenseI64ArrayAttr>()) {
      SmallVector<int64_t> looked =
          representativeMesh(choreography, mesh, maxRanksInFull(choreography.getCollective().getKind()));
      isRight &= succeeded(checkMesh(*evaluator, looked));
      checked.push_back(ProofAttr::get(&getContext(), mesh, looked, {}));
    }
    if (!isRight)
      return signalPassFailure();
    choreography.setCheckedAttr(ArrayAttr::get(&getContext(), checked));
  }

  /// One root's failure is enough for a mesh; other meshes are still looked at.
  LogicalResult checkMesh(IndexEvaluator &evaluator, ArrayRef<int64_t> mesh) {
    ChoreographyOp choreography = getOperation();
    int64_t numRoots = countRoots(choreography.getCollective(), mesh);
    for (int64_t root = 0; root < numRoots; ++root) {
      evaluator.setMesh(mesh, root);
      if (failed(Checker(choreography, evaluator, describeMesh(choreography, mesh), mistaken).run(root, result)))
        return failure();
    }
    return success();
  }

  llvm::SmallPtrSet<Operation *, 8> mistaken; // statements that were reported
};

} // namespace
} // namespace kolo
