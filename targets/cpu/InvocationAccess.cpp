// Reads of the plugin ABI's structs in generated code.
#include "targets/cpu/InvocationAccess.h"

#include "ir/IndexArithmetic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo::cpu {

Type pointerType(OpBuilder &builder) { return LLVM::LLVMPointerType::get(builder.getContext()); }

Value constantI32(OpBuilder &builder, Location loc, int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}
static Value entryAddress(OpBuilder &builder, Location loc, Value list, Value number) {
  return LLVM::GEPOp::create(builder, loc, list.getType(), list.getType(), list,
                             ArrayRef<LLVM::GEPArg>{toInteger(builder, loc, number)});
}

Value loadEntry(OpBuilder &builder, Location loc, Value list, Value number) {
  return LLVM::LoadOp::create(builder, loc, list.getType(), entryAddress(builder, loc, list, number), 8);
}

void storeEntry(OpBuilder &builder, Location loc, Value list, Value number, Value pointer) {
  LLVM::StoreOp::create(builder, loc, pointer, entryAddress(builder, loc, list, number), 8);
}

Value isNotZero(OpBuilder &builder, Location loc, Value integer) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, integer, constantI64(builder, loc, 0));
}

Value createMisalignment(OpBuilder &builder, Location loc, Value address, int64_t multiple) {
  Value number = LLVM::PtrToIntOp::create(builder, loc, builder.getI64Type(), address);
  Value negative = arith::SubIOp::create(builder, loc, constantI64(builder, loc, 0), number);
  return arith::AndIOp::create(builder, loc, negative, constantI64(builder, loc, multiple - 1));
}

Value areAlignedAlike(OpBuilder &builder, Location loc, Value list, Value number, int64_t multiple) {
  Value zero = createConstant(builder, loc, 0), one = createConstant(builder, loc, 1);
  Value first = createMisalignment(builder, loc, loadEntry(builder, loc, list, zero), multiple);
  auto loop = scf::ForOp::create(builder, loc, one, number, one, ValueRange{constantI64(builder, loc, 0)});
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value other = createMisalignment(builder, loc, loadEntry(builder, loc, list, loop.getInductionVar()), multiple);
    Value difference = arith::XOrIOp::create(builder, loc, first, other);
    scf::YieldOp::create(builder, loc,
                         arith::OrIOp::create(builder, loc, loop.getRegionIterArg(0), difference).getResult());
  }
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, loop.getResult(0), constantI64(builder, loc, 0));
}

void createStoreFence(OpBuilder &builder, Location loc) {
  LLVM::CallIntrinsicOp::create(builder, loc, builder.getStringAttr("llvm.x86.sse.sfence"), ValueRange{});
}

/// Of 64-bit numbers.
static Value loadNumber(OpBuilder &builder, Location loc, Value table, Value number) {
  Type i64 = builder.getI64Type();
  Value address = LLVM::GEPOp::create(builder, loc, table.getType(), i64, table,
                                      ArrayRef<LLVM::GEPArg>{toInteger(builder, loc, number)});
  return toIndex(builder, loc, LLVM::LoadOp::create(builder, loc, i64, address, 8));
}

Value InvocationAccess::loadTabled(size_t offsetBytes, Value number) {
  return loadNumber(builder, loc, loadPointer(offsetBytes), number);
}

Value InvocationAccess::loadTabled(size_t offsetBytes, Value rank, Value number) {
  return loadNumber(builder, loc, loadEntry(builder, loc, loadPointer(offsetBytes), rank), number);
}

Value InvocationAccess::loadInteger(size_t offsetBytes) {
  Value address = advance(builder, loc, invocation, constantI64(builder, loc, int64_t(offsetBytes)));
  return LLVM::LoadOp::create(builder, loc, builder.getI64Type(), address, 8);
}

Value InvocationAccess::loadPointer(size_t offsetBytes) {
  Value address = advance(builder, loc, invocation, constantI64(builder, loc, int64_t(offsetBytes)));
  return LLVM::LoadOp::create(builder, loc, pointerType(builder), address, 8);
}

Value InvocationAccess::loadIndex(size_t offsetBytes) { return toIndex(builder, loc, loadInteger(offsetBytes)); }

Value InvocationAccess::peerBuffer(Value role, Value peer) {
  Value eight = constantI64(builder, loc, sizeof(void *));
  auto scaled = [&](Value value) -> Value { return arith::MulIOp::create(builder, loc, value, eight); };
  Value tables = advance(builder, loc, invocation, constantI64(builder, loc, offsetof(KoloInvocation, peers)));
  Value table =
      LLVM::LoadOp::create(builder, loc, pointerType(builder), advance(builder, loc, tables, scaled(role)), 8);
  return LLVM::LoadOp::create(builder, loc, pointerType(builder), advance(builder, loc, table, scaled(peer)), 8);
}

LLVM::CallOp InvocationAccess::callPointer(Value function, Type result, ValueRange arguments) {
  auto type = LLVM::LLVMFunctionType::get(result ? result : LLVM::LLVMVoidType::get(builder.getContext()),
                                          llvm::to_vector(arguments.getTypes()));
  SmallVector<Value> operands{function};
  llvm::append_range(operands, arguments);
  return LLVM::CallOp::create(builder, loc, type, operands);
}

LLVM::CallOp InvocationAccess::callService(size_t serviceOffset, Type result, ValueRange arguments) {
  Value services = loadPointer(offsetof(KoloInvocation, services));
  Value address = advance(builder, loc, services, constantI64(builder, loc, int64_t(serviceOffset)));
  Value function = LLVM::LoadOp::create(builder, loc, pointerType(builder), address, 8);
  SmallVector<Value> operands{invocation};
  llvm::append_range(operands, arguments);
  return callPointer(function, result, operands);
}

} // namespace kolo::cpu
