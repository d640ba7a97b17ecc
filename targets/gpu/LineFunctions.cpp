// How a block sends and receives LL128 lines: 120 bytes of data, and a word with the sequence number of a call. Eight
// threads are a group, which stores or loads a line at once, 16 bytes a thread. The word is the upper half of the last
// thread's 16 bytes.
//
// The primitives promise that a line arrives at once. All threads of a group take the same branches, and give up
// together when the last one does.
#include "targets/gpu/ReceiveFunctions.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace kolo::gpu {

namespace {

constexpr int64_t lineBytes = ll128Packets.bytes, dataBytes = ll128Packets.dataBytes, halfBytes = 8,
                  threadBytes = 2 * halfBytes;
static_assert(threadsPerLine * threadBytes == lineBytes && dataBytes == lineBytes - halfBytes);

/// Of a group: loads are under way together, stores follow each other.
constexpr int64_t linesAtOnce = 4;

class LineFunctions : ReceiveFunctions {
public:
  explicit LineFunctions(ModuleOp module) : ReceiveFunctions(module, ll128Functions) {}

  void defineSend();
  void defineReceives(const DeviceOptions &options) {
    auto receive = [&](Value destination, Value lines, Value numElements, Type stored, Combine combine) {
      return receiveElements(destination, lines, numElements, stored, combine);
    };
    defineReceive(receive);
    defineReceiveReduce(options, receive);
  }

private:
  /// The two halves of what a thread has of a line.
  struct Halves {
    Value low, high;
  };
  using BuildLines = function_ref<Value(ArrayRef<Value> numbers, Value status)>;
  Value forLines(Value begin, Value end, int64_t mostAtOnce, Value status, BuildLines build);
  Halves loadData(Value source, Value number, Value size, bool isWhole);
  Polled pollLines(Value lines, ArrayRef<Value> numbers, Value status);
  Value receiveElements(Value destination, Value lines, Value numElements, Type stored, Combine combine);
  void combineWhole(Value destination, Value number, const Halves &arrived, Type stored, Combine combine);
  void combineRest(Value destination, Value number, Value size, const Halves &arrived, Type stored, Combine combine);

  void startFunction() {
    Value thread = toIndex(builder, loc, call(builder, loc, threadFunction));
    group = div(thread, threadsPerLine), place = arith::RemUIOp::create(builder, loc, thread, constant(threadsPerLine));
    numGroups = div(toIndex(builder, loc, call(builder, loc, numThreadsFunction)), threadsPerLine);
    isLast = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, place, constant(threadsPerLine - 1));
  }
  /// The address of this thread's part of a line.
  Value partAt(Value lines, Value number) {
    return at(lines, add(mul(number, constant(lineBytes)), mul(place, constant(threadBytes))));
  }
  /// The first byte of data in this thread's part of a line.
  Value firstByte(Value number) { return add(mul(number, constant(dataBytes)), mul(place, constant(threadBytes))); }
  Value fromLast(Value value) { return call(builder, loc, fromLastFunction, {value}); }
  /// Builds what is done but by the last thread of a group.
  void buildUnlessLast(function_ref<void()> build) {
    OpBuilder::InsertionGuard guard(builder);
    Value isOther = arith::XOrIOp::create(builder, loc, isLast, boolean(true));
    builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isOther).thenBlock());
    build();
  }

  Value group, place, numGroups, isLast; // of this thread, in the function at hand: the group, and the number in it
};

/// Group g of G takes lines begin + g, begin + g + G, ..., several at once as long as there are so many. A status goes
/// on.
Value LineFunctions::forLines(Value begin, Value end, int64_t mostAtOnce, Value status, BuildLines build) {
  Value next = add(begin, group);
  for (int64_t atOnce = mostAtOnce; atOnce > 0; atOnce = atOnce > 1) {
    OpBuilder::InsertionGuard guard(builder);
    Value last = createSub(builder, loc, end, mul(numGroups, constant(atOnce - 1)));
    Value step = mul(numGroups, constant(atOnce));
    auto loop = scf::ForOp::create(builder, loc, next, last, step, ValueRange{status, next});
    builder.setInsertionPointToStart(loop.getBody());
    SmallVector<Value> numbers = {loop.getInductionVar()};
    while (int64_t(numbers.size()) < atOnce)
      numbers.push_back(add(numbers.back(), numGroups));
    Value after = build(numbers, loop.getRegionIterArg(0));
    builder.setInsertionPointToEnd(loop.getBody());
    scf::YieldOp::create(builder, loc, ValueRange{after, add(loop.getInductionVar(), step)});
    status = loop.getResult(0), next = loop.getResult(1);
  }
  return status;
}

