// How a block sends LL packets to several peers at once, and receives those of several peers at once. A thread has the
// packets of four peers in flight, and combines what arrives in registers, in the order of the list.
//
// Vectors of 16 bytes go this way where all memory is aligned to them, and all messages are equally long. The rest goes
// peer after peer.
#include "targets/gpu/PacketUnits.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace kolo::gpu {

namespace {

class PacketGroupFunctions : PacketUnits {
public:
  explicit PacketGroupFunctions(ModuleOp module) : PacketUnits(module) {}

  void defineSend();
  void defineReceive();
  void defineReceiveReduce(const DeviceOptions &options);

private:
  /// Of one message, of type index.
  struct Extent {
    Value bytes, numVectors;
  };
  Extent extentOf(Value unitBytes, bool areEquallyLong);
  PolledVectors pollUnits(ArrayRef<Entry> batch, Value unit, Value status);
  Value moveRest(Value status, const Extent &extent, Value unitBytes, function_ref<Value(const Entry &rest)> build);
  Value isEqual(Value a, Value b) { return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, a, b); }
  Value isOther(Value a, Value b) { return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, a, b); }
};

/// Of the first message, whose size counts units of so many bytes. No vectors where memory is not aligned to them, or
/// where the messages are not equally long.
PacketGroupFunctions::Extent PacketGroupFunctions::extentOf(Value unitBytes, bool areEquallyLong) {
  Value size = entryAt(constant(0)).size, haveVectors = arith::XOrIOp::create(builder, loc, isOdd, boolean(true));
  if (!areEquallyLong) {
    OpBuilder::InsertionGuard guard(builder);
    auto loop = scf::ForOp::create(builder, loc, constant(1), numEntries, constant(1), ValueRange{haveVectors});
    builder.setInsertionPointToStart(loop.getBody());
    Value isSame = isEqual(entryAt(loop.getInductionVar()).size, size);
    scf::YieldOp::create(builder, loc,
                         arith::AndIOp::create(builder, loc, loop.getRegionIterArg(0), isSame).getResult());
    haveVectors = loop.getResult(0);
  }
  Value bytes = mul(size, unitBytes);
  return {bytes, arith::SelectOp::create(builder, loc, haveVectors, div(bytes, vectorBytes), constant(0))};
}

PacketUnits::PolledVectors PacketGroupFunctions::pollUnits(ArrayRef<Entry> batch, Value unit, Value status) {
  Value first = mul(unit, constant(packetsPerVector));
  SmallVector<Value> packets =
      llvm::map_to_vector(batch, [&](const Entry &entry) { return packetAt(entry.packets, first); });
  return pollPackets(packets, packetsPerVector, status);
}

/// What is behind the vectors, peer after peer, until one gives up. A message without elements is a packet, too.
/// Looks at the list only where there is something left.
Value PacketGroupFunctions::moveRest(Value status, const Extent &extent, Value unitBytes,
                                     function_ref<Value(const Entry &rest)> build) {
  OpBuilder::InsertionGuard guard(builder);
  Value numVectors = extent.numVectors, bytesDone = mul(numVectors, constant(vectorBytes));
  Value isDone =
      arith::AndIOp::create(builder, loc, isEqual(extent.bytes, bytesDone), isOther(numVectors, constant(0)));
  auto choice = scf::IfOp::create(builder, loc, TypeRange(i32),
                                  arith::OrIOp::create(builder, loc, isDone, isOther(status, code(KOLO_DEVICE_OK))),
                                  /*withElseRegion=*/true);
  builder.setInsertionPointToStart(choice.thenBlock());
  scf::YieldOp::create(builder, loc, status);
  builder.setInsertionPointToStart(choice.elseBlock());
  Value done = arith::DivUIOp::create(builder, loc, bytesDone, unitBytes);
  Value moved = forEachUnlessFailed(status, [&](const Entry &entry) {
    Value packets = packetAt(entry.packets, mul(numVectors, constant(packetsPerVector)));
    return build({packets, at(entry.memory, bytesDone), createSub(builder, loc, entry.size, done)});
  });
  scf::YieldOp::create(builder, loc, moved);
  return choice.getResult(0);
}

