// Loops over peers that send packets, or receive them: all peers at once. The block lists the packets first.
#include "compiler/lower/MoveKind.h"
#include "targets/gpu/KernelLowering.h"
#include "targets/gpu/ThreadLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace kolo::gpu {

static bool readsPackets(MoveInterface move) {
  return packetFormatOf(move.getSource().getDefiningOp<BufferOp>()).has_value();
}

std::optional<PacketLoop> packetLoopOf(Operation &op) {
  auto loop = dyn_cast<scf::ForOp>(op);
  auto move = dyn_cast_or_null<MoveInterface>(loop ? onlyExchangeOf(loop) : nullptr);
  if (!move)
    return std::nullopt;
  auto isOne = [](Value value) { return getConstantIntValue(value) == 1; };
  bool isSend = packetFormatOf(move.getDestination().getDefiningOp<BufferOp>()).has_value();
  bool isPacketLoop = readsPackets(move) != isSend && isOne(loop.getStep()) &&
                      llvm::all_of(move.getSourceSizes(), isOne) && llvm::all_of(move.getDestinationSizes(), isOne) &&
                      !(isReducing(move) && dependsOn(move.getDestinationOffsets(), loop.getInductionVar()));
  return isPacketLoop ? std::optional(PacketLoop{loop, move}) : std::nullopt;
}

/// What is sent right behind a loop that receives, with nothing between but what a function can compute again.
static std::optional<PacketLoop> sentBehind(PacketLoop packets) {
  if (!readsPackets(packets.move))
    return std::nullopt;
  Operation *next = packets.loop->getNextNode();
  while (next && next->getNumRegions() == 0 && isMemoryEffectFree(next) && !isa<LookupOp>(next))
    next = next->getNextNode();
  std::optional<PacketLoop> sent = next ? packetLoopOf(*next) : std::nullopt;
  return sent && !readsPackets(sent->move) ? sent : std::nullopt;
}

/// Thread by thread, from iteration `first` on. Gives, i32, whether one of this thread's entries is odd.
Value KernelLowering::writePacketEntries(PacketLoop packets, Value first, Value end, Value list) {
  OpBuilder::InsertionGuard guard(builder);
  auto [loop, move] = packets;
  Value nothing = constantI64(builder, loc, 0);
  auto lowerArithmetic = [&](Operation &op) { lowerOp(op); };
  scf::ForOp made = createLoopByThread({builder, loc, frame.mapping, lowerArithmetic}, loop, first, end, {nothing});
  Side source = sideOf(move.getSource(), move.getSourceRank());
  Side destination = sideOf(move.getDestination(), move.getDestinationRank());
  const bool isReceive = source.buffer.shape.packets.has_value();
  const PacketFormat format = *(isReceive ? source : destination).buffer.shape.packets;
  Value odd = made.getRegionIterArg(0);
  buildRanges(move, [&](OpBuilder &, Value sourceBegin, Value destinationBegin, Value length) {
    Value from = addressIn(source, sourceBegin), to = addressIn(destination, destinationBegin);
    Value size = isReducing(move) ? length : bytesOf(length);
    Value number = createSub(builder, loc, made.getInductionVar(), first);
    Value offset = createMul(builder, loc, number, constant(packetEntryBytes));
    Value entry = advance(builder, loc, list, integer(offset));
    Value words[] = {isReceive ? from : to, isReceive ? to : from, integer(size)};
    for (auto [position, word] : llvm::enumerate(words))
      LLVM::StoreOp::create(builder, loc, word,
                            advance(builder, loc, entry, constantI64(builder, loc, int64_t(position) * 8)), 8);
    Value bits = LLVM::PtrToIntOp::create(builder, loc, builder.getI64Type(), words[1]);
    if (format == ll128Packets) {
      Value bytes = integer(bytesOf(length));
      Value isEmpty = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, bytes, nothing);
      bits = arith::OrIOp::create(builder, loc, bits, bytes);
      bits =
          arith::OrIOp::create(builder, loc, bits, arith::ExtUIOp::create(builder, loc, builder.getI64Type(), isEmpty));
    }
    odd = arith::OrIOp::create(builder, loc, odd, bits);
  });
  scf::YieldOp::create(builder, loc, odd);
  builder.setInsertionPointAfter(made);
  Value low =
      arith::AndIOp::create(builder, loc, made.getResult(0), constantI64(builder, loc, packetUnitBytes(format) - 1));
  Value isOdd = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, low, nothing);
  return arith::ExtUIOp::create(builder, loc, builder.getI32Type(), isOdd);
}

