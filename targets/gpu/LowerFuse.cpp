// The lowering of a fuse: two lists of addresses, and one loop that loads from every source address and stores to every
// destination address.
//   Before:  kolo.chan.fuse %out[%me] {
//              copy %in -> %out; for %p { reduce %in -> %out from %p }; for %p { put %out to %p } }
//   After:   lists of addresses, in memory of the block, made by the same loops;
//            call @kolo.combine, or @kolo.multicast where there is one source
//
// A list has a fixed size, and a mesh may have any number of ranks. The kernel works off a full list into the common
// chunk, which carries the sums on, and starts the list again. It does so before a division too, if the call asks for
// an average.
//
// Where a loop only lists moves, and the list has room for all of them, each thread computes addresses of its own.
//
// Where a buffer has a codec, each address has the number of its codec beside it, and the call is @kolo.convert. The
// common chunk's codec has no scales, so that it carries the same sums on.
#include "targets/gpu/LowerFuse.h"

#include "ir/IndexArithmetic.h"
#include "targets/gpu/DeviceFunctions.h"
#include "targets/gpu/ThreadLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;

namespace kolo::gpu {

namespace {

class FuseLowering {
public:
  FuseLowering(FuseOp fuse, const FuseContext &context)
      : fuse(fuse), context(context), builder(context.builder), loc(context.loc), isCoded(fuse.isCoded()),
        capacity(isCoded ? context.listEntries / 2 : context.listEntries) {}

  void run();

private:
  /// The state of the lists, the same for all threads. The common chunk is the first destination, and written unless it
  /// is the only source.
  struct Lists {
    Value numSources, numDestinations; // of type index
    Value hasCommon;                   // of type index: 1 if the first source is the common chunk, else 0
    Value difference;                  // i64: the bits in which any two addresses differ that this thread has
                                       // listed; with codecs, for all threads, the numbers of those of all
                                       // destinations but the common chunk, as bits
    SmallVector<Value> values() const { return {numSources, numDestinations, hasCommon, difference}; }
    static Lists of(ValueRange values) { return {values[0], values[1], values[2], values[3]}; }
  };

  void moveRange(Value begin, Value rangeLength);
  Lists listBlock(Block &block, Lists lists);
  Lists listLoop(scf::ForOp loop, const Lists &lists);
  Lists listByTurns(scf::ForOp loop, const Lists &lists);
  Lists listByThreads(scf::ForOp loop, MoveInterface move, Lists lists);
  Value addressFor(MoveInterface move);
  Value differenceOfAll(Value ofThread);
  Lists makeRoom(MoveInterface move, const Lists &lists);
  Lists listMove(MoveInterface move, Lists lists);
  Lists divideIfAverage(const Lists &lists);
  Value &numberOf(MoveInterface move, Lists &lists) {
    return fuse.isInto(move) ? lists.numSources : lists.numDestinations;
  }
  void append(Value number, int64_t firstEntry, Value address, Value buffer, Lists &lists);
  Lists
  workOffIf(Value condition, const Lists &lists, Value numDestinations, function_ref<void()> buildAfterwards = [] {});
  void workOff(const Lists &lists);
  /// The state of the lists once they were worked off.
  Lists restart(Value numDestinations) {
    write(0, constant(0), common, fuse.getBuffer());
    return {constant(1), numDestinations, constant(1), constantI64(builder, loc, 0)};
  }
  void write(int64_t firstEntry, Value number, Value address, Value buffer);
  Value entryOf(int64_t firstEntry, Value number);

  Value constant(int64_t value) { return createConstant(builder, loc, value); }
  Value integer(Value index) { return toInteger(builder, loc, index); }
  Value isEqual(Value a, Value b) { return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, a, b); }
  Value codecBit(Value buffer) { return constantI64(builder, loc, int64_t(1) << context.codecNumber(buffer)); }
  Value addressBits(Value address) { return LLVM::PtrToIntOp::create(builder, loc, builder.getI64Type(), address); }

