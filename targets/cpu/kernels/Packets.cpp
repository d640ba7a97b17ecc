// Packets: 4 bytes of data and the sequence number of a call, read and written as one word. See
// kolo/runtime/PluginAbi.h.
#include "compiler/lower/PacketFormat.h"
#include "ir/IndexArithmetic.h"
#include "targets/cpu/InvocationAccess.h"
#include "targets/cpu/Kernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo::cpu {

namespace {

class Packets {
public:
  explicit Packets(ModuleOp module)
      : module(module), builder(module.getContext()), loc(module.getLoc()), pointer(pointerType(builder)),
        i64(builder.getI64Type()) {}

  void defineWrite();
  void defineRead();

private:
  static constexpr int64_t dataBytes = llPackets.dataBytes, packetBytes = llPackets.bytes, sequenceShift = 32;

  Value constant(int64_t value) { return createConstant(builder, loc, value); }
  Value packetAt(Value packets, Value number) {
    return advance(builder, loc, packets,
                   toInteger(builder, loc, createMul(builder, loc, number, constant(packetBytes))));
  }
  Value dataAt(Value data, Value number) {
    return advance(builder, loc, data, toInteger(builder, loc, createMul(builder, loc, number, constant(dataBytes))));
  }
  Value byteAt(Value data, Value number) { return advance(builder, loc, data, toInteger(builder, loc, number)); }
  Value shifted(Value sequence) {
    return arith::ShLIOp::create(builder, loc, sequence, constantI64(builder, loc, sequenceShift));
  }
  void writePacket(Value packet, Value data, Value upper) {
    Value word = arith::OrIOp::create(builder, loc, arith::ExtUIOp::create(builder, loc, i64, data), upper);
    LLVM::StoreOp::create(builder, loc, word, packet, packetBytes, /*isVolatile=*/false, /*isNonTemporal=*/false,
                          /*isInvariantGroup=*/false, LLVM::AtomicOrdering::monotonic);
  }
  Value readPacket(Value packet) {
    return LLVM::LoadOp::create(builder, loc, i64, packet, packetBytes, /*isVolatile=*/false, /*isNonTemporal=*/false,
                                /*isInvariant=*/false, /*isInvariantGroup=*/false, LLVM::AtomicOrdering::monotonic);
  }
  Value isOf(Value word, Value sequence) {
    Value found = arith::ShRUIOp::create(builder, loc, word, constantI64(builder, loc, sequenceShift));
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, found, sequence);
  }
  Value createRest(Value source, Value begin, Value end);
  Value readWhole(Value destination, Value source, Value number, Value sequence);
  Value readRest(Value destination, Value source, Value whole, Value size, Value sequence);

  ModuleOp module;
  OpBuilder builder;
  Location loc;
  Type pointer, i64;
};

/// The bytes [begin, end) of the source, at most 3, as the data of a packet.
Value Packets::createRest(Value source, Value begin, Value end) {
  Type i32 = builder.getI32Type();
  auto loop = scf::ForOp::create(builder, loc, begin, end, constant(1), ValueRange{constantI32(builder, loc, 0)});
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Value position = loop.getInductionVar();
  Value byte = LLVM::LoadOp::create(builder, loc, builder.getI8Type(), byteAt(source, position), 1);
  Value places = createMul(builder, loc, createSub(builder, loc, position, begin), constant(8));
  Value placed = arith::ShLIOp::create(builder, loc, arith::ExtUIOp::create(builder, loc, i32, byte),
                                       arith::IndexCastOp::create(builder, loc, i32, places));
  scf::YieldOp::create(builder, loc, arith::OrIOp::create(builder, loc, loop.getRegionIterArg(0), placed).getResult());
  return loop.getResult(0);
}

/// (packets, src, sizeBytes, sequence): sizeBytes / 4 packets, rounded up, and one at least.
void Packets::defineWrite() {
  auto function =
      createFunction(builder, module, llFunctions.write, Type(), {pointer, pointer, i64, i64}, /*isExported=*/false);
  function.setNoInline(true);
  Value packets = function.getArgument(0), source = function.getArgument(1), upper = shifted(function.getArgument(3));
  Value size = toIndex(builder, loc, function.getArgument(2));
  Value number = arith::DivUIOp::create(builder, loc, size, constant(dataBytes));
  auto loop = scf::ForOp::create(builder, loc, constant(0), number, constant(1));
  builder.setInsertionPointToStart(loop.getBody());
  Value data = LLVM::LoadOp::create(builder, loc, builder.getI32Type(), dataAt(source, loop.getInductionVar()), 1);
  writePacket(packetAt(packets, loop.getInductionVar()), data, upper);
  builder.setInsertionPointAfter(loop);
  Value whole = createMul(builder, loc, number, constant(dataBytes));
  Value hasRest = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, whole, size);
  Value isEmpty = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, size, constant(0));
  Value hasMore = arith::OrIOp::create(builder, loc, hasRest, isEmpty);
  builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, hasMore).thenBlock());
  writePacket(packetAt(packets, number), createRest(source, whole, size), upper);
  builder.setInsertionPointToEnd(&function.getBody().back());
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

