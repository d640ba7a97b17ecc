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
  MoveFunctions(ModuleOp module, int64_t vectorBytes)
      : module(module), builder(module.getContext()), loc(module.getLoc()), pointer(pointerType(builder)),
        i64(builder.getI64Type()), i32(builder.getI32Type()), vectorBytes(vectorBytes) {}

  void define() {
    defineCopy(copyFunction, /*isMulticast=*/false);
    defineCopy(multicastFunction, /*isMulticast=*/true);
    defineRemote(putFunction, offsetof(KoloServices, put), /*isPut=*/true);
    defineRemote(getFunction, offsetof(KoloServices, get), /*isPut=*/false);
    defineReduce();
    defineReduceFrom();
    defineDivide();
    defineWait();
  }

private:
  /// What a copy goes to: one place, or each of a list of places.
  struct Destinations {
    Value base;
    Value number; // of entries in the list at `base`; null: `base` is the place itself
  };

  void defineCopy(StringRef name, bool isMulticast);
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
  Value isNull(Value address) {
    return LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::eq, address,
                                LLVM::ZeroOp::create(builder, loc, pointer));
  }
  Value constant(int64_t value) { return createConstant(builder, loc, value); }
  Value roundDown(Value value, int64_t multiple) {
    return createMul(builder, loc, arith::DivUIOp::create(builder, loc, value, constant(multiple)), constant(multiple));
  }
  void copyVectors(const Destinations &to, Value from, Value begin, Value end, int64_t bytes, int64_t unroll,
                   bool isAroundCaches = false);
  void copyAroundCaches(const Destinations &to, Value from, Value size);

  ModuleOp module;
  OpBuilder builder;
  Location loc;
  Type pointer, i64, i32;
  int64_t vectorBytes;
  LLVM::LLVMFuncOp function;
};

constexpr int64_t vectorsPerIteration = 4;

/// Copies the bytes [begin, end), so many at once; all loads of an iteration come before its stores.
void MoveFunctions::copyVectors(const Destinations &to, Value from, Value begin, Value end, int64_t bytes, int64_t unroll,
                                bool isAroundCaches) {
  OpBuilder::InsertionGuard guard(builder);
  auto loop = scf::ForOp::create(builder, loc, begin, end, constant(bytes * unroll));
  builder.setInsertionPointToStart(loop.getBody());
  Type type = bytes == 1 ? Type(builder.getI8Type()) : VectorType::get({bytes}, builder.getI8Type());
  SmallVector<Value> offsets, values;
  for (int64_t i = 0; i < unroll; ++i)
    offsets.push_back(toInteger(builder, loc, createAdd(builder, loc, loop.getInductionVar(), constant(i * bytes))));
  for (Value offset : offsets)
    values.push_back(LLVM::LoadOp::create(builder, loc, type, advance(builder, loc, from, offset), 1));
  Value base = to.base;
  if (to.number) {
    auto destinations = scf::ForOp::create(builder, loc, constant(0), to.number, constant(1));
    builder.setInsertionPointToStart(destinations.getBody());
    base = loadEntry(builder, loc, to.base, destinations.getInductionVar());
  }
  for (auto [offset, value] : llvm::zip_equal(offsets, values))
    LLVM::StoreOp::create(builder, loc, value, advance(builder, loc, base, offset), isAroundCaches ? unsigned(bytes) : 1,
                          /*isVolatile=*/false, /*isNonTemporal=*/isAroundCaches);
}

/// Vectors of the destination, which must be aligned for such stores, and what is left on both sides byte by byte.
void MoveFunctions::copyAroundCaches(const Destinations &to, Value from, Value size) {
  Value first = to.number ? loadEntry(builder, loc, to.base, constant(0)) : to.base;
  Value head = toIndex(builder, loc, createMisalignment(builder, loc, first, vectorBytes));
  Value end = createAdd(builder, loc, head,
                        roundDown(createSub(builder, loc, size, head), vectorBytes * vectorsPerIteration));
  copyVectors(to, from, constant(0), head, 1, 1);
  copyVectors(to, from, head, end, vectorBytes, vectorsPerIteration, /*isAroundCaches=*/true);
  copyVectors(to, from, end, size, 1, 1);
  createStoreFence(builder, loc);
}

