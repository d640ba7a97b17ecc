// The loops over elements: one function per type and operation, scalar here, vectorised by LLVM for the target's CPU.
#include "ir/IndexArithmetic.h"
#include "targets/cpu/InvocationAccess.h"
#include "targets/cpu/ProgramFunctions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace kolo::cpu {

namespace {

class Kernels {
public:
  explicit Kernels(ModuleOp module) : module(module), builder(module.getContext()), loc(module.getLoc()) {}

  void defineReduce(KoloType type, KoloReduction reduction);
  void defineDivide(KoloType type);

private:
  Type storedType(KoloType type);
  static bool isFloat(KoloType type) { return type <= KOLO_F64; }
  static bool isUnsigned(KoloType type) { return type == KOLO_U8 || type == KOLO_U32 || type == KOLO_U64; }
  Value widen(Value value);
  Value narrow(Value value, Type stored);
  Value combine(KoloType type, KoloReduction reduction, Value a, Value b);
  Value select(Value condition, Value a, Value b) { return arith::SelectOp::create(builder, loc, condition, a, b); }

  ModuleOp module;
  OpBuilder builder;
  Location loc;
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
  if (value.getType().isF16() || value.getType().isBF16())
    return arith::ExtFOp::create(builder, loc, builder.getF32Type(), value);
  return value;
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

void Kernels::defineReduce(KoloType type, KoloReduction reduction) {
  Type pointer = pointerType(builder), stored = storedType(type);
  auto function = createFunction(builder, module, reduceKernelName(type, reduction), Type(),
                                 {pointer, pointer, builder.getI64Type()}, /*isExported=*/false);
  // Both ends are checked to be apart by whoever places staging; without it every loop would be compiled twice.
  for (unsigned i = 0; i < 2; ++i)
    function.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr());
  auto loop = scf::ForOp::create(builder, loc, createConstant(builder, loc, 0),
                                 toIndex(builder, loc, function.getArgument(2)), createConstant(builder, loc, 1));
  builder.setInsertionPointToStart(loop.getBody());
  Value index = toInteger(builder, loc, loop.getInductionVar());
  auto element = [&](unsigned argument) -> Value {
    return LLVM::GEPOp::create(builder, loc, pointer, stored, function.getArgument(argument),
                               ArrayRef<LLVM::GEPArg>{index});
  };
  Value target = element(0);
  Value a = widen(LLVM::LoadOp::create(builder, loc, stored, target));
  Value b = widen(LLVM::LoadOp::create(builder, loc, stored, element(1)));
  LLVM::StoreOp::create(builder, loc, narrow(combine(type, reduction, a, b), stored), target);
  builder.setInsertionPointToEnd(&function.getBody().back());
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

void Kernels::defineDivide(KoloType type) {
  Type pointer = pointerType(builder), stored = storedType(type), i64 = builder.getI64Type();
  auto function = createFunction(builder, module, divideKernelName(type), Type(), {pointer, i64, i64},
                                 /*isExported=*/false);
  Value divisor = function.getArgument(2);
  Type computed = isFloat(type) ? (type == KOLO_F64 ? Type(builder.getF64Type()) : Type(builder.getF32Type())) : i64;
  if (isFloat(type))
    divisor = arith::SIToFPOp::create(builder, loc, computed, divisor);
  auto loop = scf::ForOp::create(builder, loc, createConstant(builder, loc, 0),
                                 toIndex(builder, loc, function.getArgument(1)), createConstant(builder, loc, 1));
  builder.setInsertionPointToStart(loop.getBody());
  Value index = toInteger(builder, loc, loop.getInductionVar());
  Value address = LLVM::GEPOp::create(builder, loc, pointer, stored, function.getArgument(0),
                                      ArrayRef<LLVM::GEPArg>{index});
  Value value = LLVM::LoadOp::create(builder, loc, stored, address);
  if (isFloat(type)) {
    value = narrow(arith::DivFOp::create(builder, loc, widen(value), divisor), stored);
  } else {
    bool isWide = stored == i64;
    if (!isWide)
      value = isUnsigned(type) ? arith::ExtUIOp::create(builder, loc, i64, value).getResult()
                               : arith::ExtSIOp::create(builder, loc, i64, value).getResult();
    value = isUnsigned(type) ? arith::DivUIOp::create(builder, loc, value, divisor).getResult()
                             : arith::DivSIOp::create(builder, loc, value, divisor).getResult();
    if (!isWide)
      value = arith::TruncIOp::create(builder, loc, stored, value);
  }
  LLVM::StoreOp::create(builder, loc, value, address);
  builder.setInsertionPointToEnd(&function.getBody().back());
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

} // namespace

void defineKernels(ModuleOp module) {
  Kernels kernels(module);
  for (int type = 0; type < KOLO_NUM_TYPES; ++type) {
    for (int reduction = KOLO_SUM; reduction < KOLO_AVERAGE; ++reduction)
      kernels.defineReduce(KoloType(type), KoloReduction(reduction));
    kernels.defineDivide(KoloType(type));
  }
}

} // namespace kolo::cpu
