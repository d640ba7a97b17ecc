// By what a rank knows how long chunks are in calls with block tables.
#include "ir/BlockTables.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

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

/// Without notes.
static std::optional<Measure> measureByTable(CollectiveKind kind, MoveInterface move) {
  const std::optional<BufferRole> source = tableOf(kind, move.getSource(), bool(move.getSourceRank())),
                                  destination = tableOf(kind, move.getDestination(), bool(move.getDestinationRank()));
  auto isCallers = [](Value buffer) { return isOfCaller(buffer.getDefiningOp<BufferOp>().getRole()); };
  const bool isDestinationBetter = destination && isCallers(move.getDestination()) &&
                                   (!source || !isCallers(move.getSource()) || move.getSourceRank());
  if (source && !isDestinationBetter)
    return Measure{MoveSide::Source, source};
  return destination ? std::optional(Measure{MoveSide::Destination, destination}) : std::nullopt;
}

/// Parts of every lane, where the lanes cut every chunk into so many; nothing where parts are others.
static std::optional<int64_t> partsPerLane(Value parts) {
  if (!parts || parts.getDefiningOp<NumLanesOp>())
    return parts ? std::optional<int64_t>(1) : std::nullopt;
  auto product = parts.getDefiningOp<arith::MulIOp>();
  if (!product)
    return std::nullopt;
  for (auto [factor, lanes] : {std::pair(product.getLhs(), product.getRhs()), {product.getRhs(), product.getLhs()}})
    if (std::optional<int64_t> number = getConstantIntValue(factor); number && lanes.getDefiningOp<NumLanesOp>())
      return number;
  return std::nullopt;
}

std::optional<int64_t> notesPerLane(BufferOp buffer) {
  if (isOfCaller(buffer.getRole()) || buffer.getRole() == BufferRole::Packets)
    return std::nullopt;
  const CollectiveKind kind = buffer->getParentOfType<ProgramOp>().getCollective().getKind();
  bool isNeeded = false;
  std::optional<int64_t> parts;
  for (Operation *user : buffer->getUsers()) {
    auto move = dyn_cast<MoveInterface>(user);
    if (!move)
      continue;
    const std::optional<int64_t> ofMove = partsPerLane(move.getParts());
    if (!ofMove || (parts && parts != ofMove))
      return std::nullopt;
    parts = ofMove;
    // What a rank reads from a peer, it reads together with the notes, into notes of its own.
    if (move.getSource() == buffer.getResult() || move.getSourceRank())
      isNeeded |= !measureByTable(kind, move);
  }
  return isNeeded ? parts : std::nullopt;
}

static bool hasNotes(Value buffer) { return notesPerLane(buffer.getDefiningOp<BufferOp>()).has_value(); }

std::optional<Measure> measureOf(CollectiveKind kind, MoveInterface move) {
  if (std::optional<Measure> measure = measureByTable(kind, move))
    return measure;
  const bool isKnown = hasNotes(move.getSource()) && (!move.getSourceRank() || hasNotes(move.getDestination()));
  return isKnown ? std::optional(Measure{MoveSide::Source, std::nullopt}) : std::nullopt;
}

static std::optional<Measure> measureOf(CollectiveKind kind, Value buffer, bool countsNotes) {
  std::optional<BufferRole> table = tableOf(kind, buffer, false);
  return table || (countsNotes && hasNotes(buffer)) ? std::optional(Measure{MoveSide::Source, table}) : std::nullopt;
}

std::optional<Measure> measureOf(CollectiveKind kind, FuseOp fuse) {
  return measureOf(kind, fuse.getBuffer(), !fuse.isOverwriting());
}

std::optional<Measure> measureOf(CollectiveKind kind, DivideOp divide) {
  return measureOf(kind, divide.getBuffer(), true);
}

/// Why nobody knows how long the chunks are that an op moves.
static const char *whyUnknown(Operation *op) {
  auto move = dyn_cast<MoveInterface>(op);
  if (move && arePackets(move.getSource()))
    return "packets do not say how long the chunks are that it takes out of them here";
  if (move && move.getSourceRank() && isOfCaller(move.getSource().getDefiningOp<BufferOp>().getRole()))
    return "only the peer has a table of the chunks that it reads from there";
  return "no table of the call says how long the chunks are that it moves here";
}

std::optional<TableObstacle> findTableObstacle(ProgramOp program) {
  CollectiveKind kind = program.getCollective().getKind();
  if (!mayHaveBlockTables(kind))
    return TableObstacle{program.getLoc(), "its buffers have one block"};
  for (auto buffer : program.getBody().getOps<BufferOp>())
    if (codecOf(buffer).isStochastic())
      return TableObstacle{buffer.getLoc(), "it rounds at random, by the numbers of elements"};
  std::optional<TableObstacle> obstacle;
  program.walk([&](Operation *op) {
    auto move = dyn_cast<MoveInterface>(op);
    auto fuse = dyn_cast<FuseOp>(op);
    auto divide = dyn_cast<DivideOp>(op);
    const bool isKnown =
        (!move || measureOf(kind, move)) && (!fuse || measureOf(kind, fuse)) && (!divide || measureOf(kind, divide));
    if (isKnown)
      return WalkResult::advance();
    obstacle = {op->getLoc(), whyUnknown(op)};
    return WalkResult::interrupt();
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
