// FuseMoves: makes one pass over memory of moves that have a slice in common, chunk by chunk.
//   Before:  copy %in[%me] -> %out[%me]; for %p { wait 0; reduce %in[%me] -> %out[%me] from %p };
//            for %p { put %out[%me]; signal 1 }
//   After:   for %p { wait 0 }; fuse %out[%me] { copy; for %p { reduce }; for %p { put } }; for %p { signal 1 }
//   For a slice of several chunks, %out[0] size [%n]: for %i = 0 to %n { fuse %out[%i] { ... } }
// Where buffers have codecs, what the slice is encoded to and passed on from there belongs to the pass too:
//   Before:  copy %in[%me] -> %sum[%me]; ...; for %p { wait 0; reduce %slots[%p] -> %sum[%me] };
//            copy %sum[%me] -> %packed[%me]; for %p { put %packed[%me]; signal 1 }
//   After:   ...; for %p { wait 0 }; fuse %sum[%me] { copy; for %p { reduce }; copy; for %p { put } };
//            for %p { signal 1 }
// Some loops encode a sum for a peer and then add what arrives. They are rotated first: then one fuse adds to the sum
// and sends it on:
//   Before:  for %i { put %sum[%x - %i] -> %slots[%i]; signal 0; wait 0; reduce %slots[%i] -> %sum[%x - 1 - %i] }
//   After:   put; signal; for %i { wait; fuse %sum[%x - 1 - %i] { reduce; put }; signal }; wait; reduce
// So is a loop that sends on, first, what was encoded just before it:
//   Before:  copy %sum[%me] -> %packed[%me]; for %i { put %packed[%me - %i]; signal 1; wait 1 }
//   After:   fuse %sum[%me] { copy; put }; signal; for %i { wait; put; signal }; wait
// All waits then come before the moves, and all signals after them. The only new risk is a circle of ranks that wait
// for each other; the pass keeps a program only if the checker proves it. Requires channel form with lanes placed, and
// a clean-up before, so that equal values are one value.
#include "compiler/Passes.h"
#include "compiler/check/Verdict.h"
#include "compiler/project/Relations.h"
#include "compiler/schedule/Arithmetic.h"
#include "compiler/schedule/RotateLoop.h"
#include "ir/IndexArithmetic.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_FUSEMOVES
#include "compiler/Passes.h.inc"

namespace {

/// A move, or a loop around one, with the waits before it and the signals after it.
struct Unit {
  Operation *op = nullptr;
  MoveInterface move; // null: waits only
  SmallVector<Operation *, 2> waits, signals;

  bool isLoop() const { return isa<scf::ForOp>(op); }
};

bool movesPackets(MoveInterface move) { return arePackets(move.getSource()) || arePackets(move.getDestination()); }

/// Nothing if an op is something else, as a read of packets: it waits in the middle of its move.
std::optional<Unit> asUnit(Operation &op) {
  Unit unit;
  unit.op = &op;
  bool isOther = false;
  op.walk<WalkOrder::PreOrder>([&](Operation *inner) {
    if (auto move = dyn_cast<MoveInterface>(inner)) {
      isOther |= unit.move || !unit.signals.empty() || movesPackets(move) || isPutToInbox(move);
      unit.move = move;
    } else if (isa<WaitOp>(inner)) {
      isOther |= bool(unit.move);
      unit.waits.push_back(inner);
    } else if (isa<SignalOp>(inner)) {
      unit.signals.push_back(inner);
    } else if (auto loop = dyn_cast<scf::ForOp>(inner)) {
      isOther |= loop.getNumResults() != 0 || inner != &op; // one loop: over peers
    } else {
      isOther |= !isArithmetic(*inner) && !isa<scf::YieldOp>(inner);
    }
  });
  if (isOther || (!unit.move && (unit.waits.empty() || !unit.signals.empty())))
    return std::nullopt;
  return unit;
}

/// A slice of this rank's memory.
struct Slice {
  Value buffer;
  SmallVector<Value, 4> offsets, sizes;