void MoveFunctions::defineCopy(StringRef name, bool isMulticast) {
  create(name, Type(), isMulticast ? ArrayRef<Type>{pointer, i64, pointer, i64, i64} : ArrayRef<Type>{pointer, pointer, i64, i64});
  unsigned next = isMulticast ? 2 : 1;
  Destinations to{argument(0), isMulticast ? toIndex(builder, loc, argument(1)) : Value()};
  Value from = argument(next), size = toIndex(builder, loc, argument(next + 1)), aroundCaches = argument(next + 2);
  // What a page holds is not worth the fence.
  Value isLarge = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge, size, constant(4096));
  Value isAround = arith::AndIOp::create(builder, loc, isLarge, isNotZero(builder, loc, aroundCaches));
  if (isMulticast)
    isAround = arith::AndIOp::create(builder, loc, isAround,
                                     areAlignedAlike(builder, loc, to.base, to.number, vectorBytes));
  auto conditional = scf::IfOp::create(builder, loc, isAround, /*withElseRegion=*/true);
  builder.setInsertionPointToStart(conditional.thenBlock());
  copyAroundCaches(to, from, size);
  builder.setInsertionPointToStart(conditional.elseBlock());
  Value endOfBlocks = roundDown(size, vectorBytes * vectorsPerIteration), endOfWords = roundDown(size, 8);
  copyVectors(to, from, constant(0), endOfBlocks, vectorBytes, vectorsPerIteration);
  copyVectors(to, from, endOfBlocks, endOfWords, 8, 1);
  copyVectors(to, from, endOfWords, size, 1, 1);
  finish();
}

/// Copies directly where the peer's buffer is mapped, and through the runtime where it is not.
void MoveFunctions::defineRemote(StringRef name, size_t service, bool isPut) {
  create(name, Type(), {pointer, i64, i64, i64, pointer, i64, i64});
  Value peer = argument(1), role = argument(2), offset = argument(3), local = argument(4), size = argument(5);
  Value aroundCaches = argument(6);
  InvocationAccess invocation(builder, loc, argument(0));
  Value base = invocation.peerBuffer(role, peer);
  auto conditional = scf::IfOp::create(builder, loc, isNull(base), /*withElseRegion=*/true);
  builder.setInsertionPointToStart(conditional.thenBlock());
  Value role32 = arith::TruncIOp::create(builder, loc, i32, role);
  invocation.callService(service, Type(), {peer, role32, offset, local, size});
  builder.setInsertionPointToStart(conditional.elseBlock());
  Value remote = advance(builder, loc, base, offset);
  call(copyFunction, isPut ? ValueRange{remote, local, size, aroundCaches} : ValueRange{local, remote, size, aroundCaches});
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
  Value peer = argument(1), role = argument(2), offset = argument(3), destination = argument(4), count = argument(5);
  InvocationAccess invocation(builder, loc, argument(0));
  Value base = invocation.peerBuffer(role, peer);
  auto conditional = scf::IfOp::create(builder, loc, isNull(base), /*withElseRegion=*/true);
  builder.setInsertionPointToStart(conditional.elseBlock());
  call(reduceFunction, {argument(0), destination, advance(builder, loc, base, offset), count});

  builder.setInsertionPointToStart(conditional.thenBlock());
  Value elementBytes = invocation.loadInteger(offsetof(KoloInvocation, elementBytes));
  Value tile = invocation.loadPointer(offsetof(KoloInvocation, tile));
  Value tileBytes = invocation.loadInteger(offsetof(KoloInvocation, tileBytes));
  Value perTile = arith::DivUIOp::create(builder, loc, tileBytes, elementBytes);
  auto loop = scf::ForOp::create(builder, loc, constant(0), toIndex(builder, loc, count), toIndex(builder, loc, perTile));
  builder.setInsertionPointToStart(loop.getBody());
  Value first = toInteger(builder, loc, loop.getInductionVar());
  Value length = arith::MinSIOp::create(builder, loc, perTile, arith::SubIOp::create(builder, loc, count, first));
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
  Value kernel = invocation.loadPointer(offsetof(KoloInvocation, divide));
  auto conditional = scf::IfOp::create(builder, loc, isNull(kernel), /*withElseRegion=*/true);
  builder.setInsertionPointToStart(conditional.elseBlock());
  invocation.callPointer(kernel, Type(), {argument(1), argument(2), argument(3)});
  finish();
}

void MoveFunctions::defineWait() {
  create(waitFunction, i32, {pointer, i64, i32, i32});
  InvocationAccess invocation(builder, loc, argument(0));
  Value status = invocation.callService(offsetof(KoloServices, wait), i32, {argument(1), argument(2), argument(3)})
                     .getResult();
  LLVM::ReturnOp::create(builder, loc, status);
}

} // namespace

void defineMoveFunctions(ModuleOp module, int64_t vectorBytes) { MoveFunctions(module, vectorBytes).define(); }

} // namespace kolo::cpu
