// Small computations of all generated code.
#include "targets/Values.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace kolo {

Value toIndex(OpBuilder &builder, Location loc, Value integer) {
  return arith::IndexCastOp::create(builder, loc, builder.getIndexType(), integer);
}
Value toInteger(OpBuilder &builder, Location loc, Value index) {
  return arith::IndexCastOp::create(builder, loc, builder.getI64Type(), index);
}
Value constantI64(OpBuilder &builder, Location loc, int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 64);
}

Value advance(OpBuilder &builder, Location loc, Value base, Value offsetBytes) {
  return LLVM::GEPOp::create(builder, loc, base.getType(), builder.getI8Type(), base,
                             ArrayRef<LLVM::GEPArg>{offsetBytes});
}

} // namespace kolo