/// Reads packets that carry 4 bytes until one is not there; gives how many there were.
Value Packets::readWhole(Value destination, Value source, Value number, Value sequence) {
  Type index = builder.getIndexType();
  auto loop = scf::WhileOp::create(builder, loc, index, ValueRange{constant(0)});
  OpBuilder::InsertionGuard guard(builder);
  Block *before = builder.createBlock(&loop.getBefore(), {}, index, loc);
  Value position = before->getArgument(0);
  Value isInside = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, position, number);
  auto found = scf::IfOp::create(builder, loc, builder.getI1Type(), isInside, /*withElseRegion=*/true);
  builder.setInsertionPointToStart(found.elseBlock());
  scf::YieldOp::create(builder, loc, isInside);
  builder.setInsertionPointToStart(found.thenBlock());
  Value word = readPacket(packetAt(source, position));
  // What is not there yet is written too, and again once it is.
  LLVM::StoreOp::create(builder, loc, arith::TruncIOp::create(builder, loc, builder.getI32Type(), word),
                        dataAt(destination, position), 1);
  scf::YieldOp::create(builder, loc, isOf(word, sequence));
  builder.setInsertionPointToEnd(before);
  scf::ConditionOp::create(builder, loc, found.getResult(0), ValueRange{position});
  Block *after = builder.createBlock(&loop.getAfter(), {}, index, loc);
  scf::YieldOp::create(builder, loc, createAdd(builder, loc, after->getArgument(0), constant(1)));
  return loop.getResult(0);
}

/// Reads the packet with the bytes [whole, size), if it is there, and gives how many bytes there are.
Value Packets::readRest(Value destination, Value source, Value whole, Value size, Value sequence) {
  OpBuilder::InsertionGuard guard(builder);
  Value number = arith::DivUIOp::create(builder, loc, whole, constant(dataBytes));
  Value word = readPacket(packetAt(source, number));
  auto conditional =
      scf::IfOp::create(builder, loc, builder.getIndexType(), isOf(word, sequence), /*withElseRegion=*/true);
  builder.setInsertionPointToStart(conditional.elseBlock());
  scf::YieldOp::create(builder, loc, whole);
  builder.setInsertionPointToStart(conditional.thenBlock());
  auto loop = scf::ForOp::create(builder, loc, whole, size, constant(1));
  scf::YieldOp::create(builder, loc, size);
  builder.setInsertionPointToStart(loop.getBody());
  Value places = createMul(builder, loc, createSub(builder, loc, loop.getInductionVar(), whole), constant(8));
  Value byte = arith::ShRUIOp::create(builder, loc, word, toInteger(builder, loc, places));
  LLVM::StoreOp::create(builder, loc, arith::TruncIOp::create(builder, loc, builder.getI8Type(), byte),
                        byteAt(destination, loop.getInductionVar()), 1);
  return conditional.getResult(0);
}

/// (dst, packets, sizeBytes, sequence) -> i64: the bytes up to the first packet that is not there yet. Never waits.
void Packets::defineRead() {
  auto function =
      createFunction(builder, module, llFunctions.read, i64, {pointer, pointer, i64, i64}, /*isExported=*/false);
  function.setNoInline(true);
  Value destination = function.getArgument(0), source = function.getArgument(1), sequence = function.getArgument(3);
  Value size = toIndex(builder, loc, function.getArgument(2));
  Value number = arith::DivUIOp::create(builder, loc, size, constant(dataBytes));
  Value numRead = readWhole(destination, source, number, sequence);
  Value whole = createMul(builder, loc, numRead, constant(dataBytes));
  Value isAll = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, numRead, number);
  Value hasRest = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, whole, size);
  auto conditional = scf::IfOp::create(builder, loc, builder.getIndexType(), createAnd(builder, loc, isAll, hasRest),
                                       /*withElseRegion=*/true);
  builder.setInsertionPointToStart(conditional.elseBlock());
  scf::YieldOp::create(builder, loc, whole);
  builder.setInsertionPointToStart(conditional.thenBlock());
  Value rest = readRest(destination, source, whole, size, sequence);
  scf::YieldOp::create(builder, loc, rest);
  builder.setInsertionPointAfter(conditional);
  LLVM::ReturnOp::create(builder, loc, toInteger(builder, loc, conditional.getResult(0)));
}

} // namespace

void definePackets(ModuleOp module) {
  Packets packets(module);
  packets.defineWrite();
  packets.defineRead();
}

} // namespace kolo::cpu
