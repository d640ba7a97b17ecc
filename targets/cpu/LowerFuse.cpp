// The lowering of a fuse: two lists of addresses, and one call that loads from every source address and stores to every
// destination address.
//   Before:  kolo.chan.fuse %out[%me] {
//              copy %in -> %out; for %p { reduce %in -> %out from %p }; for %p { put %out to %p } }
//   After:   lists of addresses, made by the same loops; the call's reduction of all sources into all destinations
//
// If the fuse divides and the call asks for an average, the reduction divides the sum.
//
// Where a buffer has a codec, the lists say the codec of every address, and the call is that of convertFusedFunction.
//
// The pass writes what has an address. Puts to peers whose memory is not mapped here, as on another host, come after it
// and send the result. Where a source has no address, the program makes the moves one after the other instead.
#include "targets/cpu/CodecFunctions.h"
#include "targets/cpu/ProgramLowering.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo::cpu {

/// Lists of addresses, in this lane's tile, and how long they are.
struct ProgramLowering::FusedLists {
  FuseOp fuse;
  bool isCoded = false;
  Value sources = {},
        destinations = {}; // lists of pointers: of addresses, each with a codec behind it if the fuse is coded
  Value room = {};         // of entries in a list, i64
  // Variables of type i64. `numWithoutAddress` is of sources, and of entries for which there is no room; `numLeft` of
  // puts without an address; bytes are those to and from peers that have an address.
  Value numSources = {}, numDestinations = {}, numWithoutAddress = {}, numLeft = {}, bytesSent = {}, bytesFetched = {};
  bool isListed = false; // then the puts that are left are being made
  bool isEmpty = false;  // then nothing is listed: the moves only write their notes
};

/// In the function's entry block, where LLVM makes a register of it.
Value ProgramLowering::createVariable() {
  OpBuilder::InsertionGuard guard(builder);
  Operation *around = builder.getInsertionBlock()->getParentOp();
  builder.setInsertionPointToStart(&around->getParentOfType<LLVM::LLVMFuncOp>().getBody().front());
  return LLVM::AllocaOp::create(builder, loc, pointerType(builder), builder.getI64Type(), constantI64(builder, loc, 1));
}

Value ProgramLowering::load(Value variable) {
  return LLVM::LoadOp::create(builder, loc, builder.getI64Type(), variable);
}

void ProgramLowering::store(Value variable, Value value) { LLVM::StoreOp::create(builder, loc, value, variable); }

void ProgramLowering::append(Value list, Value number, Value address, const codec::Codec &codec) {
  OpBuilder::InsertionGuard guard(builder);
  Value count = load(number);
  Value fits = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, count, lists->room);
  auto choice = scf::IfOp::create(builder, loc, fits, /*withElseRegion=*/true);
  builder.setInsertionPointToStart(choice.elseBlock());
  increase(lists->numWithoutAddress, constantI64(builder, loc, 1));
  builder.setInsertionPointToStart(choice.thenBlock());
  Value entry = toIndex(builder, loc, count);
  if (lists->isCoded) {
    entry = createMul(builder, loc, entry, constant(2));
    storeEntry(builder, loc, list, createAdd(builder, loc, entry, constant(1)),
               createDescription(builder, loc, module, codec));
  }
  storeEntry(builder, loc, list, entry, address);
  increase(number, constantI64(builder, loc, 1));
}

void ProgramLowering::increase(Value variable, Value number) {
  store(variable, arith::AddIOp::create(builder, loc, load(variable), number));
}

static bool isWritten(FuseOp fuse) {
  return llvm::any_of(fuse.getMoves(), [&](MoveInterface move) { return fuse.isInto(move); });
}

static Value isNull(OpBuilder &builder, Location loc, Value address) {
  return LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::eq, address,
                              LLVM::ZeroOp::create(builder, loc, pointerType(builder)));
}

/// A put whose destination has no address is left for later.
void ProgramLowering::listPut(MoveInterface move) {
  const PlacedBuffer &destination = bufferOf(move.getDestination());
  Value rank = integer(mapped(move.getDestinationRank())), role = constantI64(builder, loc, int64_t(destination.role));
  buildRanges(move, [&](OpBuilder &, Value sourceBegin, Value destinationBegin, Value length) {
    OpBuilder::InsertionGuard guard(builder);
    Value size = integer(createChunkBytes(builder, loc, frame.call, destination.shape, length));
    Value base = access().peerBuffer(role, rank);
    auto isMissing = scf::IfOp::create(builder, loc, isNull(builder, loc, base), /*withElseRegion=*/true);
    builder.setInsertionPointToStart(isMissing.thenBlock());
    if (lists->isListed) {
      if (isConverting(move))
        return lowerConversion(move, sourceBegin, destinationBegin, length, {});
      return call(putFunction, {frame.invocation, rank, role, byteOffset(destination, destinationBegin),
                                addressOf(move.getSource(), sourceBegin), size, constantI64(builder, loc, 0)});
    }
    increase(lists->numLeft, constantI64(builder, loc, 1));
    builder.setInsertionPointToStart(isMissing.elseBlock());
    increase(lists->bytesSent, size);
    append(lists->destinations, lists->numDestinations,
           advance(builder, loc, base, byteOffset(destination, destinationBegin)), destination.shape.codec);
  });
}