  FuseOp fuse;
  const FuseContext &context;
  OpBuilder &builder;
  Location loc;
  const bool isCoded;
  const int64_t capacity; // of a list
  Value common, length;   // where the common chunk begins, and its elements, of type index
  Value firstElement;     // of the common chunk, in its buffer, likewise
};

void FuseLowering::run() {
  context.buildRanges(fuse, [&](OpBuilder &, Value begin, Value, Value rangeLength) { moveRange(begin, rangeLength); });
}

void FuseLowering::moveRange(Value begin, Value rangeLength) {
  OpBuilder::InsertionGuard guard(builder);
  Operation *around = builder.getInsertionBlock()->getParentOp();
  const bool isOneOfMany = isa<scf::ForOp>(around) || around->getParentOfType<scf::ForOp>();
  length = rangeLength, firstElement = begin;
  Value isSome = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, length, constant(0));
  builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isSome).thenBlock());
  common = context.addressOf(fuse.getBuffer(), Value(), begin);
  MoveInterface first = fuse.getMoves().front();
  bool isOverwritten = fuse.isInto(first) && !isa<ChannelReduceOp>(first.getOperation());
  Lists lists = restart(constant(1));
  write(destinationEntries, constant(0), common, fuse.getBuffer());
  if (isOverwritten)
    lists.numSources = lists.hasCommon = constant(0);
  workOff(listBlock(fuse.getBody().front(), lists));
  if (isOneOfMany && !isCoded)
    call(builder, loc, barrierFunction); // the next range has lists, too
}

/// Lists are worked off before anything is computed that the call would have to keep.
FuseLowering::Lists FuseLowering::listBlock(Block &block, Lists lists) {
  SmallVector<Operation *> arithmetic;
  auto lowerArithmetic = [&] {
    for (Operation *op : arithmetic)
      context.lowerArithmetic(*op);
    arithmetic.clear();
  };
  for (Operation &op : block)
    if (auto move = dyn_cast<MoveInterface>(op)) {
      lists = makeRoom(move, lists);
      lowerArithmetic();
      lists = listMove(move, lists);
    } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
      lowerArithmetic();
      lists = listLoop(loop, lists);
    } else if (isa<DivideOp>(op)) {
      lists = divideIfAverage(lists);
    } else if (!isa<scf::YieldOp>(op)) {
      arithmetic.push_back(&op);
    }
  return lists;
}

FuseLowering::Lists FuseLowering::listLoop(scf::ForOp loop, const Lists &lists) {
  auto move = dyn_cast_or_null<MoveInterface>(onlyExchangeOf(loop));
  if (!move || isCoded || getConstantIntValue(loop.getStep()) != 1)
    return listByTurns(loop, lists);
  Lists now = lists;
  Value upper = context.mapping.lookup(loop.getUpperBound()), lower = context.mapping.lookup(loop.getLowerBound());
  Value after = createAdd(builder, loc, numberOf(move, now), createSub(builder, loc, upper, lower));
  Value hasRoom = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, after, constant(capacity));
  OpBuilder::InsertionGuard guard(builder);
  auto choice =
      scf::IfOp::create(builder, loc, ValueRange(lists.values()).getTypes(), hasRoom, /*withElseRegion=*/true);
  builder.setInsertionPointToStart(choice.thenBlock());
  scf::YieldOp::create(builder, loc, listByThreads(loop, move, lists).values());
  builder.setInsertionPointToStart(choice.elseBlock());
  scf::YieldOp::create(builder, loc, listByTurns(loop, lists).values());
  return Lists::of(choice.getResults());
}

/// Thread t of T lists moves t, t + T, ...
FuseLowering::Lists FuseLowering::listByThreads(scf::ForOp loop, MoveInterface move, Lists lists) {
  Value upper = context.mapping.lookup(loop.getUpperBound()), lower = context.mapping.lookup(loop.getLowerBound());
  Value &number = numberOf(move, lists);
  {
    OpBuilder::InsertionGuard guard(builder);
    auto made = createLoopByThread({builder, loc, context.mapping, context.lowerArithmetic}, loop, lower, upper,
                                   ValueRange{lists.difference});
    Value address = addressFor(move);
    Value place = createAdd(builder, loc, number, createSub(builder, loc, made.getInductionVar(), lower));
    LLVM::StoreOp::create(builder, loc, address, entryOf(fuse.isInto(move) ? 0 : destinationEntries, place), 8);
    Value difference = arith::XOrIOp::create(builder, loc, addressBits(address), addressBits(common));
    scf::YieldOp::create(builder, loc,
                         arith::OrIOp::create(builder, loc, made.getRegionIterArg(0), difference).getResult());
    lists.difference = made.getResult(0);
  }
  Value numMoves = arith::MaxSIOp::create(builder, loc, createSub(builder, loc, upper, lower), constant(0));
  number = createAdd(builder, loc, number, numMoves);
  return lists;
}

