// The functions that kernels consist of: declarations, and small computations in them.
#include "targets/gpu/DeviceFunctions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo::gpu {

Type pointerType(OpBuilder &builder, unsigned space) { return LLVM::LLVMPointerType::get(builder.getContext(), space); }

static LLVM::LLVMFuncOp declare(OpBuilder &builder, ModuleOp module, StringRef name, Type result,
                                ArrayRef<Type> arguments, LLVM::Linkage linkage) {
  builder.setInsertionPointToEnd(module.getBody());
  auto type = LLVM::LLVMFunctionType::get(result ? result : LLVM::LLVMVoidType::get(builder.getContext()), arguments);
  auto function = LLVM::LLVMFuncOp::create(builder, module.getLoc(), name, type, linkage);
  function.setNoUnwind(true);
  // Threads must come to barriers together: nothing that may hold one is to be moved under another condition.
  function.setConvergent(true);
  return function;
}

void declarePrimitive(OpBuilder &builder, ModuleOp module, StringRef name, Type result, ArrayRef<Type> arguments) {
  declare(builder, module, name, result, arguments, LLVM::Linkage::External);
}

void declarePrimitives(ModuleOp module) {
  OpBuilder builder(module.getContext());
  Type i32 = builder.getI32Type(), i64 = builder.getI64Type(), pointer = pointerType(builder);
  auto add = [&](StringRef name, Type result, ArrayRef<Type> arguments) {
    declarePrimitive(builder, module, name, result, arguments);
  };
  for (StringRef name : {laneFunction, numLanesFunction, entryFunction, threadFunction, numThreadsFunction})
    add(name, i64, {});
  for (StringRef name : {barrierFunction, publishFunction, acquireFunction})
    add(name, Type(), {});
  add(shareFunction, i32, {i32});
  add(anyFunction, i32, {i32});
  add(raiseFunction, Type(), {pointer, i64});
  add(peekFunction, i64, {pointer});
  add(uniformFunction, i64, {i64});
  for (StringRef name : {listFunction, keptFunction})
    add(name, pointerType(builder, blockSpace), {});
  add(clockFunction, i64, {});
  add(pauseFunction, Type(), {i64});
  add(storeLineFunction, Type(), {pointer, i64, i64});
  add(loadLineFunction, LLVM::LLVMStructType::getLiteral(module.getContext(), {i64, i64}), {pointer});
  add(fromLastFunction, i32, {i32});
}

LLVM::LLVMFuncOp createFunction(OpBuilder &builder, ModuleOp module, StringRef name, Type result,
                                ArrayRef<Type> arguments, Inlining inlining) {
  auto function = declare(builder, module, name, result, arguments, LLVM::Linkage::Internal);
  function.setNoInline(inlining == Inlining::Never);
  function.setAlwaysInline(inlining == Inlining::Always);
  // Loops stay loops: a device has no memcpy to call.
  function.setPassthroughAttr(builder.getStrArrayAttr({"no-builtins"}));
  builder.setInsertionPointToStart(function.addEntryBlock(builder));
  return function;
}

LLVM::LLVMFuncOp definePrimitive(OpBuilder &builder, ModuleOp module, StringRef name) {
  auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(name);
  assert(function && function.isExternal() && "not a primitive that LowerPrograms declared");
  function.setLinkage(LLVM::Linkage::Internal);
  function.setAlwaysInline(true);
  builder.setInsertionPointToStart(function.addEntryBlock(builder));
  return function;
}

/// As a global of so many bytes.
static void defineMemory(ModuleOp module, StringRef primitive, StringRef name, int64_t numBytes, unsigned alignment) {
  OpBuilder builder(module.getContext());
  Location loc = module.getLoc();
  builder.setInsertionPointToStart(module.getBody());
  auto type = LLVM::LLVMArrayType::get(builder.getI64Type(), unsigned(numBytes / 8));
  auto memory = LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/false, LLVM::Linkage::Internal, name,
                                       Attribute(), alignment, blockSpace);
  builder.createBlock(&memory.getInitializerRegion());
  LLVM::ReturnOp::create(builder, loc, LLVM::PoisonOp::create(builder, loc, type).getResult());
  definePrimitive(builder, module, primitive);
  Value address = LLVM::AddressOfOp::create(builder, loc, pointerType(builder, blockSpace), name);
  LLVM::ReturnOp::create(builder, loc, address);
}

void defineBlockMemory(ModuleOp module) {
  defineMemory(module, listFunction, "kolo.lists", listBytes, 8);
  defineMemory(module, keptFunction, "kolo.numbers", numKept * 8, 8);
  if (module.lookupSymbol(roomFunction))
    defineMemory(module, roomFunction, "kolo.rooms", mostTeams * teamRoomBytes, 16);
}

Value load(OpBuilder &builder, Location loc, Type type, Value base, int64_t offsetBytes) {
  return LLVM::LoadOp::create(builder, loc, type, advance(builder, loc, base, constantI64(builder, loc, offsetBytes)),
                              8);
}

Value loadEntry(OpBuilder &builder, Location loc, Type type, Value table, Value index) {
  Value offset = arith::MulIOp::create(builder, loc, index, constantI64(builder, loc, 8));
  return LLVM::LoadOp::create(builder, loc, type, advance(builder, loc, table, offset), 8);
}

Value loadPlace(OpBuilder &builder, Location loc, Value invocation, Value rank) {
  Value table =
      load(builder, loc, pointerType(builder), invocation, int64_t(offsetof(KoloDeviceNetworkInvocation, places)));
  Value offset = arith::MulIOp::create(builder, loc, rank, constantI64(builder, loc, sizeof(uint32_t)));
  Value place = LLVM::LoadOp::create(builder, loc, builder.getI32Type(), advance(builder, loc, table, offset), 4);
  return arith::ExtUIOp::create(builder, loc, builder.getI64Type(), place);
}

Value loadEntryNumber(OpBuilder &builder, Location loc, Value invocation, Value rank) {
  Value place = loadPlace(builder, loc, invocation, rank);
  Value here =
      load(builder, loc, builder.getI64Type(), invocation, int64_t(offsetof(KoloDeviceNetworkInvocation, numHere)));
  return arith::MinUIOp::create(builder, loc, place, here);
}

Value isNull(OpBuilder &builder, Location loc, Value address) {
  Value null = LLVM::ZeroOp::create(builder, loc, address.getType());
  return LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::eq, address, null);
}

Value call(OpBuilder &builder, Location loc, StringRef name, ValueRange arguments) {
  Operation *scope = builder.getInsertionBlock()->getParentOp();
  auto module = isa<ModuleOp>(scope) ? cast<ModuleOp>(scope) : scope->getParentOfType<ModuleOp>();
  auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(name);
  assert(function && "called before it is declared");
  auto made = LLVM::CallOp::create(builder, loc, function, arguments);
  return made->getNumResults() ? made.getResult() : Value();
}

void buildForLeader(OpBuilder &builder, Location loc, function_ref<void()> build) {
  Value isLeader = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, call(builder, loc, threadFunction),
                                         constantI64(builder, loc, 0));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isLeader).thenBlock());
  build();
}

} // namespace kolo::gpu
