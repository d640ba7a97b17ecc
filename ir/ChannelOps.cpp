// Verifiers of the channel phase.
#include "ir/VerifyProgram.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo {

LogicalResult ProgramOp::verify() {
  if (failed(verifyProgramShape(*this, {getCollective(), getMesh(), getMeshes()}, "program")))
    return failure();
  if (getProved() && !areOfMeshes(*getProved(), getMeshes()))
    return emitOpError("program_c10: is proved on another mesh than those it is compiled for, or twice on one");
  if (getUnproved() && getProved() && getProved()->size() == getMeshes().size())
    return emitOpError("program_c11: is proved on all of its meshes, and unproved");
  return success();
}

static bool hasRole(Value buffer, BufferRole role) {
  auto op = buffer.getDefiningOp<BufferOp>();
  return op && op.getRole() == role;
}
static bool isPublished(Value buffer) { return hasRole(buffer, BufferRole::Published); }
static bool isPackets(Value buffer) { return hasRole(buffer, BufferRole::Packets); }

static LogicalResult verifyPublished(ProgramOp program) {
  bool hasEntered = program.getBody().getOps<EnterOp>().empty();
  WalkResult result = program.walk<WalkOrder::PreOrder>([&](Operation *op) {
    hasEntered |= isa<EnterOp>(op);
    auto move = dyn_cast<MoveInterface>(op);
    auto divide = dyn_cast<DivideOp>(op);
    bool writes = (move && (move.getDestinationRank() || hasEntered) && isPublished(move.getDestination())) ||
                  (divide && isPublished(divide.getBuffer()));
    if (!writes)
      return WalkResult::advance();
    op->emitOpError("program_c5: writes a published buffer, which only this rank may, and before it enters");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

static LogicalResult verifyPackets(ProgramOp program) {
  auto buffers =
      llvm::make_filter_range(program.getBody().getOps<BufferOp>(), [](BufferOp buffer) { return isPackets(buffer); });
  if (buffers.empty())
    return success();
  for (BufferOp buffer : buffers)
    if (buffer.getLl128() != (*buffers.begin()).getLl128())
      return buffer.emitOpError("program_c9: some packets are LL128, and some are LL");
  WalkResult result = program.walk([](Operation *op) {
    auto move = dyn_cast<MoveInterface>(op);
    auto divide = dyn_cast<DivideOp>(op);
    auto fuse = dyn_cast<FuseOp>(op);
    bool reads = move && isPackets(move.getSource()), writes = move && isPackets(move.getDestination());
    bool isMisused = (reads && (writes || move.getSourceRank() || isa<PutOp>(op) || op->getParentOfType<FuseOp>())) ||
                     (writes && (!isa<PutOp>(op) || op->getParentOfType<FuseOp>())) ||
                     (divide && isPackets(divide.getBuffer())) || (fuse && isPackets(fuse.getBuffer()));
    if (isMisused) {
      op->emitOpError(
          "program_c6: packets are put, then copied or reduced by the rank that owns them, and nothing else");
      return WalkResult::interrupt();
    }
    if ((reads || writes) && move.getPart() &&
        !(move.getPart().getDefiningOp<LaneOp>() && move.getParts().getDefiningOp<NumLanesOp>())) {
      op->emitOpError("program_c8: moves packets by other parts than lane of num_lanes");
      return WalkResult::interrupt();
    }
    if (move && (move.getSourceRank() || (move.getDestinationRank() && !writes))) {
      op->emitOpError("program_c7: accesses other memory of a peer's in a program with packets");
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

static std::optional<uint64_t> semaphoreOf(Operation *op) {
  if (auto signal = dyn_cast<SignalOp>(op))
    return signal.getSemaphore();
  auto wait = dyn_cast<WaitOp>(op);
  return wait ? std::optional(wait.getSemaphore()) : std::nullopt;
}

static LogicalResult verifyCredits(ProgramOp program) {
  llvm::DenseMap<uint64_t, std::optional<CreditKind>> kinds;
  WalkResult result = program.walk([&](Operation *op) -> WalkResult {
    std::optional<uint64_t> semaphore = semaphoreOf(op);
    if (!semaphore)
      return WalkResult::advance();
    std::optional<CreditKind> credit = creditOf(op);
    if (credit && program.getNeedsHandshake())
      return op->emitOpError("program_c12: is a credit of a program that needs a handshake");
    if (kinds.try_emplace(*semaphore, credit).first->second != credit)
      return op->emitOpError("program_c13: is another kind of credit than others of semaphore ") << *semaphore;
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult ProgramOp::verifyRegions() {
  WalkResult result = walk([](Operation *op) {
    if (!isa<StatementInterface>(op))
      return WalkResult::advance();
    op->emitOpError("program_c4: belongs to the choreography phase");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted() || failed(verifyPublished(*this)) || failed(verifyPackets(*this)) ||
                 failed(verifyCredits(*this)) || failed(verifyLoops(*this, "program_c14")));
}

LogicalResult EnterOp::verify() {
  auto program = dyn_cast<ProgramOp>((*this)->getParentOp());
  if (!program || *program.getBody().getOps<EnterOp>().begin() != *this)
    return emitOpError("enter_c1: must be at the top level of a program, once");
  for (Operation &op : llvm::make_range(program.getBody().front().begin(), (*this)->getIterator())) {
    WalkResult result = op.walk([](Operation *inner) {
      auto move = dyn_cast<MoveInterface>(inner);
      bool publishes = move && !move.getSourceRank() && isPublished(move.getDestination());
      bool isOther = move ? !publishes : isa<SignalOp, WaitOp, FlushOp, DivideOp, FuseOp>(inner);
      return isOther ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (result.wasInterrupted())
      return emitOpError("enter_c2: only what fills published buffers may come before it");
  }
  return success();
}

LogicalResult CoordOp::verify() {
  ArrayAttr mesh = enclosingProgram(*this).mesh;
  if (!mesh || getDim() >= mesh.size() || int64_t(getDim()) < 0)
    return emitOpError("coord_c1: the mesh has no dimension ") << int64_t(getDim());
  return success();
}

static LogicalResult verifySemaphore(Operation *op, int64_t semaphore, StringRef label) {
  auto program = op->getParentOfType<ProgramOp>();
  if (!program || semaphore < 0 || semaphore >= int64_t(program.getSemaphores()))
    return op->emitOpError() << label << ": the program has no semaphore " << semaphore;
  return success();
}

LogicalResult SignalOp::verify() { return verifySemaphore(*this, getSemaphore(), "signal_c1"); }
LogicalResult WaitOp::verify() { return verifySemaphore(*this, getSemaphore(), "wait_c1"); }

/// Checks five constraints of an op that moves chunks; the first of them is `label`_c`first`. A reduce has its own rule
/// in place of the last.
static LogicalResult verifyMove(MoveInterface move, StringRef label, int first) {
  if (!fitsGrid(move.getSource(), move.getSourceOffsets(), move.getSourceSizes()) ||
      !fitsGrid(move.getDestination(), move.getDestinationOffsets(), move.getDestinationSizes()))
    return move->emitOpError() << label << "_c" << first << ": a slice does not have its buffer's grid rank";
  if (countRanged(move.getSourceSizes()) != countRanged(move.getDestinationSizes()))
    return move->emitOpError() << label << "_c" << first + 1 << ": the source slice has "
                               << countRanged(move.getSourceSizes()) << " ranged dimensions, the destination slice "
                               << countRanged(move.getDestinationSizes());
  if (bool(move.getPart()) != bool(move.getParts()))
    return move->emitOpError() << label << "_c" << first + 2 << ": `part` and `of` come together";
  if (hasSlots(move.getSource()) && hasSlots(move.getDestination()))
    return move->emitOpError() << label << "_c" << first + 3 << ": one side must be a chunk of a buffer without slots";
  if (haveDifferentScales(move.getSource(), move.getDestination()))
    return move->emitOpError() << label << "_c" << first + 4 << ": the buffers have two different codecs with scales";
  return success();
}

LogicalResult PutOp::verify() { return verifyMove(*this, "put", 1); }
LogicalResult GetOp::verify() { return verifyMove(*this, "get", 1); }
LogicalResult ChannelCopyOp::verify() { return verifyMove(*this, "copy", 2); }

LogicalResult ChannelReduceOp::verify() {
  if (codec::Codec codec = codecOf(getDestination()); codec::isScaled(codec) || codec.isStochastic())
    return emitOpError("reduce_c6: combines into a buffer whose codec has scales, or is stochastic");
  return verifyMove(*this, "reduce", 2);
}

std::optional<CreditKind> creditOf(Operation *op) {
  if (auto signal = dyn_cast<SignalOp>(op))
    return signal.getCredit();
  auto wait = dyn_cast<WaitOp>(op);
  return wait ? wait.getCredit() : std::nullopt;
}

SmallVector<MoveInterface> FuseOp::getMoves() {
  SmallVector<MoveInterface> moves;
  getBody().walk([&](MoveInterface move) { moves.push_back(move); });
  return moves;
}

bool FuseOp::isReducing() {
  return getBody().walk([](ChannelReduceOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

bool FuseOp::isCoded() {
  auto hasCodec = [](Value buffer) { return !codec::isNone(codecOf(buffer)); };
  return llvm::any_of(
      getMoves(), [&](MoveInterface move) { return hasCodec(move.getSource()) || hasCodec(move.getDestination()); });
}

bool FuseOp::isOverwriting() {
  MoveInterface first = getMoves().front();
  return isInto(first) && !isa<ChannelReduceOp>(first.getOperation());
}

DivideOp FuseOp::getDivision() {
  auto divisions = getBody().getOps<DivideOp>();
  return divisions.empty() ? DivideOp() : *divisions.begin();
}

namespace {

/// What a move reads or writes.
struct MovedSlice {
  Value buffer, rank;
  OperandRange offsets, sizes;
};

} // namespace

static MovedSlice sourceOf(MoveInterface move) {
  return {move.getSource(), move.getSourceRank(), move.getSourceOffsets(), move.getSourceSizes()};
}

static MovedSlice destinationOf(MoveInterface move) {
  return {move.getDestination(), move.getDestinationRank(), move.getDestinationOffsets(), move.getDestinationSizes()};
}

static bool isSliceOf(FuseOp fuse, const MovedSlice &side) {
  return !side.rank && side.buffer == fuse.getBuffer() && llvm::equal(side.offsets, fuse.getOffsets()) &&
         llvm::equal(side.sizes, fuse.getSizes());
}

bool FuseOp::isInto(MoveInterface move) { return isSliceOf(*this, destinationOf(move)); }
bool FuseOp::isOutOf(MoveInterface move) { return isSliceOf(*this, sourceOf(move)); }

LogicalResult FuseOp::verify() {
  if (!fitsGrid(getBuffer(), getOffsets(), getSizes()) || bool(getPart()) != bool(getParts()))
    return emitOpError("fuse_c1: the slice does not have the buffer's grid rank, or only one of `part` and `of`");
  if (countRanged(getSizes()) != 0 || hasSlots(getBuffer()))
    return emitOpError("fuse_c2: the slice must be one chunk of a buffer without slots");
  if (codec::Codec codec = codecOf(getBuffer()); codec::isScaled(codec) || codec.isStochastic())
    return emitOpError("fuse_c9: the buffer's codec has scales, or is stochastic");
  return success();
}

/// Whether two slices may be the same memory of the same rank, as far as the buffers tell.
static bool mayAlias(FuseOp fuse, Value a, Value b) {
  if (a == b)
    return true;
  auto roleOf = [](Value buffer) { return buffer.getDefiningOp<BufferOp>().getRole(); };
  if (!isOfCaller(roleOf(a)) || !isOfCaller(roleOf(b)))
    return false;
  // Two names of the input or of the output, or one of both.
  return roleOf(a) == roleOf(b) || fuse->getParentOfType<ProgramOp>().getInPlace() == InPlace::Direct;
}

/// Whether slices of two buffers that may be one memory are the same chunk: of buffers that are cut alike.
static bool areSameChunk(const MovedSlice &a, const MovedSlice &b) {
  auto first = a.buffer.getDefiningOp<BufferOp>(), second = b.buffer.getDefiningOp<BufferOp>();
  return llvm::equal(first.getGrid(), second.getGrid()) && first.getBlocks() == second.getBlocks() &&
         llvm::equal(a.offsets, b.offsets);
}

/// Whether a division is of the fused slice, in no loop.
static bool isDivisionOf(FuseOp fuse, DivideOp divide) {
  return divide->getParentOp() == fuse &&
         isSliceOf(fuse, {divide.getBuffer(), Value(), divide.getOffsets(), divide.getSizes()}) &&
         divide.getPart() == fuse.getPart() && divide.getParts() == fuse.getParts();
}

static bool isSame(const MovedSlice &a, const MovedSlice &b) {
  return a.rank == b.rank && a.buffer == b.buffer && llvm::equal(a.offsets, b.offsets) && llvm::equal(a.sizes, b.sizes);
}

LogicalResult FuseOp::verifyRegions() {
  bool hasMoved = false, hasCombined = false, isOut = false, isCoded = this->isCoded();
  SmallVector<std::pair<MovedSlice, bool>> read, written; // with whether the move goes into the slice
  SmallVector<MovedSlice> copies;
  WalkResult result = getBody().walk<WalkOrder::PreOrder>([&](Operation *op) -> WalkResult {
    if (auto divide = dyn_cast<DivideOp>(op)) {
      if (isOut || !hasCombined || isCoded || !isDivisionOf(*this, divide))
        return op->emitOpError(
            "fuse_c8: must divide the fused slice, with its part, once and in no loop, between what is "
            "combined into it and what goes out of it, where nothing has a codec");
      isOut = true;
      return WalkResult::advance();
    }
    auto move = dyn_cast<MoveInterface>(op);
    if (!move) {
      bool isAllowed =
          isa<scf::ForOp>(op) ? op->getNumResults() == 0 : op->getNumRegions() == 0 && isMemoryEffectFree(op);
      return isAllowed ? WalkResult::advance() : op->emitOpError("fuse_c3: may not be fused");
    }
    bool isInto = this->isInto(move);
    bool isPassedOn = codecOf(move.getSource()) == codecOf(move.getDestination()) &&
                      llvm::any_of(copies, [&](const MovedSlice &copy) { return isSame(copy, sourceOf(move)); });
    if ((!isInto && !isOutOf(move) && !isPassedOn) || (isInto && isOut) || move.getPart() != getPart() ||
        move.getParts() != getParts())
      return op->emitOpError("fuse_c4: must move the fused slice, with its part, and into it before out of it");
    if (!isInto && isa<ChannelReduceOp>(op))
      return op->emitOpError("fuse_c7: combines the fused slice with something else, and must overwrite it");
    isOut |= !isInto;
    if (isInto && !isa<ChannelReduceOp>(op) && (hasMoved || op->getParentOp() != getOperation()))
      return op->emitOpError("fuse_c5: only the first move, in no loop, may overwrite the fused slice");
    hasMoved = true;
    hasCombined |= isa<ChannelReduceOp>(op);
    if (!isInto && !move.getDestinationRank() && !hasSlots(move.getDestination()) &&
        op->getParentOp() == getOperation())
      copies.push_back(destinationOf(move));
    read.emplace_back(sourceOf(move), isInto);
    written.emplace_back(destinationOf(move), isInto);
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  for (const auto &[source, isReadInto] : read)
    for (const auto &[destination, isWrittenInto] : written)
      // Chunks of one buffer are one, or have nothing in common; and what goes in is read before anything goes out.
      if (!(source.buffer == destination.buffer && isReadInto && !isWrittenInto) &&
          mayAlias(*this, source.buffer, destination.buffer) && !areSameChunk(source, destination))
        return emitOpError("fuse_c6: one move may overwrite what another has still to read");
  return success();
}

LogicalResult DivideOp::verify() {
  if (!fitsGrid(getBuffer(), getOffsets(), getSizes()))
    return emitOpError("divide_c1: the slice does not have the buffer's grid rank");
  if (bool(getPart()) != bool(getParts()))
    return emitOpError("divide_c2: `part` and `of` come together");
  if (hasSlots(getBuffer()))
    return emitOpError("divide_c3: the length of what is in a slot is not known");
  return success();
}

} // namespace kolo
