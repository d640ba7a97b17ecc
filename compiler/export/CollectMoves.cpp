// From a choreography to concrete moves, in chunks that all its buffers have in common.
#include "compiler/export/CollectMoves.h"

#include "compiler/SourceLine.h"
#include "compiler/model/LoopCount.h"
#include "compiler/model/Unfold.h"

#include <numeric>

using namespace mlir;

namespace kolo::msccl {

namespace {

/// Chunks of all buffers together that a rank can have in an export, and more.
constexpr int64_t maxChunks = 1 << 20;

std::string lineOf(Operation *op) {
  SourceLine line = sourceLineOf(op->getLoc());
  return line.file + ":" + std::to_string(line.line) + ":" + std::to_string(line.column);
}

class Collector {
public:
  Collector(ChoreographyOp choreography, IndexEvaluator &evaluator)
      : choreography(choreography), evaluator(evaluator), unfold(evaluator) {}

  FailureOr<Moves> collect();

private:
  struct Buffer {
    Memory memory;
    int64_t base;        // the first chunk
    int64_t chunkLength; // chunks of the export in one chunk
  };

  LogicalResult readCollective();
  LogicalResult readBuffers();
  LogicalResult addStatement(StatementInterface statement);
  FailureOr<int64_t> chunksPerBlockOf(BufferOp buffer);
  int64_t memberNumber(int64_t rank);

