// How a block sends and receives packets: 4 bytes of data and the sequence number of a call, read and written as one word of 8
// bytes, so that no signal is needed. A thread sends, or polls for, the four packets of 16 bytes at once.
//
// Nothing but the packets themselves is ordered by them; relaxed accesses at system scope do.
#include "ir/IndexArithmetic.h"
#include "targets/gpu/DeviceFunctions.h"
#include "targets/gpu/Timeouts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace kolo::gpu {

namespace {

constexpr int64_t dataBytes = 4, packetBytes = 8, vectorBytes = 16, packetsPerVector = vectorBytes / dataBytes;
constexpr int64_t sequenceShift = 32;

constexpr StringLiteral blockedReceiveFunction = "kolo.receive.blocked", blockedReceiveReduceFunction = "kolo.receiveReduce.blocked";

class PacketFunctions {
public:
  explicit PacketFunctions(ModuleOp module)
      : module(module), builder(module.getContext()), loc(module.getLoc()), pointer(pointerType(builder)),
        i64(builder.getI64Type()), i32(builder.getI32Type()) {}

  void defineSend();
  void defineReceive();
  void defineReceiveReduce(const DeviceOptions &options);
  void defineUniform(StringRef name, StringRef blocked);

private:
  /// Computes what is to be stored, of a vector or of one element, from what has arrived and where it belongs.
  using Combine = function_ref<Value(Value arrived, Value place, int64_t alignment)>;
  Value receiveElements(Value destination, Value packets, Value numElements, Type stored, Combine combine);
  Value forUnits(Value begin, Value end, Value status, function_ref<Value(Value unit, Value status)> build);
  struct Polled {
    Value data, status;
  };
  Polled poll(Value first, int64_t numPackets, Value status);
  Value chooseReduction(const DeviceOptions &options, function_ref<Value(KoloType, KoloReduction)> build);
  Value elementOf(Value data, Value offset, Type stored);
  void storePacket(Value packets, Value number, Value data);
  Value restOf(Value source, Value begin, Value end);
  void finishReceive(Value status);

  Value field(Type type, size_t offset) { return load(builder, loc, type, invocation, int64_t(offset)); }
  Value at(Value base, Value offset) { return advance(builder, loc, base, toInteger(builder, loc, offset)); }
  Value packetAt(Value packets, Value number) { return at(packets, mul(number, constant(packetBytes))); }
  Value isAligned(Value address) {
    Value number = LLVM::PtrToIntOp::create(builder, loc, i64, address);
    Value low = arith::AndIOp::create(builder, loc, number, constantI64(builder, loc, vectorBytes - 1));
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, low, constantI64(builder, loc, 0));
  }
  Value constant(int64_t value) { return createConstant(builder, loc, value); }
  Value add(Value a, Value b) { return createAdd(builder, loc, a, b); }
  Value mul(Value a, Value b) { return createMul(builder, loc, a, b); }
  Value div(Value a, int64_t b) { return arith::DivUIOp::create(builder, loc, a, constant(b)); }
  Value code(KoloDeviceFailureCode value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }

  ModuleOp module;
  OpBuilder builder;
  Location loc;
  Type pointer, i64, i32;
  LLVM::LLVMFuncOp function;
  Value invocation, sequence, statement;
};

/// Thread t of T takes units begin + t, begin + t + T, ... A status goes from unit to unit.
Value PacketFunctions::forUnits(Value begin, Value end, Value status, function_ref<Value(Value unit, Value status)> build) {
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
  Value upper = arith::ShLIOp::create(builder, loc, sequence, constantI64(builder, loc, sequenceShift));
  Value packet = arith::OrIOp::create(builder, loc, arith::ExtUIOp::create(builder, loc, i64, data), upper);
  LLVM::StoreOp::create(builder, loc, packet, packetAt(packets, number), packetBytes, false, false, false,
                        LLVM::AtomicOrdering::monotonic, "");
}

/// The bytes [begin, end) of the source, at most 4, as the data of a packet.
Value PacketFunctions::restOf(Value source, Value begin, Value end) {
  auto loop = scf::ForOp::create(builder, loc, begin, end, constant(1), ValueRange{code(KOLO_DEVICE_OK)});
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Value position = loop.getInductionVar();
  Value byte = LLVM::LoadOp::create(builder, loc, builder.getI8Type(), at(source, position), 1);
  Value places = arith::IndexCastOp::create(builder, loc, i32, mul(createSub(builder, loc, position, begin), constant(8)));
  Value placed = arith::ShLIOp::create(builder, loc, arith::ExtUIOp::create(builder, loc, i32, byte), places);
  scf::YieldOp::create(builder, loc, arith::OrIOp::create(builder, loc, loop.getRegionIterArg(0), placed).getResult());
  return loop.getResult(0);
}

