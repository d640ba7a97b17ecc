// The private functions that every module has: how bytes move, to and from this rank's memory, mapped peers and others.
#include "ir/IndexArithmetic.h"
#include "targets/cpu/InvocationAccess.h"
#include "targets/cpu/ProgramFunctions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace kolo::cpu {

namespace {

class MoveFunctions {
public:
  explicit MoveFunctions(ModuleOp module)
      : module(module), builder(module.getContext()), loc(module.getLoc()), pointer(pointerType(builder)),
        i64(builder.getI64Type()), i32(builder.getI32Type()) {}

  void define() {
    declareCopies();
    defineCount();
    defineRemote(putFunction, offsetof(KoloServices, put), /*isPut=*/true);
    defineRemote(getFunction, offsetof(KoloServices, get), /*isPut=*/false);
    defineReduce();
    defineReduceFrom();
    defineDivide();
    defineWait();
  }

private:
  void declareCopies();
  void defineCount();
  void defineRemote(StringRef name, size_t service, bool isPut);
  void defineReduce();
  void defineReduceFrom();
  void defineDivide();
  void defineWait();

  void create(StringRef name, Type result, ArrayRef<Type> arguments) {
    function = createFunction(builder, module, name, result, arguments, /*isExported=*/false);
    // One copy of each: next to the bytes they move a call costs nothing, and programs stay small and quick to compile.
    function.setNoInline(true);
  }
  Value argument(unsigned number) { return function.getArgument(number); }
  void finish() {
    builder.setInsertionPointToEnd(&function.getBody().back());
    LLVM::ReturnOp::create(builder, loc, ValueRange{});
  }
  void call(StringRef name, ValueRange arguments) { LLVM::CallOp::create(builder, loc, TypeRange(), name, arguments); }
  void count(KoloTraffic traffic, Value numBytes) {
    call(countFunction, {argument(0), constantI64(builder, loc, traffic), numBytes});
  }
  Value constant(int64_t value) { return createConstant(builder, loc, value); }
  Value isNull(Value address) {
    return LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::eq, address,
                                LLVM::ZeroOp::create(builder, loc, pointer));
  }

  ModuleOp module;
  OpBuilder builder;
  Location loc;
  Type pointer, i64, i32;
  LLVM::LLVMFuncOp function;
};

/// They are linked in: see kernels/.
void MoveFunctions::declareCopies() {
  declareFunction(builder, module, copyFunction, {pointer, pointer, i64, i64});
  declareFunction(builder, module, multicastFunction, {pointer, i64, pointer, i64, i64});
}

/// Where the runtime asks for it.
void MoveFunctions::defineCount() {
  create(countFunction, Type(), {pointer, i64, i64});
  function.setNoInline(false);
  Value counters = InvocationAccess(builder, loc, argument(0)).loadPointer(offsetof(KoloInvocation, traffic));
  auto conditional = scf::IfOp::create(builder, loc, isNull(counters), /*withElseRegion=*/true);
  builder.setInsertionPointToStart(conditional.elseBlock());
  Value offset = arith::MulIOp::create(builder, loc, argument(1), constantI64(builder, loc, sizeof(int64_t)));
  Value counter = advance(builder, loc, counters, offset);
  Value before = LLVM::LoadOp::create(builder, loc, i64, counter);
  LLVM::StoreOp::create(builder, loc, arith::AddIOp::create(builder, loc, before, argument(2)), counter);
  finish();
}

/// Copies directly where the peer's buffer is mapped, and through the runtime where it is not.
void MoveFunctions::defineRemote(StringRef name, size_t service, bool isPut) {
  create(name, Type(), {pointer, i64, i64, i64, pointer, i64, i64});
  Value peer = argument(1), role = argument(2), offset = argument(3), local = argument(4), size = argument(5);
  Value nonTemporal = argument(6);
  count(isPut ? KOLO_SENT : KOLO_FETCHED, size);
  InvocationAccess invocation(builder, loc, argument(0));
  Value base = invocation.peerBuffer(role, peer);
  auto conditional = scf::IfOp::create(builder, loc, isNull(base), /*withElseRegion=*/true);
  builder.setInsertionPointToStart(conditional.thenBlock());
  Value role32 = arith::TruncIOp::create(builder, loc, i32, role);
  invocation.callService(service, Type(), {peer, role32, offset, local, size});
  builder.setInsertionPointToStart(conditional.elseBlock());
  Value remote = advance(builder, loc, base, offset);
  call(copyFunction,
       isPut ? ValueRange{remote, local, size, nonTemporal} : ValueRange{local, remote, size, nonTemporal});
  finish();
}