/// What a thread sends of a line: the whole of it, from a source aligned to half, or what `size` bytes leave for it.
LineFunctions::Halves LineFunctions::loadData(Value source, Value number, Value size, bool isWhole) {
  Value first = firstByte(number), second = add(first, constant(halfBytes)), end = add(second, constant(halfBytes));
  // The last thread's second half is the next line's first.
  Value secondEnd = arith::SelectOp::create(builder, loc, isLast, second, end);
  if (!isWhole)
    return {bytesOf(i64, source, first, min(second, size)), bytesOf(i64, source, second, min(secondEnd, size))};
  Value low = LLVM::LoadOp::create(builder, loc, i64, at(source, first), halfBytes);
  Value otherwise = arith::SelectOp::create(builder, loc, isLast, first, second);
  return {low, LLVM::LoadOp::create(builder, loc, i64, at(source, otherwise), halfBytes)};
}

/// (lines, src, sizeBytes, sequence)
void LineFunctions::defineSend() {
  function = createFunction(builder, module, names.send, Type(), {pointer, pointer, i64, i64}, Inlining::Never);
  Value lines = function.getArgument(0), source = function.getArgument(1),
        size = toIndex(builder, loc, function.getArgument(2));
  startFunction();
  Value word = wordOf(function.getArgument(3)), none = code(KOLO_DEVICE_OK); // nothing can fail
  auto send = [&](bool isWhole) {
    return [&, isWhole](ArrayRef<Value> numbers, Value status) {
      SmallVector<Halves> halves;
      for (Value number : numbers)
        halves.push_back(loadData(source, number, size, isWhole));
      for (auto [number, data] : llvm::zip_equal(numbers, halves)) {
        Value high = arith::SelectOp::create(builder, loc, isLast, word, data.high);
        call(builder, loc, storeLineFunction, {partAt(lines, number), data.low, high});
      }
      return status;
    };
  };
  Value numWhole =
      arith::SelectOp::create(builder, loc, isAligned(source, halfBytes), div(size, dataBytes), constant(0));
  // An empty message is sent too.
  Value numLines = max(div(add(size, constant(dataBytes - 1)), dataBytes), constant(1));
  forLines(constant(0), numWhole, linesAtOnce, none, send(/*isWhole=*/true));
  forLines(numWhole, numLines, 1, none, send(/*isWhole=*/false));
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

/// Reads so many lines, side by side, until all are of this call or the group gives up. Data: both halves of one after
/// the other.
ReceiveFunctions::Polled LineFunctions::pollLines(Value lines, ArrayRef<Value> numbers, Value status) {
  auto read = [&]() -> Attempt {
    Attempt attempt{{}, boolean(true)};
    for (Value number : numbers) {
      Value part = call(builder, loc, loadLineFunction, {partAt(lines, number)});
      for (int64_t half : {0, 1})
        attempt.data.push_back(LLVM::ExtractValueOp::create(builder, loc, part, half));
    }
    Value wanted = arith::TruncIOp::create(builder, loc, i32, sequence);
    for (size_t i = 0; i < numbers.size(); ++i) {
      Value found = fromLast(arith::TruncIOp::create(builder, loc, i32, sequenceIn(attempt.data[2 * i + 1])));
      Value isThere = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, found, wanted);
      attempt.areThere = arith::AndIOp::create(builder, loc, attempt.areThere, isThere);
    }
    return attempt;
  };
  auto giveUp = [&](Value turn, Value since) -> Patience {
    auto own = scf::IfOp::create(builder, loc, TypeRange{i32, i64}, isLast, /*withElseRegion=*/true);
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(own.thenBlock());
      Patience left = loseOrKeepPatience(builder, loc, invocation, turn, since, 32 / threadsPerLine);
      scf::YieldOp::create(builder, loc, ValueRange{left.code, left.since});
      builder.setInsertionPointToStart(own.elseBlock());
      scf::YieldOp::create(builder, loc, ValueRange{code(KOLO_DEVICE_OK), since});
    }
    return {fromLast(own.getResult(0)), own.getResult(1)};
  };
  return poll(SmallVector<Type>(2 * numbers.size(), i64), status, read, giveUp);
}