/// (packets, src, sizeBytes, sequence)
void PacketFunctions::defineSend() {
  function = createFunction(builder, module, sendFunction, Type(), {pointer, pointer, i64, i64}, Inlining::Never);
  Value packets = function.getArgument(0), source = function.getArgument(1);
  sequence = function.getArgument(3);
  Value size = toIndex(builder, loc, function.getArgument(2)), numVectors = div(size, vectorBytes);
  Value none = code(KOLO_DEVICE_OK); // nothing can fail
  auto sendVectors = [&](int64_t alignment) {
    forUnits(constant(0), numVectors, none, [&](Value unit, Value status) {
      Value from = at(source, mul(unit, constant(vectorBytes)));
      Value vector = LLVM::LoadOp::create(builder, loc, VectorType::get({packetsPerVector}, i32), from, unsigned(alignment));
      Value first = mul(unit, constant(packetsPerVector));
      for (int64_t i = 0; i < packetsPerVector; ++i)
        storePacket(packets, add(first, constant(i)), vector::ExtractOp::create(builder, loc, vector, i));
      return status;
    });
  };
  auto choice = scf::IfOp::create(builder, loc, isAligned(source), /*withElseRegion=*/true);
  builder.setInsertionPointToStart(choice.thenBlock());
  sendVectors(vectorBytes);
  builder.setInsertionPointToStart(choice.elseBlock());
  sendVectors(1);
  builder.setInsertionPointAfter(choice);
  // What is empty arrives too.
  Value numPackets = arith::MaxSIOp::create(builder, loc, div(add(size, constant(dataBytes - 1)), dataBytes), constant(1));
  forUnits(mul(numVectors, constant(packetsPerVector)), numPackets, none, [&](Value number, Value status) {
    Value begin = mul(number, constant(dataBytes));
    Value end = arith::MinSIOp::create(builder, loc, add(begin, constant(dataBytes)), size);
    storePacket(packets, number, restOf(source, begin, end));
    return status;
  });
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

/// Reads so many packets, side by side, until all are of this call or this thread gives up, which it may have done before.
PacketFunctions::Polled PacketFunctions::poll(Value first, int64_t numPackets, Value status) {
  OpBuilder::InsertionGuard guard(builder);
  auto vectorType = VectorType::get({numPackets}, i32);
  SmallVector<Type> types{vectorType, i64, i32, builder.getI1Type()};
  SmallVector<Location> locations(types.size(), loc);
  auto boolean = [&](bool value) -> Value { return arith::ConstantIntOp::create(builder, loc, value, 1); };
  Value nothing = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(vectorType));
  auto loop = scf::WhileOp::create(builder, loc, types, ValueRange{nothing, constantI64(builder, loc, 0), status, boolean(false)});
  Block *before = builder.createBlock(&loop.getBefore(), {}, types, locations);
  Value isWaiting = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, before->getArgument(2), code(KOLO_DEVICE_OK));
  Value isMissing = arith::XOrIOp::create(builder, loc, before->getArgument(3), boolean(true));
  scf::ConditionOp::create(builder, loc, arith::AndIOp::create(builder, loc, isWaiting, isMissing), before->getArguments());

  Block *body = builder.createBlock(&loop.getAfter(), {}, types, locations);
  SmallVector<Value> packets, data;
  for (int64_t i = 0; i < numPackets; ++i)
    packets.push_back(LLVM::LoadOp::create(builder, loc, i64, packetAt(first, constant(i)), packetBytes, false, false, false,
                                           false, LLVM::AtomicOrdering::monotonic, ""));
  Value areThere = boolean(true);
  for (Value packet : packets) {
    Value found = arith::ShRUIOp::create(builder, loc, packet, constantI64(builder, loc, sequenceShift));
    Value isThere = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, found, sequence);
    areThere = arith::AndIOp::create(builder, loc, areThere, isThere);
    data.push_back(arith::TruncIOp::create(builder, loc, i32, packet));
  }
  Value vector = vector::FromElementsOp::create(builder, loc, vectorType, data);
  Value turn = arith::AddIOp::create(builder, loc, body->getArgument(1), constantI64(builder, loc, 1));
  auto late = scf::IfOp::create(builder, loc, TypeRange(i32), areThere, /*withElseRegion=*/true);
  scf::YieldOp::create(builder, loc, ValueRange{vector, turn, late.getResult(0), areThere});
  builder.setInsertionPointToStart(late.thenBlock());
  scf::YieldOp::create(builder, loc, code(KOLO_DEVICE_OK));
  builder.setInsertionPointToStart(late.elseBlock());
  call(builder, loc, pauseFunction, {turn});
  scf::YieldOp::create(builder, loc, whyToGiveUp(builder, loc, invocation, turn));
  return {loop.getResult(0), loop.getResult(2)};
}

