// By what a rank knows how long chunks are in calls with block tables.
#include "ir/BlockTables.h"

using namespace mlir;

namespace kolo {

/// The one buffer whose table all ranks have alike.
static std::optional<BufferRole> commonTable(CollectiveKind kind) {
  if (kind == CollectiveKind::AllGather)
    return BufferRole::Output;
  return kind == CollectiveKind::ReduceScatter ? std::optional(BufferRole::Input) : std::nullopt;
}

/// Whether two buffers have blocks along the same dimensions.
static bool haveSameBlocks(BufferOp left, BufferOp right) {
  auto areSame = [](Value one, Value other) {
    auto size = one.getDefiningOp<DimSizeOp>(), otherSize = other.getDefiningOp<DimSizeOp>();
    return one == other || (size && otherSize && size.getDim() == otherSize.getDim());
  };
  return left.getBlocks() == right.getBlocks() &&
         llvm::all_of_zip(left.getGrid().take_front(left.getBlocks()), right.getGrid().take_front(right.getBlocks()),
                          areSame);
}

/// The table for a buffer of this rank, or of another one.
static std::optional<BufferRole> tableOf(CollectiveKind kind, Value buffer, bool isRemote) {
  auto op = buffer.getDefiningOp<BufferOp>();
  const std::optional<BufferRole> common = commonTable(kind);
  if (isOfCaller(op.getRole()) && (!isRemote || common == op.getRole()))
    return op.getRole();
  if (!common || isOfCaller(op.getRole()) || op.getCut())
    return std::nullopt;
  for (auto other : op->getParentOfType<ProgramOp>().getBody().getOps<BufferOp>())
    if (other.getRole() == *common && haveSameBlocks(op, other))
      return common;
  return std::nullopt;
}

std::optional<Measure> measureOf(CollectiveKind kind, MoveInterface move) {
  const std::optional<BufferRole> source = tableOf(kind, move.getSource(), bool(move.getSourceRank())),
                                  destination = tableOf(kind, move.getDestination(), bool(move.getDestinationRank()));
  auto isCallers = [](Value buffer) { return isOfCaller(buffer.getDefiningOp<BufferOp>().getRole()); };
  const bool isDestinationBetter = destination && isCallers(move.getDestination()) &&
                                   (!source || !isCallers(move.getSource()) || move.getSourceRank());
  if (source && !isDestinationBetter)
    return Measure{MoveSide::Source, *source};
  return destination ? std::optional(Measure{MoveSide::Destination, *destination}) : std::nullopt;
}

std::optional<Measure> measureOf(CollectiveKind kind, Value buffer) {
  std::optional<BufferRole> table = tableOf(kind, buffer, false);
  return table ? std::optional(Measure{MoveSide::Source, *table}) : std::nullopt;
}

std::optional<TableObstacle> findTableObstacle(ProgramOp program) {
  CollectiveKind kind = program.getCollective().getKind();
  if (!mayHaveBlockTables(kind))
    return TableObstacle{program.getLoc(), "its buffers have one block"};
  for (auto buffer : program.getBody().getOps<BufferOp>())
    if (codecOf(buffer).isStochastic())
      return TableObstacle{buffer.getLoc(), "it rounds at random, by the numbers of elements"};
  std::optional<TableObstacle> obstacle;
  auto refuse = [&](Operation *op) {
    obstacle = {op->getLoc(), "no table of the call says how long the chunks are that it moves here"};
    return WalkResult::interrupt();
  };
  program.walk([&](Operation *op) {
    if (auto move = dyn_cast<MoveInterface>(op); move && !measureOf(kind, move))
      return refuse(op);
    Value buffer;
    if (auto fuse = dyn_cast<FuseOp>(op))
      buffer = fuse.getBuffer();
    else if (auto divide = dyn_cast<DivideOp>(op))
      buffer = divide.getBuffer();
    return buffer && !measureOf(kind, buffer) ? refuse(op) : WalkResult::advance();
  });
  return obstacle;
}

/// Whether a move is of no rows, or of such as its rank finds by its own lists.
static bool allowsRowLists(MoveInterface move) {
  auto roleOf = [](Value buffer) { return buffer.getDefiningOp<BufferOp>().getRole(); };
  const BufferRole source = roleOf(move.getSource()), destination = roleOf(move.getDestination());
  if (!isOfCaller(source) && !isOfCaller(destination))
    return true;
  if (source == BufferRole::Output || destination == BufferRole::Input || move.getSourceRank() ||
      isa<ChannelReduceOp>(move.getOperation()) || arePackets(move.getSource()) || arePackets(move.getDestination()))
    return false;
  const bool isLanding = destination == BufferRole::Output && move.getDestinationRank();
  return !isLanding || (source == BufferRole::Input && !isConverting(move));
}

bool takesRowLists(ProgramOp program) {
  auto look = [](Operation *op) {
    auto move = dyn_cast<MoveInterface>(op);
    const bool isAllowed = move ? allowsRowLists(move) : !isa<FuseOp, DivideOp>(op);
    return isAllowed ? WalkResult::advance() : WalkResult::interrupt();
  };
  return !findTableObstacle(program) && !program.walk(look).wasInterrupted();
}

} // namespace kolo
