// How a block sends and receives LL packets: words of 8 bytes, 4 of data and 4 for the sequence number of a call. The
// number says that the data is there, so that no signal is needed. A thread sends, or polls for, the four packets of 16
// bytes of data at once.
//
// A packet orders no other memory: relaxed accesses at system scope are enough.
#include "compiler/lower/PacketFormat.h"
#include "targets/gpu/ReceiveFunctions.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace kolo::gpu {

namespace {

constexpr int64_t dataBytes = llPackets.dataBytes, packetBytes = llPackets.bytes;
constexpr int64_t vectorBytes = 16, packetsPerVector = vectorBytes / dataBytes;

class PacketFunctions : ReceiveFunctions {
public:
  explicit PacketFunctions(ModuleOp module) : ReceiveFunctions(module, llFunctions) {}

  void defineSend();
  void defineReceives(const DeviceOptions &options) {
    auto receive = [&](Value destination, Value packets, Value numElements, Type stored, Combine combine) {
      return receiveElements(destination, packets, numElements, stored, combine);
    };
    defineReceive(receive);
    defineReceiveReduce(options, receive);
  }

private:
  Value receiveElements(Value destination, Value packets, Value numElements, Type stored, Combine combine);
  Value forUnits(Value begin, Value end, Value status, function_ref<Value(Value unit, Value status)> build);
  struct PolledVector {
    Value data, status;
  };
  PolledVector pollPackets(Value first, int64_t numPackets, Value status);
  Value elementOf(Value data, Value offset, Type stored);
  void storePacket(Value packets, Value number, Value data);