/// Appends the side of a move that is not the common chunk.
void ProgramLowering::listMove(MoveInterface move) {
  if (lists->isEmpty)
    return buildRanges(move, [](OpBuilder &, Value, Value, Value) {});
  if (move.getDestinationRank())
    return listPut(move);
  if (lists->isListed)
    return;
  bool isInto = lists->fuse.isInto(move);
  Value buffer = isInto ? move.getSource() : move.getDestination();
  const PlacedBuffer &other = bufferOf(buffer);
  Value rank = mapped(move.getSourceRank());
  buildRanges(move, [&](OpBuilder &, Value sourceBegin, Value destinationBegin, Value length) {
    Value begin = isInto ? sourceBegin : destinationBegin, base = bases.lookup(buffer);
    if (rank) {
      base = access().peerBuffer(constantI64(builder, loc, int64_t(other.role)), integer(rank));
      Value number = arith::ExtUIOp::create(builder, loc, builder.getI64Type(), isNull(builder, loc, base));
      increase(lists->numWithoutAddress, number);
      increase(lists->bytesFetched, integer(createChunkBytes(builder, loc, frame.call, other.shape, length)));
    }
    append(isInto ? lists->sources : lists->destinations, isInto ? lists->numSources : lists->numDestinations,
           advance(builder, loc, base, byteOffset(other, begin)), other.shape.codec);
  });
}

void ProgramLowering::lowerFuse(FuseOp fuse) {
  // One chunk is one range: no loops.
  buildSliceRanges(fuse, [&](OpBuilder &, Value begin, Value, Value length) { lowerFusedRange(fuse, begin, length); });
}

void ProgramLowering::lowerFusedRange(FuseOp fuse, Value begin, Value length) {
  OpBuilder::InsertionGuard guard(builder);
  Value isSome = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, length, constant(0));
  const bool hasNotes = llvm::any_of(
      fuse.getMoves(), [&](MoveInterface move) { return bool(bufferOf(move.getDestination()).shape.notes); });
  auto choice = scf::IfOp::create(builder, loc, isSome, /*withElseRegion=*/hasNotes);
  if (hasNotes) { // of an empty chunk, too, the notes go on
    builder.setInsertionPointToStart(choice.elseBlock());
    FusedLists empty{.fuse = fuse, .isEmpty = true};
    lists = &empty;
    lowerBlock(fuse.getBody().front());
    lists = nullptr;
  }
  builder.setInsertionPointToStart(choice.thenBlock());

  Value tile = access().loadPointer(offsetof(KoloInvocation, tile));
  Value half = arith::ShRUIOp::create(builder, loc, access().loadInteger(offsetof(KoloInvocation, tileBytes)),
                                      constantI64(builder, loc, 1));
  bool isCoded = fuse.isCoded();
  int64_t entryBytes = (isCoded ? 2 : 1) * int64_t(sizeof(void *));
  Value room = arith::DivUIOp::create(builder, loc, half, constantI64(builder, loc, entryBytes));
  FusedLists made{fuse,
                  isCoded,
                  tile,
                  advance(builder, loc, tile, half),
                  room,
                  createVariable(),
                  createVariable(),
                  createVariable(),
                  createVariable(),
                  createVariable(),
                  createVariable()};
  for (Value number :
       {made.numSources, made.numDestinations, made.numWithoutAddress, made.numLeft, made.bytesSent, made.bytesFetched})
    store(number, constantI64(builder, loc, 0));
  lists = &made;
  Value address = addressOf(fuse.getBuffer(), begin);
  if (!isCoded && !fuse.isOverwriting())
    append(made.sources, made.numSources, address, codecOf(fuse.getBuffer()));
  if (!isCoded && isWritten(fuse))
    append(made.destinations, made.numDestinations, address, codecOf(fuse.getBuffer()));
  lowerBlock(fuse.getBody().front());
  lists = nullptr;

  auto conditional = scf::IfOp::create(builder, loc, isNotZero(builder, loc, load(made.numWithoutAddress)), true);
  builder.setInsertionPointToStart(conditional.thenBlock());
  lowerBlock(fuse.getBody().front());
  builder.setInsertionPointToStart(conditional.elseBlock());
  for (auto [traffic, numBytes] : {std::pair(KOLO_SENT, made.bytesSent), {KOLO_FETCHED, made.bytesFetched}})
    call(countFunction, {frame.invocation, constantI64(builder, loc, traffic), load(numBytes)});
  if (isCoded)
    convertListed(made, begin, length);
  else
    moveListed(made, length);
  made.isListed = true;
  builder.setInsertionPointToStart(
      scf::IfOp::create(builder, loc, isNotZero(builder, loc, load(made.numLeft))).thenBlock());
  lists = &made;
  lowerBlock(fuse.getBody().front());
  lists = nullptr;
}