/// All threads compute every address.
FuseLowering::Lists FuseLowering::listByTurns(scf::ForOp loop, const Lists &lists) {
  auto mapped = [&](Value value) { return context.mapping.lookup(value); };
  auto made = scf::ForOp::create(builder, loc, mapped(loop.getLowerBound()), mapped(loop.getUpperBound()),
                                 mapped(loop.getStep()), lists.values());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(made.getBody());
  context.mapping.map(loop.getInductionVar(), made.getInductionVar());
  Lists after = listBlock(*loop.getBody(), Lists::of(made.getRegionIterArgs()));
  scf::YieldOp::create(builder, loc, after.values());
  return Lists::of(made.getResults());
}

/// Works off the list that a move goes to if it is full. While moves go in, the common chunk is the only destination.
FuseLowering::Lists FuseLowering::makeRoom(MoveInterface move, const Lists &lists) {
  bool isInto = fuse.isInto(move);
  Value number = isInto ? lists.numSources : lists.numDestinations;
  return workOffIf(isEqual(number, constant(capacity)), lists, isInto ? lists.numDestinations : constant(1));
}

/// Appends the side of a move that is not the common chunk.
FuseLowering::Lists FuseLowering::listMove(MoveInterface move, Lists lists) {
  bool isInto = fuse.isInto(move);
  Value &number = numberOf(move, lists);
  append(number, isInto ? 0 : destinationEntries, addressFor(move), isInto ? move.getSource() : move.getDestination(),
         lists);
  number = createAdd(builder, loc, number, constant(1));
  return lists;
}

/// Of the side that is not the common chunk. One chunk is one range: no loop is built.
Value FuseLowering::addressFor(MoveInterface move) {
  Value address;
  context.buildRanges(move, [&](OpBuilder &, Value sourceBegin, Value destinationBegin, Value) {
    address = fuse.isInto(move) ? context.addressOf(move.getSource(), move.getSourceRank(), sourceBegin)
                                : context.addressOf(move.getDestination(), move.getDestinationRank(), destinationBegin);
  });
  return address;
}

void FuseLowering::append(Value number, int64_t firstEntry, Value address, Value buffer, Lists &lists) {
  write(firstEntry, number, address, buffer);
  Value facts;
  if (!isCoded)
    facts = arith::XOrIOp::create(builder, loc, addressBits(address), addressBits(common));
  else if (firstEntry == destinationEntries)
    facts = codecBit(buffer);
  if (facts)
    lists.difference = arith::OrIOp::create(builder, loc, lists.difference, facts);
}

Value FuseLowering::entryOf(int64_t firstEntry, Value number) {
  Value list = call(builder, loc, listFunction);
  Value entry = isCoded ? createMul(builder, loc, number, constant(2)) : number;
  Value offset = createMul(builder, loc, createAdd(builder, loc, entry, constant(firstEntry)), constant(8));
  return advance(builder, loc, list, integer(offset));
}

void FuseLowering::write(int64_t firstEntry, Value number, Value address, Value buffer) {
  Value place = entryOf(firstEntry, number);
  buildForLeader(builder, loc, [&] {
    LLVM::StoreOp::create(builder, loc, address, place, 8);
    if (isCoded)
      LLVM::StoreOp::create(builder, loc, constantI64(builder, loc, context.codecNumber(buffer)),
                            advance(builder, loc, place, constantI64(builder, loc, 8)), 8);
  });
}

FuseLowering::Lists FuseLowering::workOffIf(Value condition, const Lists &lists, Value numDestinations,
                                            function_ref<void()> buildAfterwards) {
  OpBuilder::InsertionGuard guard(builder);
  auto choice =
      scf::IfOp::create(builder, loc, ValueRange(lists.values()).getTypes(), condition, /*withElseRegion=*/true);
  builder.setInsertionPointToStart(choice.elseBlock());
  scf::YieldOp::create(builder, loc, lists.values());
  builder.setInsertionPointToStart(choice.thenBlock());
  workOff(lists);
  if (!isCoded)
    call(builder, loc, barrierFunction);
  buildAfterwards();
  scf::YieldOp::create(builder, loc, restart(numDestinations).values());
  return Lists::of(choice.getResults());
}

