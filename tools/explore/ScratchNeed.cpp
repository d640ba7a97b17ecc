#include "tools/explore/ScratchNeed.h"

#include "compiler/model/IndexEvaluator.h"

#include <algorithm>

using namespace mlir;

namespace kolo::tools {

/// Bytes of memory for a byte of data: there are two of each buffer but for scratch memory, used in turn.
static double memoryPerByte(BufferOp buffer) {
  switch (buffer.getRole()) {
  case BufferRole::Packets:
    return 2 * (buffer.getLl128() ? 128.0 / 120 : 2.0);
  case BufferRole::Published:
    return 2;
  default:
    return 1;
  }
}

FailureOr<ScratchNeed> ScratchNeed::of(ChoreographyOp choreography, ArrayRef<int64_t> sizes) {
  FailureOr<IndexEvaluator> evaluator = IndexEvaluator::create(choreography);
  if (failed(evaluator))
    return failure();
  evaluator->setMesh(sizes, /*rootNumber=*/0);
  ScratchNeed need;
  for (Operation &op : choreography.getBody().front()) {
    auto buffer = dyn_cast<BufferOp>(op);
    if (!buffer) {
      if (op.getNumRegions() == 0 && failed(evaluator->execute(&op)))
        return failure();
      continue;
    }
    if (buffer.getRole() == BufferRole::Input || buffer.getRole() == BufferRole::Output)
      continue;
    constexpr double unitBytes = 16; // a slot ends at a multiple of it, and may begin with less than that
    Memory memory{.blocks = 1, .perByte = memoryPerByte(buffer)};
    for (Value extent : buffer.getGrid().take_front(buffer.getBlocks()))
      memory.blocks *= double(evaluator->get(extent));
    if (buffer.getCut()) {
      memory.cut = double(std::max<int64_t>(1, evaluator->get(buffer.getCut())));
      memory.slotEnd = unitBytes;
    }
    need.memories.push_back(memory);
  }
  return need;
}

double ScratchNeed::bytes(double blockBytes) const {
  double total = 0;
  for (const Memory &memory : memories)
    total += memory.perByte * memory.blocks * (blockBytes / memory.cut + memory.slotEnd);
  return total;
}

} // namespace kolo::tools
