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

constexpr int64_t peersInFlight = 4;
constexpr StringLiteral blockedReceiveAllFunction = "kolo.receiveAll.blocked",
                        blockedReceiveReduceAllFunction = "kolo.receiveReduceAll.blocked";

class PacketGroupFunctions : PacketUnits {
public:
  explicit PacketGroupFunctions(ModuleOp module) : PacketUnits(module) {}

  void defineSend();
  void defineReceive();
  void defineReceiveReduce(const DeviceOptions &options);

private:
  struct Entry {
    Value packets, memory, size; // the size of type index
  };
  Entry entryAt(Value index);
  SmallVector<Entry> batchFrom(Value first);
  /// Of one message, of type index.
  struct Extent {
    Value bytes, numVectors;
  };
  Extent extentOf(Value unitBytes);
  SmallVector<Value> forEachBatch(ValueRange state,
                                  function_ref<SmallVector<Value>(Value first, ValueRange state)> build);
  PolledVectors pollUnits(ArrayRef<Entry> batch, Value unit, Value status);
  Value moveRest(Value status, const Extent &extent, Value unitBytes, function_ref<Value(const Entry &rest)> build);
  void start(LLVM::LLVMFuncOp made) {
    function = made;
    invocation = function.getArgument(0), sequence = function.getArgument(1), statement = function.getArgument(2);
    numEntries = toIndex(builder, loc, function.getArgument(3));
  }
  void giveBack(Value status) {
    LLVM::ReturnOp::create(builder, loc, arith::ExtUIOp::create(builder, loc, i64, status));
  }
  Value narrow(Value status) { return arith::TruncIOp::create(builder, loc, i32, status); }
  Value isEqual(Value a, Value b) { return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, a, b); }
  Value isOther(Value a, Value b) { return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, a, b); }

  Value numEntries; // of type index
};

PacketGroupFunctions::Entry PacketGroupFunctions::entryAt(Value index) {
  Value entry = at(call(builder, loc, listFunction), mul(index, constant(packetEntryBytes)));
  auto word = [&](Type type, int64_t number) -> Value {
    return LLVM::LoadOp::create(builder, loc, type, at(entry, constant(number * 8)), 8);
  };
  return {word(pointer, 0), word(pointer, 1), toIndex(builder, loc, word(i64, 2))};
}

/// As many as are in flight at once. Past the end, the last one again.
SmallVector<PacketGroupFunctions::Entry> PacketGroupFunctions::batchFrom(Value first) {
  SmallVector<Entry> batch;
  Value last = createSub(builder, loc, numEntries, constant(1));
  for (int64_t i = 0; i < peersInFlight; ++i)
    batch.push_back(entryAt(min(add(first, constant(i)), last)));
  return batch;
}

SmallVector<Value>
PacketGroupFunctions::forEachBatch(ValueRange state,
                                   function_ref<SmallVector<Value>(Value first, ValueRange state)> build) {
  OpBuilder::InsertionGuard guard(builder);
  auto loop = scf::ForOp::create(builder, loc, constant(0), numEntries, constant(peersInFlight), state);
  builder.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> next = build(loop.getInductionVar(), loop.getRegionIterArgs());
  builder.setInsertionPointToEnd(loop.getBody());
  scf::YieldOp::create(builder, loc, next);
  return llvm::to_vector_of<Value>(loop.getResults());
}