/// Halves at once, where a line is full and its place aligned to halves; else an element at a time. Gives this thread's
/// status.
Value LineFunctions::receiveElements(Value destination, Value lines, Value numElements, Type stored, Combine combine) {
  startFunction();
  Value size = mul(numElements, constant(stored.getIntOrFloatBitWidth() / 8));
  auto receive = [&](bool isWhole) {
    return [&, isWhole](ArrayRef<Value> numbers, Value status) {
      Polled polled = pollLines(lines, numbers, status);
      for (auto [i, number] : llvm::enumerate(numbers)) {
        Halves arrived = {polled.data[2 * i], polled.data[2 * i + 1]};
        if (isWhole)
          combineWhole(destination, number, arrived, stored, combine);
        else
          combineRest(destination, number, size, arrived, stored, combine);
      }
      return polled.status;
    };
  };
  Value numWhole =
      arith::SelectOp::create(builder, loc, isAligned(destination, halfBytes), div(size, dataBytes), constant(0));
  Value numLines = max(div(add(size, constant(dataBytes - 1)), dataBytes), constant(1));
  Value status = forLines(constant(0), numWhole, linesAtOnce, code(KOLO_DEVICE_OK), receive(/*isWhole=*/true));
  return forLines(numWhole, numLines, 1, status, receive(/*isWhole=*/false));
}

void LineFunctions::combineWhole(Value destination, Value number, const Halves &arrived, Type stored, Combine combine) {
  auto type = VectorType::get({halfBytes * 8 / stored.getIntOrFloatBitWidth()}, stored);
  Value first = firstByte(number);
  auto combineHalf = [&](Value half, Value byte) {
    Value vector = vector::FromElementsOp::create(builder, loc, VectorType::get({1}, i64), half);
    Value target = at(destination, byte);
    Value made = combine(vector::BitCastOp::create(builder, loc, type, vector), target, halfBytes);
    LLVM::StoreOp::create(builder, loc, made, target, halfBytes);
  };
  combineHalf(arrived.low, first);
  buildUnlessLast([&] { combineHalf(arrived.high, add(first, constant(halfBytes))); });
}

/// What `size` bytes leave for this thread's part of a line.
void LineFunctions::combineRest(Value destination, Value number, Value size, const Halves &arrived, Type stored,
                                Combine combine) {
  OpBuilder::InsertionGuard guard(builder);
  int64_t elementBytes = stored.getIntOrFloatBitWidth() / 8;
  Value first = firstByte(number),
        bytes = arith::SelectOp::create(builder, loc, isLast, constant(halfBytes), constant(threadBytes));
  Value end = min(add(first, bytes), size);
  auto loop = scf::ForOp::create(builder, loc, first, end, constant(elementBytes));
  builder.setInsertionPointToStart(loop.getBody());
  Value byte = loop.getInductionVar(), offset = createSub(builder, loc, byte, first);
  Value isLow = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, offset, constant(halfBytes));
  Value half = arith::SelectOp::create(builder, loc, isLow, arrived.low, arrived.high);
  Value inHalf = arith::AndIOp::create(builder, loc, offset, constant(halfBytes - 1)), target = at(destination, byte);
  Value made = combine(elementAt(half, inHalf, stored), target, elementBytes);
  LLVM::StoreOp::create(builder, loc, made, target, unsigned(elementBytes));
}

} // namespace

void defineLines(ModuleOp module, const DeviceOptions &options) {
  LineFunctions lines(module);
  lines.defineSend();
  lines.defineReceives(options);
}

} // namespace kolo::gpu
