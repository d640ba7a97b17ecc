#include "targets/gpu/LineUnits.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace kolo::gpu {

void LineUnits::startThreads() {
  Value thread = toIndex(builder, loc, call(builder, loc, threadFunction));
  group = div(thread, threadsPerLine), place = arith::RemUIOp::create(builder, loc, thread, constant(threadsPerLine));
  numGroups = div(toIndex(builder, loc, call(builder, loc, numThreadsFunction)), threadsPerLine);
  isLast = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, place, constant(threadsPerLine - 1));
}

Value LineUnits::forLines(Value next, Value end, Value step, int64_t mostAtOnce, Value status, BuildLines build) {
  for (int64_t atOnce = mostAtOnce; atOnce > 0; atOnce = atOnce > 1) {
    OpBuilder::InsertionGuard guard(builder);
    Value last = createSub(builder, loc, end, mul(step, constant(atOnce - 1)));
    Value stride = mul(step, constant(atOnce));
    auto loop = scf::ForOp::create(builder, loc, next, last, stride, ValueRange{status, next});
    builder.setInsertionPointToStart(loop.getBody());
    SmallVector<Value> numbers = {loop.getInductionVar()};
    while (int64_t(numbers.size()) < atOnce)
      numbers.push_back(add(numbers.back(), step));
    Value after = build(numbers, loop.getRegionIterArg(0));
    builder.setInsertionPointToEnd(loop.getBody());
    scf::YieldOp::create(builder, loc, ValueRange{after, add(loop.getInductionVar(), stride)});
    status = loop.getResult(0), next = loop.getResult(1);
  }
  return status;
}

ReceiveFunctions::Polled LineUnits::pollLines(ArrayRef<Value> parts, Value status) {
  auto read = [&]() -> Attempt {
    Attempt attempt{{}, boolean(true)};
    for (Value address : parts) {
      Value part = call(builder, loc, loadLineFunction, {address});
      for (int64_t half : {0, 1})
        attempt.data.push_back(LLVM::ExtractValueOp::create(builder, loc, part, half));
    }
    Value wanted = arith::TruncIOp::create(builder, loc, i32, sequence);
    for (size_t i = 0; i < parts.size(); ++i) {
      Value found = fromLast(arith::TruncIOp::create(builder, loc, i32, sequenceIn(attempt.data[2 * i + 1])));
      Value isThere = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, found, wanted);
      attempt.areThere = arith::AndIOp::create(builder, loc, attempt.areThere, isThere);
    }
    return attempt;
  };
  auto giveUp = [&](Value turn, Value since) -> Patience {
    auto own = scf::IfOp::create(builder, loc, TypeRange{i32, i64}, isLast, /*withElseRegion=*/true);
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(own.thenBlock());
      Patience left = loseOrKeepPatience(builder, loc, invocation, turn, since, 32 / threadsPerLine);
      scf::YieldOp::create(builder, loc, ValueRange{left.code, left.since});
      builder.setInsertionPointToStart(own.elseBlock());
      scf::YieldOp::create(builder, loc, ValueRange{code(KOLO_DEVICE_OK), since});
    }
    return {fromLast(own.getResult(0)), own.getResult(1)};
  };
  return poll(SmallVector<Type>(2 * parts.size(), i64), status, read, giveUp);
}

void LineUnits::storeLine(Value part, const Halves &data, Value word) {
  Value high = arith::SelectOp::create(builder, loc, isLast, word, data.high);
  call(builder, loc, storeLineFunction, {part, data.low, high});
}

Value LineUnits::vectorOf(Value half, Type stored) {
  auto type = VectorType::get({halfBytes * 8 / stored.getIntOrFloatBitWidth()}, stored);
  Value vector = vector::FromElementsOp::create(builder, loc, VectorType::get({1}, i64), half);
  return vector::BitCastOp::create(builder, loc, type, vector);
}

} // namespace kolo::gpu
