// How a block sends LL128 lines to several peers at once, and receives those of several peers at once. The groups of
// eight threads share the lines of all peers. Those that receive sums have a line of four peers in flight, and combine
// what arrives in registers, in the order of the list.
//
// Halves of 8 bytes go this way where all messages consist of them. The rest goes peer after peer.
#include "targets/gpu/LineUnits.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo::gpu {

namespace {

class LineGroupFunctions : LineUnits {
public:
  explicit LineGroupFunctions(ModuleOp module) : LineUnits(module) {}

  void defineSend();
  void defineReceive();
  void defineReceiveReduce(const DeviceOptions &options);

private:
  /// Of one thread's part of a line: where its halves are in memory, and whether the message has them.
  struct Part {
    Value low, high, hasLow, hasHigh;
  };
  Part partOf(Value memory, Value number, Value size);
  Value loadHalf(Value address) { return LLVM::LoadOp::create(builder, loc, i64, address, halfBytes); }
  Value loadHalfIf(Value condition, Value address);
  void storeIf(Value condition, Value data, Value address);
  Value forLinesOfAll(Value status,
                      function_ref<Value(const Entry &entry, ArrayRef<Value> numbers, Value status)> build);
  Value choose(Value condition, function_ref<Value()> buildThen, function_ref<Value()> buildElse);
  Value reduceLine(KoloType type, KoloReduction reduction, const DeviceOptions &options, const Part &part, Value number,
                   Value status);
};

/// What the message does not have is at its last half, which may be read in its place, unless others write it.
LineGroupFunctions::Part LineGroupFunctions::partOf(Value memory, Value number, Value size) {
  auto isWithin = [&](Value end) { return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, end, size); };
  Value first = firstByte(number), second = add(first, constant(halfBytes)), end = add(second, constant(halfBytes));
  Value last = createSub(builder, loc, size, constant(halfBytes));
  return {at(memory, min(first, last)), at(memory, min(second, last)), isWithin(second),
          arith::AndIOp::create(builder, loc, isNotLast(), isWithin(end))};
}

Value LineGroupFunctions::loadHalfIf(Value condition, Value address) {
  OpBuilder::InsertionGuard guard(builder);
  auto choice = scf::IfOp::create(builder, loc, TypeRange(i64), condition, /*withElseRegion=*/true);
  builder.setInsertionPointToStart(choice.thenBlock());
  scf::YieldOp::create(builder, loc, loadHalf(address));
  builder.setInsertionPointToStart(choice.elseBlock());
  scf::YieldOp::create(builder, loc, constantI64(builder, loc, 0));
  return choice.getResult(0);
}

void LineGroupFunctions::storeIf(Value condition, Value data, Value address) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, condition).thenBlock());
  LLVM::StoreOp::create(builder, loc, data, address, unsigned(halfBytes));
}

/// With W = min(entries, groups), group g begins with entry g mod W and line g / W. It goes on by W entries, and by as
/// many lines as there are groups for each entry. Groups that are too many for that do nothing.
Value LineGroupFunctions::forLinesOfAll(
    Value status, function_ref<Value(const Entry &entry, ArrayRef<Value> numbers, Value status)> build) {
  OpBuilder::InsertionGuard guard(builder);
  auto narrowIndex = [&](Value value) { return narrow(toInteger(builder, loc, value)); };
  auto wide = [&](Value value) { return toIndex(builder, loc, arith::ExtUIOp::create(builder, loc, i64, value)); };
  Value width = narrowIndex(min(numEntries, numGroups)), own = narrowIndex(group);
  Value quotient = arith::DivUIOp::create(builder, loc, own, width);
  Value rest = arith::SubIOp::create(builder, loc, own, arith::MulIOp::create(builder, loc, quotient, width));
  Value line = wide(quotient), step = wide(arith::DivUIOp::create(builder, loc, narrowIndex(numGroups), width));
  Value isNeeded = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, line, step);
  Value first = arith::SelectOp::create(builder, loc, isNeeded, wide(rest), numEntries);
  auto loop = scf::ForOp::create(builder, loc, first, numEntries, wide(width), ValueRange{status});
  builder.setInsertionPointToStart(loop.getBody());
  Entry entry = entryAt(loop.getInductionVar());
  Value after = forLines(line, linesFor(entry.size), step, linesAtOnce, loop.getRegionIterArg(0),
                         [&](ArrayRef<Value> numbers, Value before) { return build(entry, numbers, before); });
  builder.setInsertionPointToEnd(loop.getBody());
  scf::YieldOp::create(builder, loc, after);
  return loop.getResult(0);
}

Value LineGroupFunctions::choose(Value condition, function_ref<Value()> buildThen, function_ref<Value()> buildElse) {
  OpBuilder::InsertionGuard guard(builder);
  auto choice = scf::IfOp::create(builder, loc, TypeRange(i32), condition, /*withElseRegion=*/true);
  for (auto [block, build] : {std::pair(choice.thenBlock(), buildThen), std::pair(choice.elseBlock(), buildElse)}) {
    builder.setInsertionPointToStart(block);
    Value status = build();
    builder.setInsertionPointToEnd(block);
    scf::YieldOp::create(builder, loc, status);
  }
  return choice.getResult(0);
}

