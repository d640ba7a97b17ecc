// The loops over elements: one function per type and operation. Two vectors per iteration, all loads before
// the first store, then element by element. They are vectors here already: that makes LLVM's part five times shorter than
// if it had to find them.
#include "ir/IndexArithmetic.h"
#include "targets/cpu/InvocationAccess.h"
#include "targets/cpu/ProgramFunctions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace kolo::cpu {

namespace {

constexpr int64_t vectorsPerIteration = 2;

class Kernels {
public:
  Kernels(ModuleOp module, int64_t vectorBytes)
      : module(module), builder(module.getContext()), loc(module.getLoc()), vectorBytes(vectorBytes) {}

  void defineReduce(KoloType type, KoloReduction reduction);
  void defineDivide(KoloType type);

private:
  Type storedType(KoloType type);
  static bool isFloat(KoloType type) { return type <= KOLO_F64; }
  static bool isUnsigned(KoloType type) { return type == KOLO_U8 || type == KOLO_U32 || type == KOLO_U64; }
  /// Builds a loop over blocks of vectors, if wanted, one over the rest, and the return; `build` moves `unroll` values of a type, from
  /// element `first` on.
  void buildLoops(Value numElements, Type stored, bool useVectors,
                  function_ref<void(Value first, Type type, int64_t unroll)> build);
  Value addressOf(Value base, Value first, Type stored, Type type, int64_t number);
  Value splat(Value value, Type like);
  Value divideIntegers(KoloType type, Value value, Value divisor);
  Value widen(Value value);
  Value narrow(Value value, Type stored);
  Value combine(KoloType type, KoloReduction reduction, Value a, Value b);
  Value select(Value condition, Value a, Value b) { return arith::SelectOp::create(builder, loc, condition, a, b); }

