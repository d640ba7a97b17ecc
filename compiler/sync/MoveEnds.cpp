// Other positions for the signal or the wait of a transfer in one rank's text.
#include "compiler/sync/MoveEnds.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo {

static bool hasNoEffect(Operation &op) {
  return op.getNumRegions() == 0 && isMemoryEffectFree(&op) && !op.hasTrait<OpTrait::IsTerminator>();
}

/// The op of its block that the end of a transfer is in, if there is nothing else in that nest.
static Operation *loneNestOf(Operation *end) {
  Operation *nest = end;
  while (!isa<ProgramOp>(nest->getParentOp())) {
    bool isAlone = llvm::all_of(*nest->getBlock(),
                                [&](Operation &op) { return &op == nest || hasNoEffect(op) || isa<scf::YieldOp>(op); });
    if (!isAlone)
      break;
    nest = nest->getParentOp();
  }
  return nest;
}

static bool touches(Operation &op, Value buffer) {
  return op
      .walk([&](Operation *inner) {
        auto move = dyn_cast<MoveInterface>(inner);
        auto divide = dyn_cast<DivideOp>(inner);
        bool isUse = (move && (move.getSource() == buffer || move.getDestination() == buffer)) ||
                     (divide && divide.getBuffer() == buffer);
        return isUse ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether anything but arithmetic stands from one op to another one that comes later, or to the end of the block.
static bool standsBetween(Block::iterator from, Block::iterator to) {
  return llvm::any_of(llvm::make_range(from, to),
                      [](Operation &op) { return !hasNoEffect(op) && !op.hasTrait<OpTrait::IsTerminator>(); });
}

static SmallVector<Block::iterator> findLaterPlaces(const ProjectedTransfer &transfer) {
  SmallVector<Block::iterator> places;
  if (transfer.isPull())
    return places;
  Operation *nest = loneNestOf(transfer.wait);
  Block *block = nest->getBlock();
  auto after = std::next(nest->getIterator()), end = block->end();
  if (end != block->begin() && block->back().hasTrait<OpTrait::IsTerminator>())
    --end;
  Value arrived = cast<MoveInterface>(transfer.move).getDestination();
  auto addPlace = [&](Block::iterator to) {
    // A pull is known by its wait and its read standing together.
    while (to != after && isa<WaitOp>(*std::prev(to)))
      --to;
    if (standsBetween(after, to))
      places.push_back(to);
  };
  for (auto op = after; op != end; ++op)
    if (touches(*op, arrived))
      addPlace(op);
  addPlace(end);
  std::reverse(places.begin(), places.end());
  return places;
}

/// Moves an op up in its block, before another one, and the arithmetic that it needs.
static void raise(Operation *op, Operation *before) {
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands()) {
      Operation *definition = operand.getDefiningOp();
      if (definition && definition->getBlock() == op->getBlock() && !definition->isBeforeInBlock(before))
        raise(definition, before);
    }
  });
  op->moveBefore(before);
}

static SmallVector<Operation *> findEarlierPlaces(const ProjectedTransfer &transfer) {
  SmallVector<Operation *> places;
  if (!transfer.isPull())
    return places;
  Operation *nest = loneNestOf(transfer.signal);
  Block *block = nest->getBlock();
  Value source = cast<MoveInterface>(transfer.move).getSource();
  auto addPlace = [&](Block::iterator to) {
    while (&*to != nest && (hasNoEffect(*to) || isa<SignalOp, BufferOp>(*to)))
      ++to;
    // A push is known by its write and its signal standing together: no other signal may take that place.
    bool isOfPush = to != block->begin() && isa<PutOp>(*std::prev(to));
    if (!isOfPush && standsBetween(to, nest->getIterator()))
      places.push_back(&*to);
  };
  auto program = dyn_cast<ProgramOp>(block->getParentOp());
  Block::iterator begin = program ? afterEnter(program) : block->begin();
  addPlace(begin);
  for (auto op = begin; &*op != nest; ++op)
    if (touches(*op, source))
      addPlace(std::next(op));
  return places;
}

const EndPlaces laterWaits = {[](const ProjectedTransfer &transfer) { return findLaterPlaces(transfer).size(); },
                              [](const ProjectedTransfer &transfer, size_t place) {
                                Operation *nest = loneNestOf(transfer.wait);
                                nest->moveBefore(nest->getBlock(), findLaterPlaces(transfer)[place]);
                              }};

const EndPlaces earlierSignals = {[](const ProjectedTransfer &transfer) { return findEarlierPlaces(transfer).size(); },
                                  [](const ProjectedTransfer &transfer, size_t place) {
                                    raise(loneNestOf(transfer.signal), findEarlierPlaces(transfer)[place]);
                                  }};

} // namespace kolo
