// How a block sends and receives LL128 lines: 120 bytes of data, and a word with the sequence number of a call. Eight
// threads are a group, which stores or loads a line at once, 16 bytes a thread. The word is the upper half of the last
// thread's 16 bytes.
//
// The primitives promise that a line arrives at once. All threads of a group take the same branches, and give up
// together when the last one does.
#include "targets/gpu/LineUnits.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo::gpu {

namespace {

class LineFunctions : LineUnits {
public:
  explicit LineFunctions(ModuleOp module) : LineUnits(module) {}

  void defineSend();
  void defineReceives(const DeviceOptions &options) {
    auto receive = [&](Value destination, Value lines, Value numElements, Type stored, Combine combine) {
      return receiveElements(destination, lines, numElements, stored, combine);
    };
    defineReceive(receive);
    defineReceiveReduce(options, receive);
  }

private:
  Halves loadData(Value source, Value number, Value size, bool isWhole);
  Value receiveElements(Value destination, Value lines, Value numElements, Type stored, Combine combine);
  void combineWhole(Value destination, Value number, const Halves &arrived, Type stored, Combine combine);
  void combineRest(Value destination, Value number, Value size, const Halves &arrived, Type stored, Combine combine);

  /// Builds what is done but by the last thread of a group.
  void buildUnlessLast(function_ref<void()> build) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isNotLast()).thenBlock());
    build();
  }
};

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
  startThreads();
  Value word = wordOf(function.getArgument(3)), none = code(KOLO_DEVICE_OK); // nothing can fail
  auto send = [&](bool isWhole) {
    return [&, isWhole](ArrayRef<Value> numbers, Value status) {
      SmallVector<Halves> halves;
      for (Value number : numbers)
        halves.push_back(loadData(source, number, size, isWhole));
      for (auto [number, data] : llvm::zip_equal(numbers, halves))
        storeLine(partAt(lines, number), data, word);
      return status;
    };
  };
  Value numWhole =
      arith::SelectOp::create(builder, loc, isAligned(source, halfBytes), div(size, dataBytes), constant(0));
  forLines(group, numWhole, numGroups, linesAtOnce, none, send(/*isWhole=*/true));
  forLines(add(numWhole, group), linesFor(size), numGroups, 1, none, send(/*isWhole=*/false));
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

/// Halves at once, where a line is full and its place aligned to halves; else an element at a time. Gives this thread's
/// status.
Value LineFunctions::receiveElements(Value destination, Value lines, Value numElements, Type stored, Combine combine) {
  startThreads();
  Value size = mul(numElements, constant(stored.getIntOrFloatBitWidth() / 8));
  auto receive = [&](bool isWhole) {
    return [&, isWhole](ArrayRef<Value> numbers, Value status) {
      Polled polled =
          pollLines(llvm::map_to_vector(numbers, [&](Value number) { return partAt(lines, number); }), status);
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
  Value status = forLines(group, numWhole, numGroups, linesAtOnce, code(KOLO_DEVICE_OK), receive(/*isWhole=*/true));
  return forLines(add(numWhole, group), linesFor(size), numGroups, 1, status, receive(/*isWhole=*/false));
}

void LineFunctions::combineWhole(Value destination, Value number, const Halves &arrived, Type stored, Combine combine) {
  Value first = firstByte(number);
  auto combineHalf = [&](Value half, Value byte) {
    Value target = at(destination, byte), made = combine(vectorOf(half, stored), target, halfBytes);
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
