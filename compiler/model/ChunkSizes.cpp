#include "compiler/model/ChunkSizes.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

namespace kolo {

/// floor(index * total / numParts), rounded down to a multiple of the unit; `total` at the end. The product may exceed
/// 64 bits.
static int64_t cut(int64_t index, int64_t numParts, int64_t total, const CallSize &call) {
  if (index == numParts)
    return total;
  int64_t exact = index * (total / numParts) + index * (total % numParts) / numParts;
  return exact - exact % call.unit();
}

int64_t slotElements(int64_t chunksPerBlock, const CallSize &call) {
  int64_t alignment = call.unit();
  int64_t longest = int64_t(llvm::divideCeil(uint64_t(call.count), uint64_t(chunksPerBlock)));
  return int64_t(llvm::alignTo(uint64_t(longest + alignment - 1), uint64_t(alignment)));
}

int64_t bufferElements(const Grid &grid, const CallSize &call) {
  if (grid.isSlots)
    return grid.numChunks * slotElements(grid.chunksPerBlock, call);
  return grid.numChunks / grid.chunksPerBlock * call.count;
}

ElementRange chunkRange(const Grid &grid, int64_t chunk, const CallSize &call) {
  if (grid.isSlots) {
    int64_t size = slotElements(grid.chunksPerBlock, call);
    return {chunk * size, size};
  }
  int64_t block = chunk / grid.chunksPerBlock, index = chunk % grid.chunksPerBlock;
  int64_t begin = cut(index, grid.chunksPerBlock, call.count, call);
  return {block * call.count + begin, cut(index + 1, grid.chunksPerBlock, call.count, call) - begin};
}

ElementRange partRange(const ElementRange &chunk, int64_t chunksPerBlock, int64_t part, int64_t numParts,
                       const CallSize &call) {
  // Parts are cut by the size of a slot, so that they lie alike in chunks of different lengths.
  int64_t total = slotElements(chunksPerBlock, call);
  int64_t begin = std::min(cut(part, numParts, total, call), chunk.size);
  return {chunk.begin + begin, std::min(cut(part + 1, numParts, total, call), chunk.size) - begin};
}

PartSizes::PartSizes(const Grid &grid, const CallSize &call)
    : numChunks(grid.isSlots ? 1 : int32_t(grid.chunksPerBlock)) {
  const int64_t numParts = std::max(grid.numParts, 1);
  sizes.reserve(size_t(numParts * numChunks));
  for (int64_t part = 0; part < numParts; ++part)
    for (int64_t chunk = 0; chunk < numChunks; ++chunk)
      sizes.push_back(partRange(chunkRange(grid, chunk, call), grid.chunksPerBlock, part, numParts, call).size);
}

int64_t bytesMoved(const Tracer &tracer, const Trace &trace, const Event &event, const CallSize &call) {
  const OpInfo &info = tracer.program().ops[event.op];
  if (!info.isMove() && event.kind != EventKind::Divide)
    return 0;
  // A slot is as full as the chunk that it is paired with.
  bool isMeasuredAtSource = info.isMove() && tracer.grids()[event.destination.buffer].isSlots;
  const Box &box = isMeasuredAtSource ? event.source : event.destination;
  const Grid &grid = tracer.grids()[box.buffer];
  std::vector<int32_t> chunks;
  expandBox(trace, box, grid, chunks);
  int64_t elements = 0;
  for (int32_t chunk : chunks)
    elements +=
        partRange(chunkRange(grid, chunk, call), grid.chunksPerBlock, event.part, std::max(grid.numParts, 1), call)
            .size;
  return elements * call.elementBytes;
}

} // namespace kolo
