// Where the chunks of a buffer lie: the arithmetic documented at kolo.buffer, written down directly.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace kolo::reference {

/// Elements [begin, begin + size).
struct Range {
  int64_t begin = 0, size = 0;
  bool operator==(const Range &) const = default;
};

// `unit` is how many elements 16 bytes are, or 1024 in a program with codecs.

/// First element of piece `index` when `count` elements are cut into `numParts`: index*count/numParts, rounded down
/// to a multiple of the unit; `count` when index is `numParts`.
int64_t cut(int64_t index, int64_t numParts, int64_t count, int64_t unit);

/// Elements from one slot to the next, for any piece of `count` elements that are cut into `numParts`.
int64_t slotSize(int64_t numParts, int64_t count, int64_t unit);

/// Part `part` of `numParts` of a chunk, whose slots have this size.
Range partOf(Range chunk, int64_t slotSize, int64_t part, int64_t numParts, int64_t unit);

struct Layout {
  std::vector<int64_t> grid; // extents, none negative
  int64_t numBlockDims = 0;  // the first grid dimensions enumerate blocks of `count` elements
  int64_t count = 0, unit = 16;
  std::optional<int64_t> slotCut = std::nullopt; // the grid is one of slots for chunks of blocks cut into so many

  int64_t numBlocks() const;      // or slots
  int64_t chunksPerBlock() const; // of slots: of the blocks whose chunks they hold
  int64_t slotSize() const { return reference::slotSize(chunksPerBlock(), count, unit); }
  int64_t blockSize() const { return slotCut ? slotSize() : count; } ///< Elements of a block, or of a slot.
  int64_t numElements() const { return numBlocks() * blockSize(); }
  Range chunk(int64_t number) const { return chunk(number, count); } // or slot, all of it
  /// Of a block of `length` elements, at most `count`, at the beginning of its place. Not for slots.
  Range chunk(int64_t number, int64_t length) const;
  int64_t blockOf(int64_t chunk) const { return chunk / chunksPerBlock(); } // not for slots
  /// Numbers of the chunks of a slice, row-major. Offsets wrap; 0 <= sizes[d] <= grid[d].
  std::vector<int64_t> chunksOf(const std::vector<int64_t> &offsets, const std::vector<int64_t> &sizes) const;

  bool operator==(const Layout &) const = default;
};

} // namespace kolo::reference
