// How a block sends and receives LL packets: words of 8 bytes, 4 of data and 4 for the sequence number of a call. The
// number says that the data is there, so that no signal is needed. A thread sends, or polls for, the four packets of 16
// bytes of data at once.
//
// A packet orders no other memory: relaxed accesses at system scope are enough.
#include "targets/gpu/PacketUnits.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace kolo::gpu {

namespace {

class PacketFunctions : PacketUnits {
public:
  explicit PacketFunctions(ModuleOp module) : PacketUnits(module) {}

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
  Value elementOf(Value data, Value offset, Type stored);
};

/// (packets, src, sizeBytes, sequence)
void PacketFunctions::defineSend() {
  function = createFunction(builder, module, names.send, Type(), {pointer, pointer, i64, i64}, Inlining::Never);
  Value packets = function.getArgument(0), source = function.getArgument(1);
  sequence = function.getArgument(3);
  Value size = toIndex(builder, loc, function.getArgument(2)), numVectors = div(size, vectorBytes);
  Value none = code(KOLO_DEVICE_OK); // nothing can fail
  auto sendVectors = [&](int64_t alignment) {
    forUnits(constant(0), numVectors, none, [&](Value unit, Value status) {
      storeVector(packets, unit, loadVector(source, unit, alignment));
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

/// Vectors of 16 bytes, then what is left, an element of at most 8 bytes at a time. Gives this thread's status.
Value PacketFunctions::receiveElements(Value destination, Value packets, Value numElements, Type stored,
                                       Combine combine) {
  int64_t elementBytes = stored.getIntOrFloatBitWidth() / 8, perVector = vectorBytes / elementBytes;
  Value numVectors = div(numElements, perVector);
  auto receiveVectors = [&](int64_t alignment) {
    return forUnits(constant(0), numVectors, code(KOLO_DEVICE_OK), [&](Value unit, Value status) {
      PolledVectors polled =
          pollPackets(packetAt(packets, mul(unit, constant(packetsPerVector))), packetsPerVector, status);
      Value arrived =
          vector::BitCastOp::create(builder, loc, VectorType::get({perVector}, stored), polled.data.front());
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
    PolledVectors polled = pollPackets(packetAt(packets, div(offset, dataBytes)), numPackets, before);
    Value arrived = elementOf(polled.data.front(), offset, stored);
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
