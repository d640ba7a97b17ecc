// The lowering of a fuse: two lists of addresses, and one call that loads from every source address and stores to every
// destination address.
//   Before:  kolo.chan.fuse %out[%me] {
//              copy %in -> %out; for %p { reduce %in -> %out from %p }; for %p { put %out to %p } }
//   After:   lists of addresses, made by the same loops; the call's reduction of all sources into all destinations
//
// If the fuse divides and the call asks for an average, the reduction divides the sum.
//
// The pass writes what has an address. Puts to peers whose memory is not mapped here, as on another host, come after it
// and send the result. Where a source has no address, the program makes the moves one after the other instead.
#include "targets/cpu/ProgramLowering.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo::cpu {

/// Lists of addresses, in this lane's tile, and how long they are.
struct ProgramLowering::FusedLists {
  FuseOp fuse;
  Value sources, destinations; // lists of pointers
  // Variables of type i64; the last three of ranges to and from peers that have an address, and of puts without.
  Value numSources, numDestinations, numWithoutAddress, numSent, numFetched, numLeft;
  bool isListed = false; // then the puts that are left are being made
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

void ProgramLowering::append(Value list, Value number, Value address) {
  Value count = load(number);
  storeEntry(builder, loc, list, toIndex(builder, loc, count), address);
  store(number, arith::AddIOp::create(builder, loc, count, constantI64(builder, loc, 1)));
}

void ProgramLowering::increment(Value variable) {
  store(variable, arith::AddIOp::create(builder, loc, load(variable), constantI64(builder, loc, 1)));
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
    Value base = access().peerBuffer(role, rank);
    auto isMissing = scf::IfOp::create(builder, loc, isNull(builder, loc, base), /*withElseRegion=*/true);
    builder.setInsertionPointToStart(isMissing.thenBlock());
    if (lists->isListed) {
      Value size = integer(createChunkBytes(builder, loc, frame.call, destination.shape, length));
      return call(putFunction, {frame.invocation, rank, role, byteOffset(destination, destinationBegin),
                                addressOf(move.getSource(), sourceBegin), size, constantI64(builder, loc, 0)});
    }
    increment(lists->numLeft);
    builder.setInsertionPointToStart(isMissing.elseBlock());
    increment(lists->numSent);
    append(lists->destinations, lists->numDestinations,
           advance(builder, loc, base, byteOffset(destination, destinationBegin)));
  });
}

/// Appends the side of a move that is not the common chunk.
void ProgramLowering::listMove(MoveInterface move) {
  if (move.getDestinationRank())
    return listPut(move);
  if (lists->isListed)
    return;
  bool isInto = lists->fuse.isInto(move);
  Value buffer = isInto ? move.getSource() : move.getDestination();
  const PlacedBuffer &other = bufferOf(buffer);
  Value rank = mapped(move.getSourceRank());
  buildRanges(move, [&](OpBuilder &, Value sourceBegin, Value destinationBegin, Value) {
    Value begin = isInto ? sourceBegin : destinationBegin, base = bases.lookup(buffer);
    if (rank) {
      base = access().peerBuffer(constantI64(builder, loc, int64_t(other.role)), integer(rank));
      Value number = arith::ExtUIOp::create(builder, loc, builder.getI64Type(), isNull(builder, loc, base));
      store(lists->numWithoutAddress, arith::AddIOp::create(builder, loc, load(lists->numWithoutAddress), number));
      increment(lists->numFetched);
    }
    append(isInto ? lists->sources : lists->destinations, isInto ? lists->numSources : lists->numDestinations,
           advance(builder, loc, base, byteOffset(other, begin)));
  });
}

void ProgramLowering::lowerFuse(FuseOp fuse) {
  // One chunk is one range: no loops.
  buildSliceRanges(fuse, [&](OpBuilder &, Value begin, Value, Value length) { lowerFusedRange(fuse, begin, length); });
}

void ProgramLowering::lowerFusedRange(FuseOp fuse, Value begin, Value length) {
  OpBuilder::InsertionGuard guard(builder);
  Value isSome = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, length, constant(0));
  builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isSome).thenBlock());

  Value tile = access().loadPointer(offsetof(KoloInvocation, tile));
  Value half = arith::ShRUIOp::create(builder, loc, access().loadInteger(offsetof(KoloInvocation, tileBytes)),
                                      constantI64(builder, loc, 1));
  FusedLists made{fuse,
                  tile,
                  advance(builder, loc, tile, half),
                  createVariable(),
                  createVariable(),
                  createVariable(),
                  createVariable(),
                  createVariable(),
                  createVariable()};
  for (Value number :
       {made.numSources, made.numDestinations, made.numWithoutAddress, made.numSent, made.numFetched, made.numLeft})
    store(number, constantI64(builder, loc, 0));
  SmallVector<MoveInterface> moves = fuse.getMoves();
  Value address = addressOf(fuse.getBuffer(), begin);
  bool isOverwritten = fuse.isInto(moves.front()) && !isa<ChannelReduceOp>(moves.front().getOperation());
  if (!isOverwritten)
    append(made.sources, made.numSources, address);
  if (llvm::any_of(moves, [&](MoveInterface move) { return fuse.isInto(move); }))
    append(made.destinations, made.numDestinations, address);

  // A list has room for every rank, and for this rank's own part in it.
  Value numRanks = constant(1);
  for (Value size : frame.dimSizes)
    numRanks = createMul(builder, loc, numRanks, size);
  Value room = arith::DivUIOp::create(builder, loc, toIndex(builder, loc, half), constant(sizeof(void *)));
  Value fits = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, numRanks, room);
  auto fitting = scf::IfOp::create(builder, loc, fits, /*withElseRegion=*/true);
  builder.setInsertionPointToStart(fitting.elseBlock());
  store(made.numWithoutAddress, constantI64(builder, loc, 1));
  builder.setInsertionPointToStart(fitting.thenBlock());
  lists = &made;
  lowerBlock(fuse.getBody().front());
  lists = nullptr;
  builder.setInsertionPointAfter(fitting);

  auto conditional = scf::IfOp::create(builder, loc, isNotZero(builder, loc, load(made.numWithoutAddress)), true);
  builder.setInsertionPointToStart(conditional.thenBlock());
  lowerBlock(fuse.getBody().front());
  builder.setInsertionPointToStart(conditional.elseBlock());
  moveListed(made, length);
  made.isListed = true;
  builder.setInsertionPointToStart(
      scf::IfOp::create(builder, loc, isNotZero(builder, loc, load(made.numLeft))).thenBlock());
  lists = &made;
  lowerBlock(fuse.getBody().front());
  lists = nullptr;
}

void ProgramLowering::moveListed(const FusedLists &made, Value length) {
  for (auto [traffic, number] : {std::pair(KOLO_SENT, made.numSent), {KOLO_FETCHED, made.numFetched}})
    call(countFunction, {frame.invocation, constantI64(builder, loc, traffic),
                         arith::MulIOp::create(builder, loc, load(number), integer(bytesOf(length))).getResult()});
  SmallVector<MoveInterface> moves = FuseOp(made.fuse).getMoves();
  // Elements that also go to scratch memory, or to a peer afterwards, are read again soon.
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