  ModuleOp module;
  OpBuilder builder;
  Location loc;
  int64_t vectorBytes;
};

Type Kernels::storedType(KoloType type) {
  switch (type) {
  case KOLO_F16:
    return builder.getF16Type();
  case KOLO_BF16:
    return builder.getBF16Type();
  case KOLO_F32:
    return builder.getF32Type();
  case KOLO_F64:
    return builder.getF64Type();
  case KOLO_I8:
  case KOLO_U8:
    return builder.getI8Type();
  case KOLO_I32:
  case KOLO_U32:
    return builder.getI32Type();
  default:
    return builder.getI64Type();
  }
}

/// f16 and bf16 are computed with in f32, and rounded once per operation.
Value Kernels::widen(Value value) {
  Type element = getElementTypeOrSelf(value.getType());
  if (!element.isF16() && !element.isBF16())
    return value;
  Type wide = builder.getF32Type();
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    wide = VectorType::get(vector.getShape(), wide);
  return arith::ExtFOp::create(builder, loc, wide, value);
}

Value Kernels::narrow(Value value, Type stored) {
  return value.getType() == stored ? value : arith::TruncFOp::create(builder, loc, stored, value).getResult();
}

Value Kernels::combine(KoloType type, KoloReduction reduction, Value a, Value b) {
  bool isMin = reduction == KOLO_MIN;
  if (isFloat(type)) {
    if (reduction == KOLO_SUM)
      return arith::AddFOp::create(builder, loc, a, b);
    if (reduction == KOLO_PRODUCT)
      return arith::MulFOp::create(builder, loc, a, b);
    auto predicate = isMin ? arith::CmpFPredicate::OLT : arith::CmpFPredicate::OGT;
    return select(arith::CmpFOp::create(builder, loc, predicate, a, b), a, b);
  }
  if (reduction == KOLO_SUM)
    return arith::AddIOp::create(builder, loc, a, b);
  if (reduction == KOLO_PRODUCT)
    return arith::MulIOp::create(builder, loc, a, b);
  if (isUnsigned(type))
    return isMin ? arith::MinUIOp::create(builder, loc, a, b).getResult()
                 : arith::MaxUIOp::create(builder, loc, a, b).getResult();
  return isMin ? arith::MinSIOp::create(builder, loc, a, b).getResult()
               : arith::MaxSIOp::create(builder, loc, a, b).getResult();
}

void Kernels::buildLoops(Value numElements, Type stored, bool useVectors,
                         function_ref<void(Value first, Type type, int64_t unroll)> build) {
  Value count = toIndex(builder, loc, numElements), zero = createConstant(builder, loc, 0);
  int64_t lanes = vectorBytes * 8 / stored.getIntOrFloatBitWidth();
  Value block = createConstant(builder, loc, lanes * vectorsPerIteration);
  Value blocks = createMul(builder, loc, arith::DivUIOp::create(builder, loc, count, block), block);
  auto buildLoop = [&](Value begin, Value end, Value step, Type type, int64_t unroll) {
    OpBuilder::InsertionGuard guard(builder);
    auto loop = scf::ForOp::create(builder, loc, begin, end, step);
    builder.setInsertionPointToStart(loop.getBody());
    build(toInteger(builder, loc, loop.getInductionVar()), type, unroll);
  };
  if (useVectors)
    buildLoop(zero, blocks, block, VectorType::get({lanes}, stored), vectorsPerIteration);
  buildLoop(useVectors ? blocks : zero, count, createConstant(builder, loc, 1), stored, 1);
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

Value Kernels::addressOf(Value base, Value first, Type stored, Type type, int64_t number) {
  auto vector = dyn_cast<VectorType>(type);
  Value offset = constantI64(builder, loc, vector ? number * vector.getNumElements() : number);
  return LLVM::GEPOp::create(builder, loc, pointerType(builder), stored, base,
                             ArrayRef<LLVM::GEPArg>{arith::AddIOp::create(builder, loc, first, offset).getResult()});
}

void Kernels::defineReduce(KoloType type, KoloReduction reduction) {
  if (module.lookupSymbol(reduceKernelName(type, reduction)))
    return; // shared with the signed type
  Type pointer = pointerType(builder), stored = storedType(type);
  auto function = createFunction(builder, module, reduceKernelName(type, reduction), Type(),
                                 {pointer, pointer, builder.getI64Type()}, /*isExported=*/false);
  unsigned alignment = stored.getIntOrFloatBitWidth() / 8;
  buildLoops(function.getArgument(2), stored, /*useVectors=*/true, [&](Value first, Type moved, int64_t unroll) {
    SmallVector<Value> addresses, left, right;
    for (int64_t i = 0; i < unroll; ++i) {
      addresses.push_back(addressOf(function.getArgument(0), first, stored, moved, i));
      Value from = addressOf(function.getArgument(1), first, stored, moved, i);
      left.push_back(LLVM::LoadOp::create(builder, loc, moved, addresses.back(), alignment));
      right.push_back(LLVM::LoadOp::create(builder, loc, moved, from, alignment));
    }
    for (auto [address, a, b] : llvm::zip_equal(addresses, left, right))
      LLVM::StoreOp::create(builder, loc, narrow(combine(type, reduction, widen(a), widen(b)), moved), address, alignment);
  });
}

/// A value of the divisor's kind, once per lane where the dividend is a vector.
Value Kernels::splat(Value value, Type like) {
  auto vector = dyn_cast<VectorType>(like);
  if (!vector)
    return value;
  return vector::BroadcastOp::create(builder, loc, VectorType::get(vector.getShape(), value.getType()), value);
}

void Kernels::defineDivide(KoloType type) {
  Type pointer = pointerType(builder), stored = storedType(type), i64 = builder.getI64Type();
  auto function = createFunction(builder, module, divideKernelName(type), Type(), {pointer, i64, i64},
                                 /*isExported=*/false);
  Value divisor = function.getArgument(2);
  if (isFloat(type))
    divisor = arith::SIToFPOp::create(builder, loc, type == KOLO_F64 ? builder.getF64Type() : builder.getF32Type(), divisor);
  unsigned alignment = stored.getIntOrFloatBitWidth() / 8;
  // No CPU divides vectors of integers.
  buildLoops(function.getArgument(1), stored, isFloat(type), [&](Value first, Type moved, int64_t unroll) {
    for (int64_t i = 0; i < unroll; ++i) {
      Value address = addressOf(function.getArgument(0), first, stored, moved, i);
      Value value = LLVM::LoadOp::create(builder, loc, moved, address, alignment);
      Value quotient = isFloat(type) ? narrow(arith::DivFOp::create(builder, loc, widen(value), splat(divisor, moved)), moved)
                                     : divideIntegers(type, value, divisor);
      LLVM::StoreOp::create(builder, loc, quotient, address, alignment);
    }
  });
}

/// Towards zero, in 64 bits, so that any number of ranks divides any type.
Value Kernels::divideIntegers(KoloType type, Value value, Value divisor) {
  Type wide = divisor.getType(), stored = value.getType();
  bool isWide = stored == wide;
  if (!isWide)
    value = isUnsigned(type) ? arith::ExtUIOp::create(builder, loc, wide, value).getResult()
                             : arith::ExtSIOp::create(builder, loc, wide, value).getResult();
  value = isUnsigned(type) ? arith::DivUIOp::create(builder, loc, value, divisor).getResult()
                           : arith::DivSIOp::create(builder, loc, value, divisor).getResult();
  return isWide ? value : arith::TruncIOp::create(builder, loc, stored, value).getResult();
}

} // namespace

void defineKernels(ModuleOp module, int64_t vectorBytes) {
  Kernels kernels(module, vectorBytes);
  for (int type = 0; type < KOLO_NUM_TYPES; ++type) {
    for (int reduction = KOLO_SUM; reduction < KOLO_AVERAGE; ++reduction)
      kernels.defineReduce(KoloType(type), KoloReduction(reduction));
    kernels.defineDivide(KoloType(type));
  }
}

} // namespace kolo::cpu
