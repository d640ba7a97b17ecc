// Chunk boundaries and the chunks of a slice.
#include "ir/reference/Layout.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace kolo::reference {

int64_t cut(int64_t index, int64_t numParts, int64_t count, int64_t unit) {
  if (index == numParts)
    return count;
  // index*count may not fit 64 bits; count = quotient*numParts + remainder keeps the products small.
  int64_t exact = index * (count / numParts) + index * (count % numParts) / numParts;
  return exact - exact % unit;
}

int64_t slotSize(int64_t numParts, int64_t count, int64_t unit) {
  numParts = std::max<int64_t>(numParts, 1);
  int64_t quotient = count / numParts + (count % numParts != 0);
  return (quotient + 2 * (unit - 1)) / unit * unit;
}

Range partOf(Range chunk, int64_t slotSize, int64_t part, int64_t numParts, int64_t unit) {
  int64_t begin = std::min(chunk.size, cut(part, numParts, slotSize, unit));
  return {chunk.begin + begin, std::min(chunk.size, cut(part + 1, numParts, slotSize, unit)) - begin};
}

int64_t Layout::numBlocks() const {
  return std::accumulate(grid.begin(), grid.begin() + numBlockDims, int64_t(1), std::multiplies<>());
}

int64_t Layout::chunksPerBlock() const {
  if (slotCut)
    return *slotCut;
  return std::accumulate(grid.begin() + numBlockDims, grid.end(), int64_t(1), std::multiplies<>());
}

Range Layout::chunk(int64_t number, int64_t length) const {
  if (slotCut)
    return {number * slotSize(), slotSize()};
  int64_t inBlock = number % chunksPerBlock(), begin = cut(inBlock, chunksPerBlock(), length, unit);
  return {blockOf(number) * count + begin, cut(inBlock + 1, chunksPerBlock(), length, unit) - begin};
}

std::vector<int64_t> Layout::chunksOf(const std::vector<int64_t> &offsets, const std::vector<int64_t> &sizes) const {
  std::vector<int64_t> chunks = {0};
  for (size_t dim = 0; dim < grid.size(); ++dim) {
    std::vector<int64_t> longer;
    for (int64_t prefix : chunks)
      for (int64_t step = 0; step < sizes[dim]; ++step) {
        int64_t first = (offsets[dim] % grid[dim] + grid[dim]) % grid[dim];
        longer.push_back(prefix * grid[dim] + (first + step) % grid[dim]);
      }
    chunks = std::move(longer);
  }
  return chunks;
}

} // namespace kolo::reference
