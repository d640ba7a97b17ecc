#include "targets/gpu/PacketUnits.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace kolo::gpu {

Value PacketUnits::forUnits(Value begin, Value end, Value status, function_ref<Value(Value unit, Value status)> build) {
  OpBuilder::InsertionGuard guard(builder);
  Value thread = toIndex(builder, loc, call(builder, loc, threadFunction));
  Value threads = toIndex(builder, loc, call(builder, loc, numThreadsFunction));
  auto loop = scf::ForOp::create(builder, loc, add(begin, thread), end, threads, ValueRange{status});
  builder.setInsertionPointToStart(loop.getBody());
  Value next = build(loop.getInductionVar(), loop.getRegionIterArg(0));
  builder.setInsertionPointToEnd(loop.getBody());
  scf::YieldOp::create(builder, loc, next);
  return loop.getResult(0);
}

void PacketUnits::storePacket(Value packets, Value number, Value data) {
  Value packet = arith::OrIOp::create(builder, loc, arith::ExtUIOp::create(builder, loc, i64, data), wordOf(sequence));
  LLVM::StoreOp::create(builder, loc, packet, packetAt(packets, number), packetBytes, false, false, false,
                        LLVM::AtomicOrdering::monotonic, "");
}

Value PacketUnits::loadVector(Value memory, Value unit, int64_t alignment) {
  return LLVM::LoadOp::create(builder, loc, VectorType::get({packetsPerVector}, i32),
                              at(memory, mul(unit, constant(vectorBytes))), unsigned(alignment));
}

void PacketUnits::storeVector(Value packets, Value unit, Value vector) {
  Value first = mul(unit, constant(packetsPerVector));
  for (int64_t i = 0; i < packetsPerVector; ++i)
    storePacket(packets, add(first, constant(i)), vector::ExtractOp::create(builder, loc, vector, i));
}

PacketUnits::PolledVectors PacketUnits::pollPackets(ArrayRef<Value> first, int64_t numPackets, Value status) {
  auto vectorType = VectorType::get({numPackets}, i32);
  auto read = [&]() -> Attempt {
    SmallVector<Value> packets, data;
    for (Value begin : first)
      for (int64_t i = 0; i < numPackets; ++i)
        packets.push_back(LLVM::LoadOp::create(builder, loc, i64, packetAt(begin, constant(i)), packetBytes, false,
                                               false, false, false, LLVM::AtomicOrdering::monotonic, ""));
    Value areThere = boolean(true);
    for (Value packet : packets) {
      Value isThere = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, sequenceIn(packet), sequence);
      areThere = arith::AndIOp::create(builder, loc, areThere, isThere);
      data.push_back(arith::TruncIOp::create(builder, loc, i32, packet));
    }
    Attempt attempt{{}, areThere};
    for (size_t i = 0; i < first.size(); ++i)
      attempt.data.push_back(vector::FromElementsOp::create(
          builder, loc, vectorType, ArrayRef(data).slice(i * size_t(numPackets), size_t(numPackets))));
    return attempt;
  };
  Polled polled = poll(SmallVector<Type>(first.size(), vectorType), status, read, [&](Value turn, Value since) {
    return loseOrKeepPatience(builder, loc, invocation, turn, since, /*pollersPerWarp=*/32);
  });
  return {polled.data, polled.status};
}

} // namespace kolo::gpu
