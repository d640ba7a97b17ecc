// The block's list of packets that go to several peers, or come from them, whatever the format.
#include "targets/gpu/ReceiveFunctions.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo::gpu {

ReceiveFunctions::Entry ReceiveFunctions::entryAt(Value index) {
  Value entry = at(list, mul(index, constant(packetEntryBytes)));
  auto word = [&](Type type, int64_t number) -> Value {
    return LLVM::LoadOp::create(builder, loc, type, at(entry, constant(number * 8)), 8);
  };
  return {word(pointer, 0), word(pointer, 1), toIndex(builder, loc, word(i64, 2))};
}

/// As many as are in flight at once. Past the end, the last one again.
SmallVector<ReceiveFunctions::Entry> ReceiveFunctions::batchFrom(Value first) {
  SmallVector<Entry> batch;
  Value last = createSub(builder, loc, numEntries, constant(1));
  for (int64_t i = 0; i < peersInFlight; ++i)
    batch.push_back(entryAt(min(add(first, constant(i)), last)));
  return batch;
}

SmallVector<Value>
ReceiveFunctions::forEachBatch(ValueRange state,
                               function_ref<SmallVector<Value>(Value first, ValueRange state)> build) {
  OpBuilder::InsertionGuard guard(builder);
  auto loop = scf::ForOp::create(builder, loc, constant(0), numEntries, constant(peersInFlight), state);
  builder.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> next = build(loop.getInductionVar(), loop.getRegionIterArgs());
  builder.setInsertionPointToEnd(loop.getBody());
  scf::YieldOp::create(builder, loc, next);
  return llvm::to_vector_of<Value>(loop.getResults());
}

/// One after the other, until one fails.
Value ReceiveFunctions::forEachUnlessFailed(Value status, function_ref<Value(const Entry &entry)> build) {
  OpBuilder::InsertionGuard guard(builder);
  auto loop = scf::ForOp::create(builder, loc, constant(0), numEntries, constant(1), ValueRange{status});
  builder.setInsertionPointToStart(loop.getBody());
  Value before = loop.getRegionIterArg(0);
  Value isFailed = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, before, code(KOLO_DEVICE_OK));
  auto next = scf::IfOp::create(builder, loc, TypeRange(i32), isFailed, /*withElseRegion=*/true);
  scf::YieldOp::create(builder, loc, next.getResult(0));
  builder.setInsertionPointToStart(next.thenBlock());
  scf::YieldOp::create(builder, loc, before);
  builder.setInsertionPointToStart(next.elseBlock());
  scf::YieldOp::create(builder, loc, build(entryAt(loop.getInductionVar())));
  return loop.getResult(0);
}

void ReceiveFunctions::startOfAll(LLVM::LLVMFuncOp made, unsigned first) {
  function = made;
  list = function.getArgument(first), numEntries = toIndex(builder, loc, function.getArgument(first + 1));
  isOdd = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, function.getArgument(first + 2),
                                constantI64(builder, loc, 0));
}

void ReceiveFunctions::startReceivingAll(StringRef name, bool isReduce) {
  SmallVector<Type> types = {pointer, i64, i64, pointerType(builder, blockSpace), i64, i64};
  if (isReduce)
    types.append(2, i64);
  startOfAll(createFunction(builder, module, name, i64, types, Inlining::Never), 3);
  invocation = function.getArgument(0), sequence = function.getArgument(1), statement = function.getArgument(2);
}

} // namespace kolo::gpu