/// Whether nothing reads the slice's memory after the fuse, or on a peer: only the fuse reads the buffer, and a chunk
/// of it not twice without a move in between that overwrites it.
static bool isReadAfterwards(FuseOp fuse) {
  auto buffer = fuse.getBuffer().getDefiningOp<BufferOp>();
  bool isOnce = fuse.isOverwriting() || isa<ProgramOp>(fuse->getParentOp());
  if (memoryOf(buffer.getRole()) != BufferRole::Scratch || !isOnce)
    return true;
  return llvm::any_of(buffer->getUsers(), [&](Operation *user) {
    auto move = dyn_cast<MoveInterface>(user);
    if (user == fuse || !move)
      return user != fuse;
    // What goes into the slice from the same buffer comes from a peer, whose fuse must have stored it.
    bool isFromBuffer = move.getSource() == buffer.getResult();
    bool isInTile = fuse.isOutOf(move) || (fuse.isInto(move) && !isFromBuffer);
    return (isFromBuffer || isa<ChannelReduceOp>(user)) && !(user->getParentOfType<FuseOp>() == fuse && isInTile);
  });
}

/// In granules, through a tile where the slice's memory need not hold the result.
void ProgramLowering::convertListed(const FusedLists &made, Value begin, Value length) {
  FuseOp fuse = made.fuse;
  const PlacedBuffer &chunk = bufferOf(fuse.getBuffer());
  SmallVector<MoveInterface> moves = fuse.getMoves();
  auto isPutOut = [&](MoveInterface move) { return fuse.isOutOf(move) && move.getDestinationRank(); };
  Value isKept = constantI64(builder, loc, !isWritten(fuse) || isReadAfterwards(fuse));
  if (llvm::any_of(moves, isPutOut)) // what is left is put from there
    isKept = arith::OrIOp::create(builder, loc, isKept, load(made.numLeft));
  // Of the destinations without a codec one that is no output decides, if there is any.
  MoveInterface plain;
  for (MoveInterface move : moves)
    if (const PlacedBuffer &to = bufferOf(move.getDestination());
        !fuse.isInto(move) && codec::isNone(to.shape.codec) && (!plain || to.role != BufferRole::Output))
      plain = move;
  Value nonTemporal = plain ? storesNonTemporal(bufferOf(plain.getDestination())) : constantI64(builder, loc, 0);
  call(convertFusedFunction,
       {frame.invocation, made.destinations, load(made.numDestinations), made.sources, load(made.numSources),
        addressOf(fuse.getBuffer(), begin), createDescription(builder, loc, module, chunk.shape.codec), integer(length),
        holderOf({}), integer(elementNumber(chunk, begin)), nonTemporal,
        constantI64(builder, loc, fuse.isOverwriting()), isKept});
}

void ProgramLowering::moveListed(const FusedLists &made, Value length) {
  SmallVector<MoveInterface> moves = FuseOp(made.fuse).getMoves();
  // Where elements also go to scratch memory, its bit decides. What goes to a peer afterwards is read again soon.
  auto toScratch = llvm::find_if(
      moves, [&](MoveInterface move) { return bufferOf(move.getDestination()).role != BufferRole::Output; });
  MoveInterface deciding = toScratch == moves.end() ? moves.front() : *toScratch;
  Value nonTemporal =
      arith::SelectOp::create(builder, loc, isNotZero(builder, loc, load(made.numLeft)), constantI64(builder, loc, 0),
                              storesNonTemporal(bufferOf(deciding.getDestination())));
  FuseOp fuse = made.fuse;
  OpBuilder::InsertionGuard guard(builder);
  if (!fuse.isReducing()) {
    // All destinations may be on other hosts.
    builder.setInsertionPointToStart(
        scf::IfOp::create(builder, loc, isNotZero(builder, loc, load(made.numDestinations))).thenBlock());
    return call(multicastFunction,
                {made.destinations, load(made.numDestinations), loadEntry(builder, loc, made.sources, constant(0)),
                 integer(bytesOf(length)), nonTemporal});
  }
  SmallVector<Value> arguments = {
      made.destinations, load(made.numDestinations), made.sources, load(made.numSources), integer(length), nonTemporal};
  auto combine = [&] {
    access().callPointer(access().loadPointer(offsetof(KoloInvocation, reduce)), Type(), arguments);
  };
  if (!fuse.getDivision())
    return combine();
  Value average = access().loadPointer(offsetof(KoloInvocation, average));
  Value isAverage = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::ne, average,
                                         LLVM::ZeroOp::create(builder, loc, pointerType(builder)));
  auto choice = scf::IfOp::create(builder, loc, isAverage, /*withElseRegion=*/true);
  builder.setInsertionPointToStart(choice.elseBlock());
  combine();
  builder.setInsertionPointToStart(choice.thenBlock());
  arguments.push_back(integer(groupSize()));
  access().callPointer(average, Type(), arguments);
}

} // namespace kolo::cpu