  bool operator==(const Slice &) const = default;
};

std::optional<Slice> sliceOf(Value buffer, Value rank, OperandRange offsets, OperandRange sizes) {
  if (rank || hasSlots(buffer))
    return std::nullopt;
  return Slice{buffer, llvm::to_vector<4>(offsets), llvm::to_vector<4>(sizes)};
}

std::optional<Slice> sourceOf(MoveInterface move) {
  return sliceOf(move.getSource(), move.getSourceRank(), move.getSourceOffsets(), move.getSourceSizes());
}

std::optional<Slice> destinationOf(MoveInterface move) {
  return sliceOf(move.getDestination(), move.getDestinationRank(), move.getDestinationOffsets(),
                 move.getDestinationSizes());
}

/// Loops over the ranged dimensions of a slice. They narrow this slice, and those that move to it or from it, to one
/// chunk. All of these have as many ranged dimensions, which pair in their order. Equal slices become equal values.
class ChunkLoops {
public:
  /// Leaves the builder in the innermost loop; where it was if nothing is ranged.
  ChunkLoops(OpBuilder &builder, Location loc, ArrayRef<Value> sizes);

  /// One slice of an op.
  void narrow(Operation *op, OperandRange offsets, OperandRange sizes);

private:
  Value advance(Value offset, Value step);

  scf::ForOp innermost;
  Value one;
  SmallVector<Value> steps;
  llvm::DenseMap<std::pair<Value, Value>, Value> advanced;
};

ChunkLoops::ChunkLoops(OpBuilder &builder, Location loc, ArrayRef<Value> sizes) {
  if (llvm::none_of(sizes, isRanged))
    return;
  Value zero = createConstant(builder, loc, 0);
  one = createConstant(builder, loc, 1);
  for (Value size : llvm::make_filter_range(sizes, isRanged)) {
    innermost = scf::ForOp::create(builder, loc, zero, size, one);
    builder.setInsertionPointToStart(innermost.getBody());
    steps.push_back(innermost.getInductionVar());
  }
}

/// As soon as both are known.
Value ChunkLoops::advance(Value offset, Value step) {
  Value &sum = advanced[{offset, step}];
  if (sum)
    return sum;
  OpBuilder builder = OpBuilder::atBlockBegin(innermost.getBody());
  if (innermost->isAncestor(offset.getParentBlock()->getParentOp()))
    builder.setInsertionPointAfterValue(offset);
  return sum = createAdd(builder, offset.getLoc(), offset, step);
}

void ChunkLoops::narrow(Operation *op, OperandRange offsets, OperandRange sizes) {
  if (sizes.empty())
    return;
  unsigned firstOffset = offsets.getBeginOperandIndex(), firstSize = sizes.getBeginOperandIndex();
  size_t number = 0;
  for (unsigned dim = 0; dim < sizes.size(); ++dim)
    if (isRanged(op->getOperand(firstSize + dim))) {
      op->setOperand(firstOffset + dim, advance(op->getOperand(firstOffset + dim), steps[number++]));
      op->setOperand(firstSize + dim, one);
    }
}

/// Units that follow each other and have a slice in common.
class Group {
public:
  explicit Group(Slice slice) : slice(std::move(slice)) {}

  /// False when the unit cannot go with those before.
  bool add(const Unit &unit);
  /// Whether the group may run after an op instead of before it, as far as this rank's own memory tells.
  bool canPass(Operation &op) const;
  bool has(Operation *op) const {
    return llvm::any_of(units, [&](const Unit &unit) { return unit.op == op; });
  }
  bool isWorthwhile() const { return numMoves > 1 || hasLoopOfMoves; }
  void fuse();

private:
  /// Copies of the units, with only those of their ops that `isWanted`.
  void cloneUnits(OpBuilder &builder, function_ref<bool(Operation *)> isWanted);

