// Blocks: a buffer of the caller whose blocks have counts and places of their own, as MPI's Allgatherv and Alltoallw
// describe it. Gives the block table that Kolo takes for it.
#pragma once

#include "Handles.h"

#include "kolo/runtime/Types.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kolo::mpi {

/// No block: the call does not use the buffer on this rank. Kolo counts in units: bytes of what moves, and elements of
/// what is combined.
class Blocks {
public:
  explicit Blocks(size_t number = 0, int64_t bytesOfUnit = 1);

  /// A block that moves: `count` elements of `type`, so many bytes behind `memory`.
  void add(const void *memory, MPI_Aint offset, int count, MPI_Datatype type);
  /// A block that is combined: `count` units.
  void addUnits(const void *memory, int64_t offset, int count);

  /// Whether MPI will refuse the counts or the datatypes.
  bool isWrong() const { return hasWrong; }
  /// Whether an element of some datatype has 2 GiB or more, which MPI_Pack does not take.
  bool isTooLarge() const { return hasTooLarge; }
  /// Whether MPI_IN_PLACE stands where it may not.
  bool isInPlace() const { return hasInPlace; }
  /// Whether Kolo cannot use the blocks where they lie: datatypes have gaps, or blocks are far from each other.
  bool mustPack() const;
  /// Whether two blocks have memory in common. MPI forbids it where blocks are written, and programs do it. For blocks
  /// that need no packing.
  bool overlapEachOther() const;
  /// Whether anything from the first block to the last one may be in both. For blocks that need no packing.
  bool overlaps(const Blocks &other) const { return low < other.high && other.low < high; }

  /// Of all blocks together.
  size_t dataBytes() const { return static_cast<size_t>(numUnits * unitBytes); }
  /// From the first block in memory to the end of the last one. For blocks that need no packing.
  std::byte *begin() const { return reinterpret_cast<std::byte *>(low); }
  size_t spanBytes() const { return high - low; }

  /// Takes a block out: it has no bytes here then.
  Blocks takeOut(int number);
  int64_t bytesOfBlock(int number) const { return blocks[static_cast<size_t>(number)].units * unitBytes; }

  /// The table of blocks where they lie, from `begin`, or of packed ones. It lives until the next call.
  runtime::BlockTable table(bool isPacked);

  /// They return MPI's codes. `owner`: the communicator of the call.
  int pack(std::byte *to, MPI_Comm owner) const;
  int unpack(const std::byte *from, MPI_Comm owner) const;
  /// From its only block to another's, which has as many bytes and may have another datatype.
  int copyTo(const Blocks &other) const;

private:
  struct Block {
    uintptr_t address = 0;
    int64_t units = 0;
    int count = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    bool isPlain = true; // its bytes follow each other
  };

  void append(const void *memory, const Block &block);
  /// Calls `each` for every block, with the place of its packed bytes. Stops at an error.
  template <class Each> int forEachBlock(Each each) const;

  int64_t unitBytes;
  std::vector<Block> blocks;
  std::vector<int64_t> counts, places;
  int64_t numUnits = 0;
  uintptr_t low = 0, high = 0; // of plain blocks that are not empty
  bool hasWrong = false, hasTooLarge = false, hasInPlace = false, isPlain = true;
};

} // namespace kolo::mpi