/// Vectors of 16 bytes, then what is left, an element of at most 8 bytes at a time. Gives this thread's status.
Value PacketFunctions::receiveElements(Value destination, Value packets, Value numElements, Type stored, Combine combine) {
  int64_t elementBytes = stored.getIntOrFloatBitWidth() / 8, perVector = vectorBytes / elementBytes;
  Value numVectors = div(numElements, perVector);
  auto receiveVectors = [&](int64_t alignment) {
    return forUnits(constant(0), numVectors, code(KOLO_DEVICE_OK), [&](Value unit, Value status) {
      Polled polled = poll(packetAt(packets, mul(unit, constant(packetsPerVector))), packetsPerVector, status);
      Value arrived = vector::BitCastOp::create(builder, loc, VectorType::get({perVector}, stored), polled.data);
      Value place = at(destination, mul(unit, constant(vectorBytes)));
      LLVM::StoreOp::create(builder, loc, combine(arrived, place, alignment), place, unsigned(alignment));
      return polled.status;
    });
  };
  auto choice = scf::IfOp::create(builder, loc, TypeRange(i32), isAligned(destination), /*withElseRegion=*/true);
  for (auto [block, alignment] : {std::pair(choice.thenBlock(), vectorBytes), std::pair(choice.elseBlock(), elementBytes)}) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(block);
    Value status = receiveVectors(alignment);
    builder.setInsertionPointToEnd(block);
    scf::YieldOp::create(builder, loc, status);
  }
  Value isEmpty = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, numElements, constant(0));
  Value numAlone = arith::SelectOp::create(builder, loc, isEmpty, constant(1), constant(0));
  Value status = forUnits(constant(0), numAlone, choice.getResult(0),
                          [&](Value, Value before) { return poll(packets, 1, before).status; });
  return forUnits(mul(numVectors, constant(perVector)), numElements, status, [&](Value element, Value before) {
    Value offset = mul(element, constant(elementBytes)), place = at(destination, offset);
    Polled polled = poll(packetAt(packets, div(offset, dataBytes)), std::max<int64_t>(1, elementBytes / dataBytes), before);
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
  Value places = arith::IndexCastOp::create(builder, loc, i32, mul(inPacket, constant(8)));
  Value shifted = arith::ShRUIOp::create(builder, loc, vector::ExtractOp::create(builder, loc, data, int64_t(0)), places);
  Value low = arith::TruncIOp::create(builder, loc, builder.getIntegerType(bits), shifted);
  return low.getType() == stored ? low : Value(arith::BitcastOp::create(builder, loc, stored, low));
}

/// All threads of the block learn whether one has given up. Which of them did is forgotten by then, and why; the host knows which
/// packets by the statement.
void PacketFunctions::finishReceive(Value status) {
  Value any = call(builder, loc, anyFunction, {status});
  Value isFailed = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, any, code(KOLO_DEVICE_OK));
  auto conditional = scf::IfOp::create(builder, loc, isFailed);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(conditional.thenBlock());
    buildForLeader(builder, loc, [&] {
      Value zero = constantI64(builder, loc, 0), packets = constantI64(builder, loc, KOLO_DEVICE_PACKETS);
      Value flag = call(builder, loc, peekFunction, {field(pointer, offsetof(KoloDeviceInvocation, abort))});
      Value isAborted = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, flag, zero);
      Value why = arith::SelectOp::create(builder, loc, isAborted, code(KOLO_DEVICE_ABORTED), code(KOLO_DEVICE_TIMEOUT));
      noteFailure(builder, loc, invocation, {why, packets, packets, statement, sequence, zero});
    });
  }
  LLVM::ReturnOp::create(builder, loc, arith::ExtUIOp::create(builder, loc, i64, any));
}