  Slice slice;
  SmallVector<Slice> encoded; // copies of it, in other codecs
  Value part, parts;
  SmallVector<Unit> units;
  int numMoves = 0;
  bool hasLoopOfMoves = false, hasSignals = false, isOut = false;
};

bool Group::add(const Unit &unit) {
  // A peer may wait for the signal, which this rank would now send after its own wait.
  if (!unit.waits.empty() && hasSignals)
    return false;
  if (!unit.move) {
    units.push_back(unit);
    return true;
  }
  MoveInterface move = unit.move;
  std::optional<Slice> source = sourceOf(move), destination = destinationOf(move);
  bool isInto = destination == slice, isOutOf = source == slice;
  // fuse_c4: in the same codec, so that the bytes move as they are.
  bool isPassedOn =
      source && llvm::is_contained(encoded, *source) && codecOf(move.getSource()) == codecOf(move.getDestination());
  // fuse_c7: what combines elsewhere reads the destination too.
  if (!isInto && ((!isOutOf && !isPassedOn) || isa<ChannelReduceOp>(move.getOperation())))
    return false;
  bool overwrites = isInto && !isa<ChannelReduceOp>(move.getOperation());
  if ((isInto && isOut) || (overwrites && (numMoves > 0 || unit.isLoop())))
    return false;
  // The slice must be known before the loop.
  auto loop = dyn_cast<scf::ForOp>(unit.op);
  auto isInside = [&](Value value) { return loop && loop->isAncestor(value.getParentBlock()->getParentOp()); };
  if (llvm::any_of(slice.offsets, isInside) || llvm::any_of(slice.sizes, isInside))
    return false;
  if (numMoves > 0 && (move.getPart() != part || move.getParts() != parts))
    return false;
  part = move.getPart(), parts = move.getParts();
  isOut |= !isInto;
  if (!isInto && destination && !unit.isLoop() && codecOf(move.getDestination()) != codecOf(slice.buffer))
    encoded.push_back(*destination);
  hasLoopOfMoves |= unit.isLoop();
  hasSignals |= !unit.signals.empty();
  ++numMoves;
  units.push_back(unit);
  return true;
}

/// Only a copy that begins a sum with a codec: what is sent meanwhile, and what the sum waits for, often comes between.
bool Group::canPass(Operation &op) const {
  if (units.size() != 1 || !isa<ChannelCopyOp>(units.front().op) || isOut || codec::isNone(codecOf(slice.buffer)))
    return false;
  MoveInterface copy = units.front().move;
  Value source = copy.getSource();
  auto touches = [&](Operation *inner) {
    if (auto move = dyn_cast<MoveInterface>(inner))
      return move.getSource() == slice.buffer || move.getDestination() == slice.buffer ||
             move.getDestination() == source;
    return llvm::is_contained(inner->getOperands(), slice.buffer);
  };
  return !op.walk([&](Operation *inner) {
              return touches(inner) ? WalkResult::interrupt() : WalkResult::advance();
            }).wasInterrupted();
}

void Group::cloneUnits(OpBuilder &builder, function_ref<bool(Operation *)> isWanted) {
  for (const Unit &unit : units) {
    bool hasAny =
        unit.op->walk([&](Operation *op) { return isWanted(op) ? WalkResult::interrupt() : WalkResult::advance(); })
            .wasInterrupted();
    if (!hasAny)
      continue;
    Operation *copy = builder.clone(*unit.op);
    SmallVector<Operation *> unwanted;
    copy->walk([&](Operation *op) {
      if (isa<MoveInterface, SignalOp, WaitOp>(op) && !isWanted(op))
        unwanted.push_back(op);
    });
    for (Operation *op : unwanted)
      op->erase();
  }
}

void Group::fuse() {
  while (!units.back().move) // waits for something else
    units.pop_back();
  // Everything that the units use is computed before the last of them.
  OpBuilder builder(units.back().op);
  cloneUnits(builder, [](Operation *op) { return isa<WaitOp>(op); });
  {
    OpBuilder::InsertionGuard guard(builder);
    Location loc = units.front().move.getLoc();
    ChunkLoops loops(builder, loc, slice.sizes);
    auto fuse = FuseOp::create(builder, loc, slice.buffer, slice.offsets, slice.sizes, part, parts);
    loops.narrow(fuse, fuse.getOffsets(), fuse.getSizes());
    builder.createBlock(&fuse.getBody());
    cloneUnits(builder, [](Operation *op) { return isa<MoveInterface>(op); });
    fuse.getBody().walk([&](MoveInterface move) {
      loops.narrow(move, move.getSourceOffsets(), move.getSourceSizes());
      loops.narrow(move, move.getDestinationOffsets(), move.getDestinationSizes());
    });
  }
  cloneUnits(builder, [](Operation *op) { return isa<SignalOp>(op); });
  for (const Unit &unit : units)
    unit.op->erase();
}

/// The longest group of units from an op on, with a slice of its move.
std::optional<Group> findGroup(Operation &start) {
  std::optional<Unit> first = asUnit(start);
  if (!first || !first->move)
    return std::nullopt;
  for (const std::optional<Slice> &slice : {destinationOf(first->move), sourceOf(first->move)}) {
    // fuse_c9: the elements of the slice are each by itself.
    if (!slice || codec::isScaled(codecOf(slice->buffer)) || codecOf(slice->buffer).isStochastic())
      continue;
    Group group(*slice);
    for (Operation *op = &start; op; op = op->getNextNode()) {
      if (isArithmetic(*op))
        continue;
      std::optional<Unit> unit = asUnit(*op);
      if ((!unit || !group.add(*unit)) && !group.canPass(*op))
        break;
    }
    if (group.isWorthwhile())
      return group;
  }
  return std::nullopt;
}

/// Ops of all blocks from which a group may start, in the order of the text.
SmallVector<Operation *> startsOf(ProgramOp program) {
  SmallVector<Operation *> starts;
  program.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<FuseOp>(op))
      return WalkResult::skip();
    if (isa<MoveInterface, scf::ForOp>(op))
      starts.push_back(op);
    return WalkResult::advance();
  });
  return starts;
}