/// Whether one of the entries that all threads have written is odd. A barrier.
static Value voteOnOdd(OpBuilder &builder, Location loc, Value isOdd) {
  Value any = call(builder, loc, anyFunction, {isOdd});
  return call(builder, loc, uniformFunction, {arith::ExtUIOp::create(builder, loc, builder.getI64Type(), any)});
}

static Value packetList(OpBuilder &builder, Location loc, size_t number) {
  return advance(builder, loc, call(builder, loc, listFunction),
                 constantI64(builder, loc, int64_t(number) * packetListBytes));
}

void KernelLowering::movePackets(MoveInterface move, Value list, Value number, Value isOdd) {
  Value sequence = integer(kernel.sequence);
  if (!readsPackets(move)) {
    const PacketFormat format = *packetFormatOf(move.getDestination().getDefiningOp<BufferOp>());
    call(builder, loc, functionsOf(format).sendAll, {list, integer(number), isOdd, sequence});
    return;
  }
  const PacketFunctionNames &names = functionsOf(*packetFormatOf(move.getSource().getDefiningOp<BufferOp>()));
  Value statement = constantI64(builder, loc, statements.numberOf(move.getLoc()));
  SmallVector<Value> arguments{frame.invocation, sequence, statement, list, integer(number), isOdd};
  if (isReducing(move))
    llvm::append_values(arguments, kernel.type, kernel.reduction);
  call(builder, loc, isReducing(move) ? names.receiveReduceAll : names.receiveAll, arguments);
}

/// Receiving ends with a barrier; without peers, threads meet here.
static void meetWithoutPeers(OpBuilder &builder, Location loc, Value lower, Value upper) {
  OpBuilder::InsertionGuard guard(builder);
  Value hasNone = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, upper, lower);
  builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, hasNone).thenBlock());
  call(builder, loc, barrierFunction);
}

/// The numbers of lists that nobody reads.
template <typename Lists> static SmallVector<size_t> freeLists(const Lists &areRead) {
  SmallVector<size_t> numbers;
  for (size_t number = 0; number < areRead.size(); ++number)
    if (!areRead[number])
      numbers.push_back(number);
  return numbers;
}

/// All peers at once, as far as a list has room. The barrier behind the writing also orders what threads did before.
void KernelLowering::lowerPacketLoop(PacketLoop packets) {
  if (std::optional<PacketLoop> sent = sentBehind(packets)) {
    lowerPacketLoops(packets, *sent);
    sent->loop.erase();
    return;
  }
  auto [loop, move] = packets;
  const bool isReceive = readsPackets(move);
  settle(freeLists(unsettled.lists).empty());
  const size_t listNumber = freeLists(unsettled.lists).front();
  outline({loop}, /*mayFail=*/isReceive, [&] {
    OpBuilder::InsertionGuard guard(builder);
    Value most = constant(std::min(listEntries, mostPacketEntries)), upper = mapped(loop.getUpperBound());
    Value list = packetList(builder, loc, listNumber);
    auto groups = scf::ForOp::create(builder, loc, mapped(loop.getLowerBound()), upper, most);
    builder.setInsertionPointToStart(groups.getBody());
    Value first = groups.getInductionVar(), next = createAdd(builder, loc, first, most);
    Value end = arith::MinSIOp::create(builder, loc, next, upper);
    Value isOdd = voteOnOdd(builder, loc, writePacketEntries(packets, first, end, list));
    movePackets(move, list, createSub(builder, loc, end, first), isOdd);
    if (isReceive)
      return;
    Value isMore = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, next, upper);
    builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isMore).thenBlock());
    call(builder, loc, barrierFunction); // then nobody reads the list any more
  });
  if (isReceive) {
    meetWithoutPeers(builder, loc, mapped(loop.getLowerBound()), mapped(loop.getUpperBound()));
    unsettled = {};
  } else {
    unsettled.reads = unsettled.lists[listNumber] = true;
  }
}