  Value packetAt(Value packets, Value number) { return at(packets, mul(number, constant(packetBytes))); }
};

/// Thread t of T takes units begin + t, begin + t + T, ... A status goes from unit to unit.
Value PacketFunctions::forUnits(Value begin, Value end, Value status,
                                function_ref<Value(Value unit, Value status)> build) {
  OpBuilder::InsertionGuard guard(builder);
  Value thread = toIndex(builder, loc, call(builder, loc, threadFunction));
  Value threads = toIndex(builder, loc, call(builder, loc, numThreadsFunction));
  auto loop = scf::ForOp::create(builder, loc, add(begin, thread), end, threads, ValueRange{status});
  builder.setInsertionPointToStart(loop.getBody());
  Value next = build(loop.getInductionVar(), loop.getRegionIterArg(0));
  builder.setInsertionPointToEnd(loop.getBody());
  scf::YieldOp::create(builder, loc, next);
  return loop.getResult(0);
}

void PacketFunctions::storePacket(Value packets, Value number, Value data) {
  Value packet = arith::OrIOp::create(builder, loc, arith::ExtUIOp::create(builder, loc, i64, data), wordOf(sequence));
  LLVM::StoreOp::create(builder, loc, packet, packetAt(packets, number), packetBytes, false, false, false,
                        LLVM::AtomicOrdering::monotonic, "");
}

/// (packets, src, sizeBytes, sequence)
void PacketFunctions::defineSend() {
  function = createFunction(builder, module, names.send, Type(), {pointer, pointer, i64, i64}, Inlining::Never);
  Value packets = function.getArgument(0), source = function.getArgument(1);
  sequence = function.getArgument(3);
  Value size = toIndex(builder, loc, function.getArgument(2)), numVectors = div(size, vectorBytes);
  Value none = code(KOLO_DEVICE_OK); // nothing can fail
  auto sendVectors = [&](int64_t alignment) {
    forUnits(constant(0), numVectors, none, [&](Value unit, Value status) {
      Value from = at(source, mul(unit, constant(vectorBytes)));
      Value vector =
          LLVM::LoadOp::create(builder, loc, VectorType::get({packetsPerVector}, i32), from, unsigned(alignment));
      Value first = mul(unit, constant(packetsPerVector));
      for (int64_t i = 0; i < packetsPerVector; ++i)
        storePacket(packets, add(first, constant(i)), vector::ExtractOp::create(builder, loc, vector, i));
      return status;
    });
  };
  auto choice = scf::IfOp::create(builder, loc, isAligned(source, vectorBytes), /*withElseRegion=*/true);
  builder.setInsertionPointToStart(choice.thenBlock());
  sendVectors(vectorBytes);
  builder.setInsertionPointToStart(choice.elseBlock());
  sendVectors(1);
  builder.setInsertionPointAfter(choice);
  // An empty message is sent too.
  Value numPackets = max(div(add(size, constant(dataBytes - 1)), dataBytes), constant(1));
  forUnits(mul(numVectors, constant(packetsPerVector)), numPackets, none, [&](Value number, Value status) {
    Value begin = mul(number, constant(dataBytes));
    Value end = min(add(begin, constant(dataBytes)), size);
    storePacket(packets, number, bytesOf(i32, source, begin, end));
    return status;
  });
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

/// Reads so many packets, side by side, until all are of this call or this thread gives up, which it may have done
/// before.
PacketFunctions::PolledVector PacketFunctions::pollPackets(Value first, int64_t numPackets, Value status) {
  auto vectorType = VectorType::get({numPackets}, i32);
  auto read = [&]() -> Attempt {
    SmallVector<Value> packets, data;
    for (int64_t i = 0; i < numPackets; ++i)
      packets.push_back(LLVM::LoadOp::create(builder, loc, i64, packetAt(first, constant(i)), packetBytes, false, false,
                                             false, false, LLVM::AtomicOrdering::monotonic, ""));
    Value areThere = boolean(true);
    for (Value packet : packets) {
      Value isThere = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, sequenceIn(packet), sequence);
      areThere = arith::AndIOp::create(builder, loc, areThere, isThere);
      data.push_back(arith::TruncIOp::create(builder, loc, i32, packet));
    }
    return {{vector::FromElementsOp::create(builder, loc, vectorType, data)}, areThere};
  };
  Polled polled =
      poll(vectorType, status, read, [&](Value turn) { return whyToGiveUp(builder, loc, invocation, turn); });
  return {polled.data.front(), polled.status};
}

/// Vectors of 16 bytes, then what is left, an element of at most 8 bytes at a time. Gives this thread's status.
Value PacketFunctions::receiveElements(Value destination, Value packets, Value numElements, Type stored,
                                       Combine combine) {
  int64_t elementBytes = stored.getIntOrFloatBitWidth() / 8, perVector = vectorBytes / elementBytes;
  Value numVectors = div(numElements, perVector);
  auto receiveVectors = [&](int64_t alignment) {
    return forUnits(constant(0), numVectors, code(KOLO_DEVICE_OK), [&](Value unit, Value status) {
      PolledVector polled =
          pollPackets(packetAt(packets, mul(unit, constant(packetsPerVector))), packetsPerVector, status);
      Value arrived = vector::BitCastOp::create(builder, loc, VectorType::get({perVector}, stored), polled.data);
      Value place = at(destination, mul(unit, constant(vectorBytes)));
      LLVM::StoreOp::create(builder, loc, combine(arrived, place, alignment), place, unsigned(alignment));
      return polled.status;
    });
  };
  auto choice =
      scf::IfOp::create(builder, loc, TypeRange(i32), isAligned(destination, vectorBytes), /*withElseRegion=*/true);
  for (auto [block, alignment] :
       {std::pair(choice.thenBlock(), vectorBytes), std::pair(choice.elseBlock(), elementBytes)}) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(block);
    Value status = receiveVectors(alignment);
    builder.setInsertionPointToEnd(block);
    scf::YieldOp::create(builder, loc, status);
  }
  Value isEmpty = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, numElements, constant(0));
  Value numAlone = arith::SelectOp::create(builder, loc, isEmpty, constant(1), constant(0));
  Value status = forUnits(constant(0), numAlone, choice.getResult(0),
                          [&](Value, Value before) { return pollPackets(packets, 1, before).status; });
  return forUnits(mul(numVectors, constant(perVector)), numElements, status, [&](Value element, Value before) {
    Value offset = mul(element, constant(elementBytes)), place = at(destination, offset);
    int64_t numPackets = std::max<int64_t>(1, elementBytes / dataBytes);
    PolledVector polled = pollPackets(packetAt(packets, div(offset, dataBytes)), numPackets, before);
    Value arrived = elementOf(polled.data, offset, stored);
    LLVM::StoreOp::create(builder, loc, combine(arrived, place, elementBytes), place, unsigned(elementBytes));
    return polled.status;
  });
}

/// The element at an offset in what it came in: one packet's data, or two packets'.
Value PacketFunctions::elementOf(Value data, Value offset, Type stored) {
  unsigned bits = stored.getIntOrFloatBitWidth();
  if (bits >= 8 * dataBytes) {
    Value vector = vector::BitCastOp::create(builder, loc, VectorType::get({1}, stored), data);
    return vector::ExtractOp::create(builder, loc, vector, int64_t(0));
  }
  Value inPacket = arith::RemUIOp::create(builder, loc, offset, constant(dataBytes));
  return elementAt(vector::ExtractOp::create(builder, loc, data, int64_t(0)), inPacket, stored);
}

} // namespace

void definePackets(ModuleOp module, const DeviceOptions &options) {
  PacketFunctions packets(module);
  packets.defineSend();
  packets.defineReceives(options);
}

} // namespace kolo::gpu