/// (list, numEntries, isOdd, sequence)
void LineGroupFunctions::defineSend() {
  Type block = pointerType(builder, blockSpace);
  startOfAll(createFunction(builder, module, names.sendAll, Type(), {block, i64, i64, i64}, Inlining::Never), 0);
  sequence = function.getArgument(3);
  startThreads();
  Value word = wordOf(sequence), none = code(KOLO_DEVICE_OK); // nothing can fail
  auto sendLines = [&](const Entry &entry, ArrayRef<Value> numbers, Value status) {
    SmallVector<Halves> halves;
    for (Value number : numbers) {
      Part part = partOf(entry.memory, number, entry.size);
      halves.push_back({loadHalf(part.low), loadHalf(part.high)});
    }
    for (auto [number, data] : llvm::zip_equal(numbers, halves))
      storeLine(partAt(entry.packets, number), data, word);
    return status;
  };
  auto sendAlone = [&](const Entry &entry) {
    call(builder, loc, names.send, {entry.packets, entry.memory, toInteger(builder, loc, entry.size), sequence});
    return none;
  };
  choose(isOdd, [&] { return forEachUnlessFailed(none, sendAlone); }, [&] { return forLinesOfAll(none, sendLines); });
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

void LineGroupFunctions::defineReceive() {
  startReceivingAll(names.blockedReceiveAll, /*isReduce=*/false);
  startThreads();
  auto receiveLines = [&](const Entry &entry, ArrayRef<Value> numbers, Value status) {
    Polled polled =
        pollLines(llvm::map_to_vector(numbers, [&](Value number) { return partAt(entry.packets, number); }), status);
    for (auto [i, number] : llvm::enumerate(numbers)) {
      Part part = partOf(entry.memory, number, entry.size);
      storeIf(part.hasLow, polled.data[2 * i], part.low);
      storeIf(part.hasHigh, polled.data[2 * i + 1], part.high);
    }
    return polled.status;
  };
  auto receiveAlone = [&](const Entry &entry) {
    return narrow(
        call(builder, loc, names.blockedReceive,
             {invocation, sequence, statement, entry.memory, entry.packets, toInteger(builder, loc, entry.size)}));
  };
  Value fine = code(KOLO_DEVICE_OK);
  giveBack(choose(
      isOdd, [&] { return forEachUnlessFailed(fine, receiveAlone); },
      [&] { return shareStatus(forLinesOfAll(fine, receiveLines)); }));
  defineUniform(names.receiveAll, names.blockedReceiveAll);
}

/// One line of every peer onto what is there.
Value LineGroupFunctions::reduceLine(KoloType type, KoloReduction reduction, const DeviceOptions &options,
                                     const Part &part, Value number, Value status) {
  Type stored = storedType(builder, type);
  SmallVector<Value> result = forEachBatch(
      {status, vectorOf(loadHalfIf(part.hasLow, part.low), stored),
       vectorOf(loadHalfIf(part.hasHigh, part.high), stored)},
      [&](Value first, ValueRange state) -> SmallVector<Value> {
        SmallVector<Value> parts =
            llvm::map_to_vector(batchFrom(first), [&](const Entry &entry) { return partAt(entry.packets, number); });
        Polled polled = pollLines(parts, state[0]);
        SmallVector<Value> next = {polled.status, state[1], state[2]};
        for (size_t i = 0; i < parts.size(); ++i) {
          Value isEntry = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult,
                                                add(first, constant(int64_t(i))), numEntries);
          for (size_t half : {0, 1}) {
            Value &sum = next[1 + half];
            Value more = createReduction(builder, loc, type, reduction, sum,
                                         vectorOf(polled.data[2 * i + half], stored), options.accumulation);
            sum = arith::SelectOp::create(builder, loc, isEntry, more, sum);
          }
        }
        return next;
      });
  storeIf(part.hasLow, result[1], part.low);
  storeIf(part.hasHigh, result[2], part.high);
  return result[0];
}

void LineGroupFunctions::defineReceiveReduce(const DeviceOptions &options) {
  startReceivingAll(names.blockedReceiveReduceAll, /*isReduce=*/true);
  startThreads();
  Value type = function.getArgument(6), reduction = function.getArgument(7), fine = code(KOLO_DEVICE_OK);
  Value elementBytes =
      toIndex(builder, loc, load(builder, loc, i64, invocation, offsetof(KoloDeviceInvocation, elementBytes)));
  auto reduceLines = [&] {
    Entry entry = entryAt(constant(0));
    Value size = mul(entry.size, elementBytes);
    Value status = chooseReduction(options, type, reduction, [&](KoloType ofType, KoloReduction ofReduction) {
      return forLines(group, linesFor(size), numGroups, 1, fine, [&](ArrayRef<Value> numbers, Value before) {
        Part part = partOf(entry.memory, numbers[0], size);
        return reduceLine(ofType, ofReduction, options, part, numbers[0], before);
      });
    });
    return shareStatus(status);
  };
  auto reduceAlone = [&](const Entry &entry) {
    return narrow(call(builder, loc, names.blockedReceiveReduce,
                       {invocation, sequence, statement, entry.memory, entry.packets,
                        toInteger(builder, loc, entry.size), type, reduction}));
  };
  giveBack(choose(isOdd, [&] { return forEachUnlessFailed(fine, reduceAlone); }, reduceLines));
  defineUniform(names.receiveReduceAll, names.blockedReceiveReduceAll);
}

} // namespace

void defineLineGroups(ModuleOp module, const DeviceOptions &options) {
  LineGroupFunctions groups(module);
  groups.defineSend();
  groups.defineReceive();
  groups.defineReceiveReduce(options);
}

} // namespace kolo::gpu