/// Of the first message, whose size counts units of so many bytes. No vectors where memory is not aligned to them, or
/// where the messages are not equally long: thread t looks at entries t, t + T, ... A barrier.
PacketGroupFunctions::Extent PacketGroupFunctions::extentOf(Value unitBytes) {
  Value zero = constantI64(builder, loc, 0), size = entryAt(constant(0)).size;
  Value thread = toIndex(builder, loc, call(builder, loc, threadFunction));
  Value threads = toIndex(builder, loc, call(builder, loc, numThreadsFunction));
  auto loop = scf::ForOp::create(builder, loc, thread, numEntries, threads, ValueRange{zero});
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Entry entry = entryAt(loop.getInductionVar());
    Value address = LLVM::PtrToIntOp::create(builder, loc, i64, entry.memory);
    Value low = arith::AndIOp::create(builder, loc, address, constantI64(builder, loc, vectorBytes - 1));
    Value difference = toInteger(builder, loc, arith::XOrIOp::create(builder, loc, entry.size, size));
    Value both = arith::OrIOp::create(builder, loc, low, difference);
    scf::YieldOp::create(builder, loc, arith::OrIOp::create(builder, loc, loop.getRegionIterArg(0), both).getResult());
  }
  Value isOdd = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, loop.getResult(0), zero);
  Value isAnyOdd = call(builder, loc, anyFunction, {arith::ExtUIOp::create(builder, loc, i32, isOdd)});
  isAnyOdd = narrow(call(builder, loc, uniformFunction, {arith::ExtUIOp::create(builder, loc, i64, isAnyOdd)}));
  Value bytes = mul(size, unitBytes);
  return {bytes, arith::SelectOp::create(builder, loc, isEqual(isAnyOdd, code(KOLO_DEVICE_OK)), div(bytes, vectorBytes),
                                         constant(0))};
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
  auto loop = scf::ForOp::create(builder, loc, constant(0), numEntries, constant(1), ValueRange{status});
  scf::YieldOp::create(builder, loc, loop.getResult(0));
  builder.setInsertionPointToStart(loop.getBody());
  Entry entry = entryAt(loop.getInductionVar());
  Value before = loop.getRegionIterArg(0), left = createSub(builder, loc, entry.size, done);
  auto next = scf::IfOp::create(builder, loc, TypeRange(i32), isOther(before, code(KOLO_DEVICE_OK)),
                                /*withElseRegion=*/true);
  scf::YieldOp::create(builder, loc, next.getResult(0));
  builder.setInsertionPointToStart(next.thenBlock());
  scf::YieldOp::create(builder, loc, before);
  builder.setInsertionPointToStart(next.elseBlock());
  Value packets = packetAt(entry.packets, mul(numVectors, constant(packetsPerVector)));
  scf::YieldOp::create(builder, loc, build({packets, at(entry.memory, bytesDone), left}));
  return choice.getResult(0);
}

/// (numEntries, sequence)
void PacketGroupFunctions::defineSend() {
  function = createFunction(builder, module, sendAllFunction, Type(), {i64, i64}, Inlining::Never);
  numEntries = toIndex(builder, loc, function.getArgument(0)), sequence = function.getArgument(1);
  Extent extent = extentOf(constant(1));
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

/// (invocation, sequence, statement, numEntries)
void PacketGroupFunctions::defineReceive() {
  start(createFunction(builder, module, blockedReceiveAllFunction, i64, {pointer, i64, i64, i64}, Inlining::Never));
  Extent extent = extentOf(constant(1));
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
  defineUniform(receiveAllFunction, blockedReceiveAllFunction);
}

/// (invocation, sequence, statement, numEntries, type, reduction)
void PacketGroupFunctions::defineReceiveReduce(const DeviceOptions &options) {
  start(createFunction(builder, module, blockedReceiveReduceAllFunction, i64, {pointer, i64, i64, i64, i64, i64},
                       Inlining::Never));
  Value type = function.getArgument(4), reduction = function.getArgument(5);
  Value elementBytes =
      toIndex(builder, loc, load(builder, loc, i64, invocation, offsetof(KoloDeviceInvocation, elementBytes)));
  Extent extent = extentOf(elementBytes);
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
  defineUniform(receiveReduceAllFunction, blockedReceiveReduceAllFunction);
}

} // namespace

void definePacketGroups(ModuleOp module, const DeviceOptions &options) {
  PacketGroupFunctions groups(module);
  groups.defineSend();
  groups.defineReceive();
  groups.defineReceiveReduce(options);
}

} // namespace kolo::gpu
