#include "Blocks.h"

#include "Packing.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

namespace kolo::mpi {
namespace {

// Kolo may reserve memory for a whole buffer, gaps included. Absolute addresses can be far from each other.
constexpr uintptr_t mostGapBytes = uintptr_t(1) << 30;

/// Calls `each` for parts that MPI_Pack takes: with a side, and its bytes from the first. Stops at an error.
template <class Each> int forEachPart(uintptr_t address, int count, MPI_Datatype type, Each each) {
  int sizeBytes = 0;
  MPI_Aint least = 0, extentBytes = 0;
  PMPI_Type_size(type, &sizeBytes);
  PMPI_Type_get_extent(type, &least, &extentBytes);
  const int most = INT_MAX / std::max(1, sizeBytes);
  for (int done = 0, number = 0; done < count; done += number) {
    number = std::min(most, count - done);
    const uintptr_t first = address + static_cast<uintptr_t>(MPI_Aint(done) * extentBytes);
    if (int code = each(Side{reinterpret_cast<void *>(first), number, type, 1}, int64_t(done) * sizeBytes);
        code != MPI_SUCCESS)
      return code;
  }
  return MPI_SUCCESS;
}

} // namespace

Blocks::Blocks(size_t number, int64_t bytesOfUnit) : unitBytes(bytesOfUnit) { blocks.reserve(number); }

void Blocks::append(const void *memory, const Block &block) {
  hasInPlace = hasInPlace || memory == MPI_IN_PLACE;
  isPlain = isPlain && block.isPlain;
  blocks.push_back(block);
  numUnits += block.units;
  if (!block.isPlain || block.units == 0)
    return;
  const uintptr_t end = block.address + static_cast<uintptr_t>(block.units * unitBytes);
  low = low == high ? block.address : std::min(low, block.address);
  high = std::max(high, end);
}

void Blocks::add(const void *memory, MPI_Aint offset, int count, MPI_Datatype type) {
  Block block = {reinterpret_cast<uintptr_t>(memory) + static_cast<uintptr_t>(offset), 0, count, type, true};
  const bool isWrong = count < 0 || (count > 0 && type == MPI_DATATYPE_NULL);
  const int64_t numBytes = count > 0 && !isWrong ? bytesOf(count, type) : 0;
  hasWrong = hasWrong || isWrong;
  hasTooLarge = hasTooLarge || numBytes < 0 || (count > 0 && numBytes / count > INT_MAX);
  block.units = std::max<int64_t>(numBytes, 0);
  block.isPlain = block.units == 0 || findBasicType(type);
  append(memory, block);
}

void Blocks::addUnits(const void *memory, int64_t offset, int count) {
  hasWrong = hasWrong || count < 0;
  const uintptr_t address = reinterpret_cast<uintptr_t>(memory) + static_cast<uintptr_t>(offset * unitBytes);
  append(memory, {address, std::max(count, 0), count, MPI_DATATYPE_NULL, true});
}

bool Blocks::mustPack() const { return !isPlain || spanBytes() > dataBytes() + mostGapBytes; }

bool Blocks::overlapEachOther() const {
  using Range = std::pair<uintptr_t, uintptr_t>;
  std::vector<Range> ranges;
  ranges.reserve(blocks.size());
  for (const Block &block : blocks)
    if (block.units != 0)
      ranges.emplace_back(block.address, block.address + static_cast<uintptr_t>(block.units * unitBytes));
  if (!std::ranges::is_sorted(ranges))
    std::ranges::sort(ranges);
  auto overlap = [](const Range &left, const Range &right) { return right.first < left.second; };
  return std::ranges::adjacent_find(ranges, overlap) != ranges.end();
}

Blocks Blocks::takeOut(int number) {
  Blocks taken(1, unitBytes), left(blocks.size(), unitBytes);
  for (const Block &block : blocks) {
    const bool isTaken = &block - blocks.data() == number;
    (isTaken ? taken : left).append(reinterpret_cast<const void *>(block.address), block);
    if (isTaken)
      left.append(nullptr, Block());
  }
  *this = std::move(left);
  return taken;
}

runtime::BlockTable Blocks::table(bool isPacked) {
  counts.clear();
  places.clear();
  int64_t next = 0;
  for (const Block &block : blocks) {
    counts.push_back(block.units);
    const int64_t place = block.units == 0 ? 0 : static_cast<int64_t>(block.address - low) / unitBytes;
    places.push_back(isPacked ? next : place);
    next += block.units;
  }
  return {counts, places};
}

template <class Each> int Blocks::forEachBlock(Each each) const {
  int64_t offset = 0;
  for (const Block &block : blocks) {
    const int64_t numBytes = block.units * unitBytes;
    if (int code = numBytes == 0 ? MPI_SUCCESS : each(block, offset); code != MPI_SUCCESS)
      return code;
    offset += numBytes;
  }
  return MPI_SUCCESS;
}

int Blocks::pack(std::byte *to, MPI_Comm owner) const {
  return forEachBlock([&](const Block &block, int64_t begin) {
    if (!block.isPlain)
      return forEachPart(block.address, block.count, block.type,
                         [&](const Side &part, int64_t offset) { return mpi::pack(part, to + begin + offset, owner); });
    std::memcpy(to + begin, reinterpret_cast<const void *>(block.address),
                static_cast<size_t>(block.units * unitBytes));
    return MPI_SUCCESS;
  });
}

int Blocks::unpack(const std::byte *from, MPI_Comm owner) const {
  return forEachBlock([&](const Block &block, int64_t begin) {
    if (!block.isPlain)
      return forEachPart(block.address, block.count, block.type, [&](const Side &part, int64_t offset) {
        return mpi::unpack(from + begin + offset, part, owner);
      });
    std::memcpy(reinterpret_cast<void *>(block.address), from + begin, static_cast<size_t>(block.units * unitBytes));
    return MPI_SUCCESS;
  });
}

/// As an all-to-all of this rank alone, for which MPI's libraries need no memory for a whole packed block.
int Blocks::copyTo(const Blocks &other) const {
  const Block &from = blocks.front(), &to = other.blocks.front();
  constexpr int displacement = 0;
  if (from.units == 0)
    return MPI_SUCCESS;
  return PMPI_Alltoallw(reinterpret_cast<const void *>(from.address), &from.count, &displacement, &from.type,
                        reinterpret_cast<void *>(to.address), &to.count, &displacement, &to.type, MPI_COMM_SELF);
}

} // namespace kolo::mpi