/// (invocation, sequence, statement, dst, packets, sizeBytes)
void PacketFunctions::defineReceive() {
  function = createFunction(builder, module, blockedReceiveFunction, i64, {pointer, i64, i64, pointer, pointer, i64}, Inlining::Never);
  invocation = function.getArgument(0), sequence = function.getArgument(1), statement = function.getArgument(2);
  finishReceive(receiveElements(function.getArgument(3), function.getArgument(4), toIndex(builder, loc, function.getArgument(5)),
                                builder.getI8Type(), [](Value arrived, Value, int64_t) { return arrived; }));
}

/// (invocation, sequence, statement, dst, packets, numElements, type, reduction)
void PacketFunctions::defineReceiveReduce(const DeviceOptions &options) {
  function = createFunction(builder, module, blockedReceiveReduceFunction, i64,
                            {pointer, i64, i64, pointer, pointer, i64, i64, i64}, Inlining::Never);
  invocation = function.getArgument(0), sequence = function.getArgument(1), statement = function.getArgument(2);
  Value count = toIndex(builder, loc, function.getArgument(5));
  finishReceive(chooseReduction(options, [&](KoloType type, KoloReduction reduction) {
    auto combine = [&](Value arrived, Value place, int64_t alignment) -> Value {
      Value old = LLVM::LoadOp::create(builder, loc, arrived.getType(), place, unsigned(alignment));
      return createReduction(builder, loc, type, reduction, old, arrived, options.accumulation);
    };
    return receiveElements(function.getArgument(3), function.getArgument(4), count, storedType(builder, type), combine);
  }));
}

/// Of the call's type and reduction. An average is a sum that is divided at the end.
Value PacketFunctions::chooseReduction(const DeviceOptions &options, function_ref<Value(KoloType, KoloReduction)> build) {
  OpBuilder::InsertionGuard guard(builder);
  std::vector<std::pair<KoloType, KoloReduction>> pairs;
  SmallVector<int64_t> numbers;
  for (KoloType type : options.types)
    for (KoloReduction reduction : options.reductions) {
      KoloReduction combined = reduction == KOLO_AVERAGE ? KOLO_SUM : reduction;
      int64_t number = int64_t(type) * int64_t(KOLO_NUM_REDUCTIONS) + int64_t(combined);
      if (llvm::is_contained(numbers, number))
        continue;
      pairs.emplace_back(type, combined);
      numbers.push_back(number);
    }
  Value isAverage = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, function.getArgument(7),
                                          constantI64(builder, loc, KOLO_AVERAGE));
  Value reduction = arith::SelectOp::create(builder, loc, isAverage, constantI64(builder, loc, KOLO_SUM), function.getArgument(7));
  Value row = arith::MulIOp::create(builder, loc, function.getArgument(6), constantI64(builder, loc, KOLO_NUM_REDUCTIONS));
  Value chosen = toIndex(builder, loc, arith::AddIOp::create(builder, loc, row, reduction));
  auto choice = scf::IndexSwitchOp::create(builder, loc, TypeRange(i32), chosen, numbers, numbers.size());
  for (auto [pair, region] : llvm::zip_equal(pairs, choice.getCaseRegions())) {
    Block *block = builder.createBlock(&region);
    Value status = build(pair.first, pair.second);
    builder.setInsertionPointToEnd(block);
    scf::YieldOp::create(builder, loc, status);
  }
  builder.createBlock(&choice.getDefaultRegion());
  LLVM::Trap::create(builder, loc);
  scf::YieldOp::create(builder, loc, code(KOLO_DEVICE_OK));
  return choice.getResult(0);
}

/// What a function gives counts as different from thread to thread, unless it is said that it is not.
void PacketFunctions::defineUniform(StringRef name, StringRef blocked) {
  auto callee = module.lookupSymbol<LLVM::LLVMFuncOp>(blocked);
  auto uniform = createFunction(builder, module, name, i32, llvm::to_vector(callee.getArgumentTypes()), Inlining::Always);
  Value status = call(builder, loc, uniformFunction, {call(builder, loc, blocked, uniform.getArguments())});
  LLVM::ReturnOp::create(builder, loc, arith::TruncIOp::create(builder, loc, i32, status));
}

} // namespace

void definePackets(ModuleOp module, const DeviceOptions &options) {
  PacketFunctions packets(module);
  packets.defineSend();
  packets.defineReceive();
  packets.defineReceiveReduce(options);
  packets.defineUniform(receiveFunction, blockedReceiveFunction);
  packets.defineUniform(receiveReduceFunction, blockedReceiveReduceFunction);
}

} // namespace kolo::gpu
