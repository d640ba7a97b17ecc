// How long chunks, slots and parts are in one call: the formulas of ir/README.md, "Buffers, chunks, slices", as
// numbers. Used by whatever asks how many bytes a program moves.
#pragma once

#include "compiler/model/Trace.h"

namespace kolo {

/// Sizes that are the same for all buffers of a call.
struct CallSize {
  int64_t count = 0;        // elements of a block, as the collective counts; not negative
  int64_t elementBytes = 1; // a divisor of 16
  bool isCoded = false;     // a buffer of the program has a codec

  /// Elements at whose multiples chunks and parts are cut.
  int64_t unit() const { return isCoded ? codec::granule : 16 / elementBytes; }
};

/// Elements [begin, begin + size) of a buffer.
struct ElementRange {
  int64_t begin = 0, size = 0;
  bool operator==(const ElementRange &) const = default;
};

/// Elements that one slot has room for: any chunk of a block that is cut into chunksPerBlock chunks.
int64_t slotElements(int64_t chunksPerBlock, const CallSize &call);

/// Elements of a whole buffer, on a rank that has it.
int64_t bufferElements(const Grid &grid, const CallSize &call);

/// Where a chunk lies in its buffer, blocks following each other; of slots: the whole slot.
ElementRange chunkRange(const Grid &grid, int64_t chunk, const CallSize &call);

/// Where part `part` of `numParts` of a chunk lies. chunksPerBlock is that of the chunk's block. Parts may be empty.
ElementRange partRange(const ElementRange &chunk, int64_t chunksPerBlock, int64_t part, int64_t numParts,
                       const CallSize &call);

/// How many elements the parts of a buffer's chunks have in one call: partRange of chunkRange, looked up.
class PartSizes {
public:
  PartSizes(const Grid &grid, const CallSize &call);
  int64_t of(int32_t chunk, int32_t part) const {
    return sizes[size_t(part) * size_t(numChunks) + size_t(chunk % numChunks)];
  }

private:
  int32_t numChunks; // whose sizes repeat
  std::vector<int64_t> sizes;
};

/// Bytes that an event of a tracer's trace moves, over all lanes of the rank; 0 for an event that moves nothing. A
/// division counts the bytes that it divides.
int64_t bytesMoved(const Tracer &tracer, const Trace &trace, const Event &event, const CallSize &call);

} // namespace kolo