/// The common chunk is the only destination so far.
FuseLowering::Lists FuseLowering::divideIfAverage(const Lists &lists) {
  Value isAverage = isEqual(context.readReduction().second, constantI64(builder, loc, KOLO_AVERAGE));
  return workOffIf(isAverage, lists, constant(1), [&] {
    Value numRanks = integer(context.groupSize());
    call(builder, loc, divideFunction, {common, integer(length), context.readReduction().first, numRanks});
    call(builder, loc, barrierFunction);
  });
}

/// What decides about the alignment of all addresses, for all threads: of the lowest four bits, whether any two
/// addresses differ in one of the lower two, and whether in one of the upper two. A barrier; two more where they
/// differ.
Value FuseLowering::differenceOfAll(Value ofThread) {
  OpBuilder::InsertionGuard guard(builder);
  Type i64 = builder.getI64Type();
  Value zero = constantI64(builder, loc, 0);
  auto isAny = [&](int64_t bits) -> Value {
    Value own = arith::AndIOp::create(builder, loc, ofThread, constantI64(builder, loc, bits));
    Value isOwn = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, own, zero);
    Value any = call(builder, loc, anyFunction, {arith::ExtUIOp::create(builder, loc, builder.getI32Type(), isOwn)});
    return call(builder, loc, uniformFunction, {arith::ExtUIOp::create(builder, loc, i64, any)});
  };
  Value differs = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, isAny(0b1111), zero);
  auto choice = scf::IfOp::create(builder, loc, TypeRange(i64), differs, /*withElseRegion=*/true);
  builder.setInsertionPointToStart(choice.elseBlock());
  scf::YieldOp::create(builder, loc, zero);
  builder.setInsertionPointToStart(choice.thenBlock());
  Value all = zero;
  for (int64_t bits : {0b0011, 0b1100})
    all = arith::OrIOp::create(builder, loc, all,
                               arith::MulIOp::create(builder, loc, isAny(bits), constantI64(builder, loc, bits)));
  scf::YieldOp::create(builder, loc, all);
  return choice.getResult(0);
}

/// Lists are complete when it begins. Without codecs, threads may still read them when it ends.
void FuseLowering::workOff(const Lists &lists) {
  OpBuilder::InsertionGuard guard(builder);
  Value isOnlyCommon =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ule, lists.numSources, lists.hasCommon);
  Value first = integer(arith::SelectOp::create(builder, loc, isOnlyCommon, constant(1), constant(0)));
  Value end = integer(lists.numDestinations);
  if (isCoded) {
    Value commonBit =
        arith::SelectOp::create(builder, loc, isOnlyCommon, constantI64(builder, loc, 0), codecBit(fuse.getBuffer()));
    auto [type, reduction] = context.readReduction();
    SmallVector<Value> arguments{
        integer(lists.numSources), first, end,       arith::OrIOp::create(builder, loc, lists.difference, commonBit),
        integer(length),           type,  reduction, constantI64(builder, loc, context.codecNumber(fuse.getBuffer()))};
    llvm::append_range(arguments, context.drawKey(firstElement));
    call(builder, loc, convertFunction, arguments);
    return;
  }
  Value difference = differenceOfAll(lists.difference);
  if (fuse.isReducing()) {
    auto choice = scf::IfOp::create(builder, loc, isEqual(lists.numSources, constant(1)), /*withElseRegion=*/true);
    builder.setInsertionPointToStart(choice.elseBlock());
    auto [type, reduction] = context.readReduction();
    call(builder, loc, combineFunction,
         {integer(lists.numSources), first, end, difference, integer(length), type, reduction});
    builder.setInsertionPointToStart(choice.thenBlock());
  }
  Value sizeBytes = integer(createMul(builder, loc, length, context.elementBytes));
  call(builder, loc, multicastFunction, {first, end, difference, sizeBytes});
}

} // namespace

void lowerFuse(FuseOp fuse, const FuseContext &context) { FuseLowering(fuse, context).run(); }

} // namespace kolo::gpu
