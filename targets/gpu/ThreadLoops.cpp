#include "targets/gpu/ThreadLoops.h"

#include "ir/IndexArithmetic.h"
#include "targets/gpu/DeviceFunctions.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace kolo::gpu {

Operation *onlyExchangeOf(scf::ForOp loop) {
  if (loop.getNumResults() != 0)
    return nullptr;
  Operation *exchange = nullptr;
  for (Operation &op : *loop.getBody()) {
    if (isa<SignalOp, WaitOp, MoveInterface>(op)) {
      if (exchange)
        return nullptr;
      exchange = &op;
    } else if (!isMemoryEffectFree(&op) || op.getNumRegions() != 0) {
      return nullptr;
    }
  }
  return exchange;
}

scf::ForOp createLoopByThread(const LoopLowering &lowering, scf::ForOp loop, Value first, Value end, ValueRange state) {
  auto &[builder, loc, mapping, lowerArithmetic] = lowering;
  Value step = mapping.lookup(loop.getStep());
  Value thread = toIndex(builder, loc, call(builder, loc, threadFunction));
  Value threads = toIndex(builder, loc, call(builder, loc, numThreadsFunction));
  Value begin = createAdd(builder, loc, first, createMul(builder, loc, thread, step));
  auto made = scf::ForOp::create(builder, loc, begin, end, createMul(builder, loc, threads, step), state);
  made->setAttr(byThreadAttribute, builder.getUnitAttr());
  mapping.map(loop.getInductionVar(), made.getInductionVar());
  builder.setInsertionPointToStart(made.getBody());
  for (Operation &op : *loop.getBody())
    if (!isa<SignalOp, WaitOp, MoveInterface, scf::YieldOp>(op))
      lowerArithmetic(op);
  return made;
}

} // namespace kolo::gpu
