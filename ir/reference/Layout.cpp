// Chunk boundaries and the chunks of a slice.
#include "ir/reference/Layout.h"

#include <functional>
#include <numeric>

namespace kolo::reference {

int64_t cut(int64_t index, int64_t numPieces, int64_t count, int64_t elementBytes) {
  if (index == numPieces)
    return count;
  // index*count may not fit 64 bits; count = quotient*numPieces + remainder keeps the products small.
  int64_t exact = index * (count / numPieces) + index * (count % numPieces) / numPieces;
  return exact - exact % (16 / elementBytes);
}

Range partOf(Range range, int64_t part, int64_t numParts, int64_t elementBytes) {
  int64_t begin = cut(part, numParts, range.size, elementBytes);
  return {range.begin + begin, cut(part + 1, numParts, range.size, elementBytes) - begin};
}

int64_t Layout::numBlocks() const {
  return std::accumulate(grid.begin(), grid.begin() + numBlockDims, int64_t(1), std::multiplies<>());
}

int64_t Layout::chunksPerBlock() const {
  return std::accumulate(grid.begin() + numBlockDims, grid.end(), int64_t(1), std::multiplies<>());
}

Range Layout::chunk(int64_t number) const {
  int64_t block = number / chunksPerBlock(), inBlock = number % chunksPerBlock();
  return partOf({block * count, count}, inBlock, chunksPerBlock(), elementBytes);
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