void MoveFunctions::defineReduce() {
  create(reduceFunction, Type(), {pointer, pointer, pointer, i64});
  InvocationAccess invocation(builder, loc, argument(0));
  Value list = LLVM::AllocaOp::create(builder, loc, pointer, pointer, constantI64(builder, loc, 2));
  storeEntry(builder, loc, list, constant(0), argument(1));
  storeEntry(builder, loc, list, constant(1), argument(2));
  invocation.callPointer(invocation.loadPointer(offsetof(KoloInvocation, reduce)), Type(),
                         {list, constantI64(builder, loc, 1), list, constantI64(builder, loc, 2), argument(3),
                          constantI64(builder, loc, 0)});
  finish();
}

/// Combines directly from a mapped peer, and otherwise through this lane's tile, piece by piece.
void MoveFunctions::defineReduceFrom() {
  create(reduceFromFunction, Type(), {pointer, i64, i64, i64, pointer, i64});
  Value peer = argument(1), role = argument(2), offset = argument(3), destination = argument(4);
  Value numElements = argument(5);
  InvocationAccess invocation(builder, loc, argument(0));
  Value elementBytes = invocation.loadInteger(offsetof(KoloInvocation, elementBytes));
  count(KOLO_FETCHED, arith::MulIOp::create(builder, loc, numElements, elementBytes));
  Value base = invocation.peerBuffer(role, peer);
  auto conditional = scf::IfOp::create(builder, loc, isNull(base), /*withElseRegion=*/true);
  builder.setInsertionPointToStart(conditional.elseBlock());
  call(reduceFunction, {argument(0), destination, advance(builder, loc, base, offset), numElements});

  builder.setInsertionPointToStart(conditional.thenBlock());
  Value tile = invocation.loadPointer(offsetof(KoloInvocation, tile));
  Value tileBytes = invocation.loadInteger(offsetof(KoloInvocation, tileBytes));
  Value perTile = arith::DivUIOp::create(builder, loc, tileBytes, elementBytes);
  auto loop =
      scf::ForOp::create(builder, loc, constant(0), toIndex(builder, loc, numElements), toIndex(builder, loc, perTile));
  builder.setInsertionPointToStart(loop.getBody());
  Value first = toInteger(builder, loc, loop.getInductionVar());
  Value length = arith::MinSIOp::create(builder, loc, perTile, arith::SubIOp::create(builder, loc, numElements, first));
  Value firstByte = arith::MulIOp::create(builder, loc, first, elementBytes);
  Value lengthBytes = arith::MulIOp::create(builder, loc, length, elementBytes);
  Value role32 = arith::TruncIOp::create(builder, loc, i32, role);
  Value from = arith::AddIOp::create(builder, loc, offset, firstByte);
  invocation.callService(offsetof(KoloServices, get), Type(), {peer, role32, from, tile, lengthBytes});
  call(reduceFunction, {argument(0), advance(builder, loc, destination, firstByte), tile, length});
  finish();
}

void MoveFunctions::defineDivide() {
  create(divideFunction, Type(), {pointer, pointer, i64, i64});
  InvocationAccess invocation(builder, loc, argument(0));
  Value kernel = invocation.loadPointer(offsetof(KoloInvocation, average));
  Value list = LLVM::AllocaOp::create(builder, loc, pointer, pointer, constantI64(builder, loc, 1));
  auto conditional = scf::IfOp::create(builder, loc, isNull(kernel), /*withElseRegion=*/true);
  builder.setInsertionPointToStart(conditional.elseBlock());
  storeEntry(builder, loc, list, constant(0), argument(1));
  Value one = constantI64(builder, loc, 1);
  invocation.callPointer(kernel, Type(),
                         {list, one, list, one, argument(2), constantI64(builder, loc, 0), argument(3)});
  finish();
}

void MoveFunctions::defineWait() {
  create(waitFunction, i32, {pointer, i64, i32, i32});
  InvocationAccess invocation(builder, loc, argument(0));
  Value status =
      invocation.callService(offsetof(KoloServices, wait), i32, {argument(1), argument(2), argument(3)}).getResult();
  LLVM::ReturnOp::create(builder, loc, status);
}

} // namespace

void defineMoveFunctions(ModuleOp module) { MoveFunctions(module).define(); }

} // namespace kolo::cpu