namespace {

/// The groups of a loop's iterations: so many each, and the rest in the last one.
class Groups {
public:
  Groups(OpBuilder &inBuilder, Location at, std::pair<Value, Value> ofBounds, int64_t ofSize)
      : builder(inBuilder), loc(at), bounds(ofBounds), size(constant(ofSize)), sizeLessOne(constant(ofSize - 1)) {}

  /// One at least, also of a loop without iterations.
  Value number() {
    Value all = createSub(builder, loc, bounds.second, bounds.first);
    Value positive = arith::MaxSIOp::create(builder, loc, all, constant(1));
    return arith::DivUIOp::create(builder, loc, createAdd(builder, loc, positive, sizeLessOne), size);
  }
  /// The iterations of one group; none of a negative one.
  std::pair<Value, Value> at(Value group) {
    Value first = createAdd(builder, loc, bounds.first, createMul(builder, loc, group, size));
    Value last = arith::MinSIOp::create(builder, loc, createAdd(builder, loc, first, size), bounds.second);
    Value isGroup = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, group, constant(0));
    return {first, arith::SelectOp::create(builder, loc, isGroup, last, first)};
  }

private:
  Value constant(int64_t value) { return createConstant(builder, loc, value); }

  OpBuilder &builder;
  Location loc;
  const std::pair<Value, Value> bounds;
  const Value size, sizeLessOne;
};

} // namespace

/// The same for a loop that receives and one that sends right behind it. Their lists share the barrier: in the step
/// that receives the last group, the first one is sent.
void KernelLowering::lowerPacketLoops(PacketLoop received, PacketLoop sent) {
  settle(freeLists(unsettled.lists).size() < 2);
  const SmallVector<size_t> lists(ArrayRef(freeLists(unsettled.lists)).take_front(2));
  outline({received.loop, sent.loop}, /*mayFail=*/true, [&] {
    OpBuilder::InsertionGuard guard(builder);
    auto groupsOf = [&](PacketLoop packets) {
      scf::ForOp loop = packets.loop;
      return Groups(builder, loc, {mapped(loop.getLowerBound()), mapped(loop.getUpperBound())},
                    std::min(listEntries, mostPacketEntries));
    };
    Value zero = constant(0), one = constant(1);
    Value lastReceive = createSub(builder, loc, groupsOf(received).number(), one);
    Value end = createAdd(builder, loc, lastReceive, groupsOf(sent).number());
    auto steps = scf::ForOp::create(builder, loc, zero, end, one);
    builder.setInsertionPointToStart(steps.getBody());
    Value step = steps.getInductionVar(), isOdd = arith::ConstantIntOp::create(builder, loc, 0, 32);
    const std::array both = {received, sent};
    const std::array groups = {step, createSub(builder, loc, step, lastReceive)};
    SmallVector<Value, 2> numbers;
    for (auto [packets, group, list] : llvm::zip_equal(both, groups, lists)) {
      auto [first, behind] = groupsOf(packets).at(group);
      numbers.push_back(createSub(builder, loc, behind, first));
      isOdd = arith::OrIOp::create(builder, loc, isOdd,
                                   writePacketEntries(packets, first, behind, packetList(builder, loc, list)));
    }
    isOdd = voteOnOdd(builder, loc, isOdd);
    for (auto [packets, number, list] : llvm::zip_equal(both, numbers, lists)) {
      OpBuilder::InsertionGuard inStep(builder);
      Value hasSome = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, number, zero);
      builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, hasSome).thenBlock());
      movePackets(packets.move, packetList(builder, loc, list), number, isOdd);
    }
    Value next = createAdd(builder, loc, step, one);
    Value isMore = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, next, end);
    builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isMore).thenBlock());
    call(builder, loc, barrierFunction); // then nobody reads the lists any more
  });
  unsettled = {};
  unsettled.reads = unsettled.lists[lists[1]] = true;
}

} // namespace kolo::gpu