/// (list, numEntries, isOdd, sequence)
void PacketGroupFunctions::defineSend() {
  Type block = pointerType(builder, blockSpace);
  startOfAll(createFunction(builder, module, names.sendAll, Type(), {block, i64, i64, i64}, Inlining::Never), 0);
  sequence = function.getArgument(3);
  Extent extent = extentOf(constant(1), /*areEquallyLong=*/false);
  Value none = code(KOLO_DEVICE_OK); // nothing can fail
  forUnits(constant(0), extent.numVectors, none, [&](Value unit, Value status) {
    return forEachBatch({status},
                        [&](Value first, ValueRange same) -> SmallVector<Value> {
                          SmallVector<Entry> batch = batchFrom(first);
                          SmallVector<Value> vectors = llvm::map_to_vector(
                              batch, [&](const Entry &entry) { return loadVector(entry.memory, unit, vectorBytes); });
                          for (auto [entry, vector] : llvm::zip_equal(batch, vectors))
                            storeVector(entry.packets, unit, vector);
                          return {same[0]};
                        })
        .front();
  });
  moveRest(none, extent, constant(1), [&](const Entry &rest) {
    call(builder, loc, names.send, {rest.packets, rest.memory, toInteger(builder, loc, rest.size), sequence});
    return none;
  });
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

void PacketGroupFunctions::defineReceive() {
  startReceivingAll(names.blockedReceiveAll, /*isReduce=*/false);
  Extent extent = extentOf(constant(1), /*areEquallyLong=*/false);
  Value status = forUnits(constant(0), extent.numVectors, code(KOLO_DEVICE_OK), [&](Value unit, Value before) {
    return forEachBatch({before},
                        [&](Value first, ValueRange own) -> SmallVector<Value> {
                          SmallVector<Entry> batch = batchFrom(first);
                          PolledVectors polled = pollUnits(batch, unit, own[0]);
                          for (auto [entry, data] : llvm::zip_equal(batch, polled.data))
                            LLVM::StoreOp::create(builder, loc, data,
                                                  at(entry.memory, mul(unit, constant(vectorBytes))),
                                                  unsigned(vectorBytes));
                          return {polled.status};
                        })
        .front();
  });
  giveBack(moveRest(shareStatus(status), extent, constant(1), [&](const Entry &rest) {
    return narrow(
        call(builder, loc, names.blockedReceive,
             {invocation, sequence, statement, rest.memory, rest.packets, toInteger(builder, loc, rest.size)}));
  }));
  defineUniform(names.receiveAll, names.blockedReceiveAll);
}

void PacketGroupFunctions::defineReceiveReduce(const DeviceOptions &options) {
  startReceivingAll(names.blockedReceiveReduceAll, /*isReduce=*/true);
  Value type = function.getArgument(6), reduction = function.getArgument(7);
  Value elementBytes =
      toIndex(builder, loc, load(builder, loc, i64, invocation, offsetof(KoloDeviceInvocation, elementBytes)));
  Extent extent = extentOf(elementBytes, /*areEquallyLong=*/true);
  Value memory = entryAt(constant(0)).memory;
  Value status = chooseReduction(options, type, reduction, [&](KoloType ofType, KoloReduction ofReduction) {
    Type stored = storedType(builder, ofType);
    auto vectorType = VectorType::get({vectorBytes * 8 / int64_t(stored.getIntOrFloatBitWidth())}, stored);
    return forUnits(constant(0), extent.numVectors, code(KOLO_DEVICE_OK), [&](Value unit, Value before) {
      Value place = at(memory, mul(unit, constant(vectorBytes)));
      Value old = LLVM::LoadOp::create(builder, loc, vectorType, place, unsigned(vectorBytes));
      SmallVector<Value> result = forEachBatch({before, old}, [&](Value first, ValueRange state) -> SmallVector<Value> {
        PolledVectors polled = pollUnits(batchFrom(first), unit, state[0]);
        Value sum = state[1];
        for (auto [number, data] : llvm::enumerate(polled.data)) {
          Value arrived = vector::BitCastOp::create(builder, loc, vectorType, data);
          Value more = createReduction(builder, loc, ofType, ofReduction, sum, arrived, options.accumulation);
          Value isEntry = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult,
                                                add(first, constant(int64_t(number))), numEntries);
          sum = arith::SelectOp::create(builder, loc, isEntry, more, sum);
        }
        return {polled.status, sum};
      });
      LLVM::StoreOp::create(builder, loc, result[1], place, unsigned(vectorBytes));
      return result[0];
    });
  });
  giveBack(moveRest(shareStatus(status), extent, elementBytes, [&](const Entry &rest) {
    return narrow(call(builder, loc, names.blockedReceiveReduce,
                       {invocation, sequence, statement, rest.memory, rest.packets, toInteger(builder, loc, rest.size),
                        type, reduction}));
  }));
  defineUniform(names.receiveReduceAll, names.blockedReceiveReduceAll);
}

} // namespace

void definePacketGroups(ModuleOp module, const DeviceOptions &options) {
  PacketGroupFunctions groups(module);
  groups.defineSend();
  groups.defineReceive();
  groups.defineReceiveReduce(options);
}

} // namespace kolo::gpu