  ChoreographyOp choreography;
  IndexEvaluator &evaluator;
  Unfold unfold;
  Moves moves;
  llvm::DenseMap<Value, Buffer> buffers;
};

LogicalResult Collector::readCollective() {
  CollectiveAttr collective = choreography.getCollective();
  switch (collective.getKind()) {
  case CollectiveKind::AllGather:
    moves.collective = Collective::AllGather;
    break;
  case CollectiveKind::AllReduce:
    moves.collective = Collective::AllReduce;
    break;
  case CollectiveKind::AllToAll:
    moves.collective = Collective::AllToAll;
    break;
  case CollectiveKind::ReduceScatter:
    moves.collective = Collective::ReduceScatter;
    break;
  case CollectiveKind::Scan:
  case CollectiveKind::Exscan:
    return choreography.emitError() << "RCCL has no " << stringifyCollectiveKind(collective.getKind()) << ", as "
                                    << choreography.getSymName() << " is";
  default:
    return choreography.emitError() << "RCCL selects an XML algorithm without looking at the root of the call, so "
                                    << choreography.getSymName()
                                    << ", whose collective has a root, would run with a wrong one";
  }
  int64_t groupSize = 1;
  for (int64_t dim : collective.getGroupDims())
    groupSize *= evaluator.mesh()[size_t(dim)];
  if (groupSize != evaluator.numRanks())
    return choreography.emitError() << "an XML algorithm is for all ranks of a communicator, and "
                                    << choreography.getSymName() << " runs over groups of " << groupSize << " of the "
                                    << evaluator.numRanks() << " ranks";
  moves.numRanks = evaluator.numRanks();
  if (moves.numRanks > maxRanksInFull(collective.getKind()))
    return choreography.emitError() << "XML is made for at most " << maxRanksInFull(collective.getKind())
                                    << " ranks, on which every move is checked, and this mesh has " << moves.numRanks;
  return success();
}

/// The number of a rank in its group, which RCCL knows it by.
int64_t Collector::memberNumber(int64_t rank) {
  SmallVector<int64_t, 4> coordinates(evaluator.mesh().size());
  for (size_t dim = coordinates.size(); dim-- > 0;) {
    coordinates[dim] = rank % evaluator.mesh()[dim];
    rank /= evaluator.mesh()[dim];
  }
  int64_t number = 0;
  for (int64_t dim : choreography.getCollective().getGroupDims())
    number = number * evaluator.mesh()[size_t(dim)] + coordinates[size_t(dim)];
  return number;
}

FailureOr<int64_t> Collector::chunksPerBlockOf(BufferOp buffer) {
  if (buffer.getCodec())
    return buffer.emitError() << "RCCL knows no codec, and " << buffer.getName() << " has one";
  if (buffer.getCut())
    return std::max(evaluator.get(buffer.getCut()), int64_t(1));
  int64_t chunks = 1;
  for (Value extent : buffer.getGrid().drop_front(size_t(buffer.getBlocks()))) {
    chunks *= std::max(evaluator.get(extent), int64_t(1));
    if (chunks > maxChunks)
      return buffer.emitError() << buffer.getName() << " is cut into more chunks than RCCL counts";
  }
  return chunks;
}

/// Buffers are made at the top level, and their grids depend on nothing that a loop changes.
LogicalResult Collector::readBuffers() {
  SmallVector<std::pair<BufferOp, int64_t>> found;
  for (Operation &op : choreography.getBody().front()) {
    auto buffer = dyn_cast<BufferOp>(op);
    if (!buffer) {
      if (op.getNumRegions() == 0 && failed(evaluator.execute(&op)))
        return failure();
      continue;
    }
    FailureOr<int64_t> chunks = chunksPerBlockOf(buffer);
    if (failed(chunks))
      return failure();
    found.emplace_back(buffer, *chunks);
    moves.chunksPerBlock = std::lcm(moves.chunksPerBlock, *chunks);
    if (moves.chunksPerBlock > maxChunks)
      return buffer.emitError() << "the chunks of " << choreography.getSymName()
                                << "'s buffers have more parts in common than RCCL counts";
  }
  for (auto [buffer, chunks] : found) {
    Memory memory = buffer.getRole() == BufferRole::Input    ? Memory::Input
                    : buffer.getRole() == BufferRole::Output ? Memory::Output
                                                             : Memory::Scratch;
    int64_t length = moves.chunksPerBlock / chunks;
    buffers[buffer.getResult()] = {memory, memory == Memory::Scratch ? moves.numScratchChunks : 0, length};
    if (memory != Memory::Scratch)
      continue;
    int64_t size = length;
    for (Value extent : buffer.getGrid())
      if ((size *= std::max(evaluator.get(extent), int64_t(1))) > maxChunks)
        return buffer.emitError() << buffer.getName() << " has more chunks than RCCL counts";
    moves.numScratchChunks += size;
  }
  return success();
}

/// The chunks of a box in row-major order.
SmallVector<int64_t> chunksOf(const GridBox &box) {
  SmallVector<int64_t> chunks{0};
  for (const GridRange &range : box) {
    SmallVector<int64_t> next;
    for (int64_t chunk : chunks)
      for (int64_t i = 0; i < range.size; ++i) {
        int64_t index = (range.offset + i) % range.extent;
        next.push_back(chunk * range.extent + (index < 0 ? index + range.extent : index));
      }
    chunks = std::move(next);
  }
  return chunks;
}

LogicalResult Collector::addStatement(StatementInterface statement) {
  const Buffer &source = buffers.at(statement.getSource()), &destination = buffers.at(statement.getDestination());
  if (source.chunkLength != destination.chunkLength)
    return statement.emitError() << "the chunks of both sides have different sizes on this mesh";
  Statement added{lineOf(statement), statement.isReducing(), {}};
  auto addMove = [&](const ConcreteMove &move) -> LogicalResult {
    SmallVector<int64_t> from = chunksOf(move.source), to = chunksOf(move.destination);
    Move &last = added.moves.emplace_back(Move{memberNumber(move.sender), memberNumber(move.receiver), {}});
    for (auto [fromChunk, toChunk] : llvm::zip_equal(from, to))
      last.runs.push_back({{source.memory, source.base + fromChunk * source.chunkLength},
                           {destination.memory, destination.base + toChunk * destination.chunkLength},
                           source.chunkLength});
    return success();
  };
  for (int64_t sender = 0; sender < moves.numRanks; ++sender)
    if (failed(unfold.forEachMoveFrom(statement, sender, addMove)))
      return failure();
  if (!added.moves.empty())
    moves.statements.push_back(std::move(added));
  return success();
}

FailureOr<Moves> Collector::collect() {
  moves.name = choreography.getSymName().str();
  moves.line = lineOf(choreography);
  if (failed(readCollective()) || failed(readBuffers()) ||
      failed(checkExecutions(choreography, evaluator, /*numRoots=*/1)))
    return failure();
  if (failed(
          unfold.forEachExecution(choreography, [&](StatementInterface statement) { return addStatement(statement); })))
    return failure();
  return std::move(moves);
}

} // namespace

FailureOr<Moves> collectMoves(ChoreographyOp choreography, ArrayRef<int64_t> mesh) {
  FailureOr<IndexEvaluator> evaluator = IndexEvaluator::create(choreography);
  if (failed(evaluator))
    return failure();
  evaluator->setMesh(mesh, 0);
  return Collector(choreography, *evaluator).collect();
}

} // namespace kolo::msccl
