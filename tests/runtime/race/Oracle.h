// What a call of a collective reads and gives, straight from the definition of each collective, for the sum of small
// integers, which is exact in every type. Independent of the compiler and of its reference.
#pragma once

#include "kolo/runtime/Plugin.h"

#include <cstdint>
#include <vector>

namespace kolo::race {

/// One collective call by its shape.
struct CallShape {
  runtime::CollectiveKind kind;
  std::vector<int64_t> mesh; // sizes, slowest dimension first
  std::vector<int> groupDims;
  int64_t count = 0;
  int64_t root = 0;       // inside the group
  bool hasTables = false; // blocks have counts of their own, none above `count`, and follow each other

  int numRanks() const;
  int groupSize() const;
  /// Elements of the block that one member of a group gives to another one.
  int64_t blockCount(int64_t giver, int64_t taker) const;
  /// The block tables of the rank's input or output.
  std::vector<int64_t> counts(size_t role, int rank) const;
  std::vector<int64_t> places(size_t role, int rank) const;
  bool isRooted() const;
  std::vector<int64_t> coordinates(int rank) const;
  /// The rank's number inside its group.
  int groupRank(int rank) const;
  bool isRoot(int rank) const { return groupRank(rank) == root; }

  /// Elements that the rank's buffers have; 0 where the collective does not use them on this rank.
  int64_t inputElements(int rank) const;
  int64_t outputElements(int rank) const;
  /// Where the input lies inside the output in an in-place call, in elements; negative when the output lies inside the
  /// input.
  int64_t inPlaceOffset(int rank) const;

  /// The value of the rank's input in the `number`-th call.
  static int32_t input(int rank, int64_t index, int number);
  /// What belongs in the rank's output then.
  std::vector<int32_t> output(int rank, int number) const;

private:
  bool hasBlocks(size_t role) const;
  int64_t elements(size_t role, int rank) const;
  int64_t placeInInput(int64_t giver, int64_t taker) const;
  /// The ranks of `rank`'s group, by their number inside of it.
  std::vector<int> members(int rank) const;
};

} // namespace kolo::race
