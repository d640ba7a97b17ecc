// The private functions that send and receive packets of one format. They wait by calls of the runtime.
#include "ir/IndexArithmetic.h"
#include "targets/cpu/InvocationAccess.h"
#include "targets/cpu/ProgramFunctions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace kolo::cpu {

namespace {

class PacketFunctions {
public:
  PacketFunctions(ModuleOp module, const PacketFormat &format)
      : module(module), builder(module.getContext()), loc(module.getLoc()), pointer(pointerType(builder)),
        i64(builder.getI64Type()), i32(builder.getI32Type()), format(format), names(functionsOf(format)) {}

  void define() {
    declareFunction(builder, module, names.write, {pointer, pointer, i64, i64});
    declareFunction(builder, module, names.read, {pointer, pointer, i64, i64}, i64);
    defineSend();
    if (!module.lookupSymbol(awaitPacketFunction))
      defineAwait();
    defineReceive();
    defineReceiveReduce();
  }

private:
  void defineSend();
  void defineAwait();
  void defineReceive();
  void defineReceiveReduce();

  void create(StringRef name, Type result, ArrayRef<Type> arguments) {
    function = createFunction(builder, module, name, result, arguments, /*isExported=*/false);
    function.setNoInline(true);
  }
  Value argument(unsigned number) { return function.getArgument(number); }
  Value call(StringRef name, Type result, ValueRange arguments) {
    return LLVM::CallOp::create(builder, loc, TypeRange(result), name, arguments).getResult();
  }
  Value sequence() {
    return InvocationAccess(builder, loc, argument(0)).loadInteger(offsetof(KoloInvocation, sequence));
  }
  /// The packet that begins with so many bytes of data before it; the word of a packet that says whether it is there.
  Value packetAt(Value packets, Value dataBytes) {
    Value number = arith::DivUIOp::create(builder, loc, dataBytes, constantI64(builder, loc, format.dataBytes));
    Value offset = arith::MulIOp::create(builder, loc, number, constantI64(builder, loc, format.bytes));
    return advance(builder, loc, packets, offset);
  }
  Value wordOf(Value packet) {
    return advance(builder, loc, packet, constantI64(builder, loc, format.bytes - int64_t(sizeof(uint64_t))));
  }
  void succeed() {
    builder.setInsertionPointToEnd(&function.getBody().back());
    LLVM::ReturnOp::create(builder, loc, constantI32(builder, loc, 0));
  }

  ModuleOp module;
  OpBuilder builder;
  Location loc;
  Type pointer, i64, i32;
  PacketFormat format;
  const PacketFunctionNames &names;
  LLVM::LLVMFuncOp function;
};

/// Memory for packets is mapped everywhere.
void PacketFunctions::defineSend() {
  create(names.send, Type(), {pointer, i64, i64, pointer, i64});
  LLVM::CallOp::create(builder, loc, TypeRange(), countFunction,
                       ValueRange{argument(0), constantI64(builder, loc, KOLO_SENT), argument(4)});
  Value base =
      InvocationAccess(builder, loc, argument(0)).peerBuffer(constantI64(builder, loc, KOLO_PACKETS), argument(1));
  LLVM::CallOp::create(builder, loc, TypeRange(), names.write,
                       ValueRange{advance(builder, loc, base, argument(2)), argument(3), argument(4), sequence()});
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

void PacketFunctions::defineAwait() {
  create(awaitPacketFunction, i32, {pointer, pointer, i32});
  InvocationAccess invocation(builder, loc, argument(0));
  LLVM::ReturnOp::create(
      builder, loc,
      invocation.callService(offsetof(KoloServices, awaitPacket), i32, {argument(1), argument(2)}).getResult());
}

/// done = 0; while (done += readPackets(the rest), done < size) await the packet at done. An empty message is one
/// packet.
void PacketFunctions::defineReceive() {
  create(names.receive, i32, {pointer, pointer, pointer, i64, i32});
  Value destination = argument(1), packets = argument(2), size = argument(3), number = sequence();
  Value isEmpty = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, size, constantI64(builder, loc, 0));
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isEmpty).thenBlock());
    call(awaitPacketFunction, i32, {argument(0), wordOf(packets), argument(4)});
  }
  auto loop = scf::WhileOp::create(builder, loc, i64, ValueRange{constantI64(builder, loc, 0)});
  Block *before = builder.createBlock(&loop.getBefore(), {}, i64, loc);
  Value done = before->getArgument(0);
  Value read = call(names.read, i64,
                    {advance(builder, loc, destination, done), packetAt(packets, done),
                     arith::SubIOp::create(builder, loc, size, done), number});
  Value next = arith::AddIOp::create(builder, loc, done, read);
  Value isMore = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, next, size);
  scf::ConditionOp::create(builder, loc, isMore, ValueRange{next});
  Block *after = builder.createBlock(&loop.getAfter(), {}, i64, loc);
  Value missing = after->getArgument(0);
  call(awaitPacketFunction, i32, {argument(0), wordOf(packetAt(packets, missing)), argument(4)});
  scf::YieldOp::create(builder, loc, missing);
  succeed();
}

/// Through this lane's tile, in pieces of whole packets.
void PacketFunctions::defineReceiveReduce() {
  create(names.receiveReduce, i32, {pointer, pointer, pointer, i64, i32});
  InvocationAccess invocation(builder, loc, argument(0));
  Value destination = argument(1), packets = argument(2), count = argument(3);
  Value elementBytes = invocation.loadInteger(offsetof(KoloInvocation, elementBytes));
  Value tile = invocation.loadPointer(offsetof(KoloInvocation, tile));
  Value tileBytes = invocation.loadInteger(offsetof(KoloInvocation, tileBytes));
  Value leftOver = arith::RemUIOp::create(builder, loc, tileBytes, constantI64(builder, loc, format.dataBytes));
  Value perTile =
      arith::DivUIOp::create(builder, loc, arith::SubIOp::create(builder, loc, tileBytes, leftOver), elementBytes);
  Value isEmpty = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, count, constantI64(builder, loc, 0));
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isEmpty).thenBlock());
    call(names.receive, i32, {argument(0), destination, packets, count, argument(4)});
  }
  auto loop = scf::ForOp::create(builder, loc, createConstant(builder, loc, 0), toIndex(builder, loc, count),
                                 toIndex(builder, loc, perTile));
  builder.setInsertionPointToStart(loop.getBody());
  Value first = toInteger(builder, loc, loop.getInductionVar());
  Value length = arith::MinSIOp::create(builder, loc, perTile, arith::SubIOp::create(builder, loc, count, first));
  Value firstByte = arith::MulIOp::create(builder, loc, first, elementBytes);
  call(names.receive, i32,
       {argument(0), tile, packetAt(packets, firstByte), arith::MulIOp::create(builder, loc, length, elementBytes),
        argument(4)});
  LLVM::CallOp::create(builder, loc, TypeRange(), reduceFunction,
                       ValueRange{argument(0), advance(builder, loc, destination, firstByte), tile, length});
  succeed();
}

} // namespace

void definePacketFunctions(ModuleOp module, const PacketFormat &format) { PacketFunctions(module, format).define(); }

} // namespace kolo::cpu
