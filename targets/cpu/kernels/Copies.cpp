// Copies of bytes, to one destination or to many, by plain or by non-temporal stores.
#include "ir/IndexArithmetic.h"
#include "targets/cpu/InvocationAccess.h"
#include "targets/cpu/Kernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo::cpu {

namespace {

class Copies {
public:
  Copies(ModuleOp module, int64_t vectorBytes)
      : module(module), builder(module.getContext()), loc(module.getLoc()), vectorBytes(vectorBytes) {}

  void define(StringRef name, bool isMulticast);
  void defineStream();

private:
  static constexpr int64_t vectorsPerIteration = 4;

  /// What a copy goes to: one place, or each of a list of places.
  struct Destinations {
    Value base;
    Value number; // of entries in the list at `base`; null: `base` is the place itself
  };
  Value constant(int64_t value) { return createConstant(builder, loc, value); }
  Value roundDown(Value value, int64_t multiple) {
    return createMul(builder, loc, arith::DivUIOp::create(builder, loc, value, constant(multiple)), constant(multiple));
  }
  void copyVectors(const Destinations &to, Value from, Value begin, Value end, int64_t bytes, int64_t unroll,
                   bool isNonTemporal = false);
  void copyNonTemporal(const Destinations &to, Value from, Value size);

  ModuleOp module;
  OpBuilder builder;
  Location loc;
  int64_t vectorBytes;
};

/// Copies the bytes [begin, end), so many at once; all loads of an iteration come before its stores.
void Copies::copyVectors(const Destinations &to, Value from, Value begin, Value end, int64_t bytes, int64_t unroll,
                         bool isNonTemporal) {
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
    LLVM::StoreOp::create(builder, loc, value, advance(builder, loc, base, offset), isNonTemporal ? unsigned(bytes) : 1,
                          /*isVolatile=*/false, /*isNonTemporal=*/isNonTemporal);
}

/// Vectors of the destination, which must be aligned for such stores, and what is left on both sides byte by byte. A
/// fence must follow.
void Copies::copyNonTemporal(const Destinations &to, Value from, Value size) {
  Value first = to.number ? loadEntry(builder, loc, to.base, constant(0)) : to.base;
  Value head = toIndex(builder, loc, createMisalignment(builder, loc, first, vectorBytes));
  Value end =
      createAdd(builder, loc, head, roundDown(createSub(builder, loc, size, head), vectorBytes * vectorsPerIteration));
  copyVectors(to, from, constant(0), head, 1, 1);
  copyVectors(to, from, head, end, vectorBytes, vectorsPerIteration, /*isNonTemporal=*/true);
  copyVectors(to, from, end, size, 1, 1);
}

void Copies::defineStream() {
  Type pointer = pointerType(builder);
  auto function = createFunction(builder, module, streamFunction, Type(), {pointer, pointer, builder.getI64Type()},
                                 /*isExported=*/false);
  copyNonTemporal({function.getArgument(0), {}}, function.getArgument(1),
                  toIndex(builder, loc, function.getArgument(2)));
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

void Copies::define(StringRef name, bool isMulticast) {
  Type pointer = pointerType(builder), i64 = builder.getI64Type();
  auto function = createFunction(builder, module, name, Type(),
                                 isMulticast ? ArrayRef<Type>{pointer, i64, pointer, i64, i64}
                                             : ArrayRef<Type>{pointer, pointer, i64, i64},
                                 /*isExported=*/false);
  // One copy of each: next to the bytes they move a call costs nothing.
  function.setNoInline(true);
  auto argument = [&](unsigned number) -> Value { return function.getArgument(number); };
  unsigned next = isMulticast ? 2 : 1;
  Destinations to{argument(0), isMulticast ? toIndex(builder, loc, argument(1)) : Value()};
  Value from = argument(next), size = toIndex(builder, loc, argument(next + 1)), nonTemporal = argument(next + 2);
  // What a page holds is not worth the fence.
  Value isLarge = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge, size, constant(4096));
  Value isAround = arith::AndIOp::create(builder, loc, isLarge, isNotZero(builder, loc, nonTemporal));
  if (isMulticast)
    isAround =
        arith::AndIOp::create(builder, loc, isAround, areAlignedAlike(builder, loc, to.base, to.number, vectorBytes));
  auto conditional = scf::IfOp::create(builder, loc, isAround, /*withElseRegion=*/true);
  builder.setInsertionPointToStart(conditional.thenBlock());
  copyNonTemporal(to, from, size);
  createStoreFence(builder, loc);
  builder.setInsertionPointToStart(conditional.elseBlock());
  Value endOfBlocks = roundDown(size, vectorBytes * vectorsPerIteration), endOfWords = roundDown(size, 8);
  copyVectors(to, from, constant(0), endOfBlocks, vectorBytes, vectorsPerIteration);
  copyVectors(to, from, endOfBlocks, endOfWords, 8, 1);
  copyVectors(to, from, endOfWords, size, 1, 1);
  builder.setInsertionPointToEnd(&function.getBody().back());
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

} // namespace

void defineCopies(ModuleOp module, int64_t vectorBytes) {
  Copies copies(module, vectorBytes);
  copies.define(copyFunction, /*isMulticast=*/false);
  copies.define(multicastFunction, /*isMulticast=*/true);
  copies.defineStream();
}

} // namespace kolo::cpu