/// The op from which on an iteration works on what arrived, to send it on in the next one: its first wait, if a put
/// comes before it. Null if there is none.
Operation *arrivalIn(scf::ForOp loop) {
  if (loop.getNumResults() != 0 || isRanged(loop.getStep()))
    return nullptr;
  bool sends = false;
  for (Operation &op : *loop.getBody()) {
    if (isa<WaitOp>(op))
      return sends ? &op : nullptr;
    sends |= isa<PutOp>(op);
  }
  return nullptr;
}

/// In a rotated loop: what is combined and sent on, which was in two iterations.
std::optional<Group> findCarried(scf::ForOp rotated) {
  for (auto reduce : rotated.getBody()->getOps<ChannelReduceOp>())
    if (std::optional<Group> group = findGroup(*reduce))
      return group;
  return std::nullopt;
}

/// What was made just before a rotated loop, and is sent ahead of it.
std::optional<Group> findSentAhead(scf::ForOp rotated) {
  Operation *ahead = rotated->getPrevNode();
  while (ahead && isArithmetic(*ahead))
    ahead = ahead->getPrevNode();
  for (Operation &op : *rotated->getBlock()) {
    if (&op == ahead || !ahead)
      return std::nullopt;
    if (std::optional<Group> group = findGroup(op); group && group->has(ahead))
      return group;
  }
  return std::nullopt;
}

struct FuseMoves : impl::FuseMovesBase<FuseMoves> {
  using FuseMovesBase::FuseMovesBase;

  void runOnOperation() override {
    numBytes = guessBudget;
    // What is encoded anew for every hop, or encoded and sent on from there.
    for (size_t number = 0; findCoded(getOperation()) && number < startsOf(getOperation()).size(); ++number)
      keepIf([&](ProgramOp changed) {
        auto loop = dyn_cast<scf::ForOp>(startsOf(changed)[number]);
        Operation *arrival = loop ? arrivalIn(loop) : nullptr;
        if (!arrival)
          return false;
        scf::ForOp rotated = rotateLoop(loop, arrival);
        std::optional<Group> group = findCarried(rotated);
        if (!group)
          group = findSentAhead(rotated);
        if (group)
          group->fuse();
        return group.has_value();
      });
    for (size_t number = 0; number < startsOf(getOperation()).size(); ++number)
      keepIf([&](ProgramOp changed) {
        std::optional<Group> group = findGroup(*startsOf(changed)[number]);
        if (group)
          group->fuse();
        return group.has_value();
      });
  }

private:
  /// Changes a copy of the program, and takes it if it was changed and is proved.
  void keepIf(function_ref<bool(ProgramOp changed)> change) {
    OwningOpRef<ProgramOp> changed(getOperation().clone());
    if (change(*changed) && succeeded(verifyQuietly(*changed)) && isProved(*changed))
      getOperation().getBody().takeBody(changed->getBody());
  }

  /// Small meshes refute most, soonest.
  bool isProved(ProgramOp changed) {
    return isProvedOnSmallMeshes(changed, numBytes, budget) &&
           (!inFull || isProvedOnItsMeshes(changed, optionsInFull(changed, {budget, represented, standInBudget})));
  }

  int64_t numBytes = 0; // that guesses about this program took so far

  /// The op's own constraints say which moves may be fused.
  static LogicalResult verifyQuietly(ProgramOp program) {
    ScopedDiagnosticHandler quiet(program.getContext(), [](Diagnostic &) { return success(); });
    return mlir::verify(program);
  }
};

} // namespace
} // namespace kolo
