// BlockTables: the counts and places of a call whose blocks differ in length, checked, completed, and compared between
// ranks.
#pragma once

#include "call/Call.h"

#include <array>
#include <memory>
#include <vector>

namespace kolo::runtime {

/// Copies the tables of a call that has its mesh, its program and its extents. Sets the sizes of its buffers, and its
/// key but for `count`. Where the caller gave no places, blocks follow each other. InvalidArgument.
Status takeTables(const BlockTables &given, const CallArguments &arguments, Call &call);

/// Whether any block that one rank gives is as long as another rank takes. Where the taker has a list of its output,
/// the giver must have landing rows. `digests` are those of all ranks.
bool areCountsAlike(std::span<const CountDigests> digests);

/// Some blocks of all ranks, by the distance between their two ranks in the group, and by the rank that gives them.
struct BlockRange {
  int64_t firstDistance = 0, endDistance = 0;
  int firstGiver = 0, endGiver = 0;
};
/// What a rank gives and takes of these blocks. Summed over all ranks, both are equal if the blocks are alike on both
/// sides.
CountDigests digestsIn(const Call &call, int rank, const BlockRange &range);
/// Of a range of one distance and one giver: numbers for `compareBlock`, 0 where this rank is not the giver or taker.
std::array<int64_t, 2> countsOfBlock(const Call &call, int rank, const BlockRange &range);
/// Mismatch, if these sums over all ranks, of countsOfBlock, have two different numbers for the block.
Status compareBlock(const Call &call, const BlockRange &range, const std::array<int64_t, 2> &counts);

/// Numbers for `compareCounts`, of two blocks of a rank. It gives one to the rank that is `distance` ranks behind it in
/// its group, and takes the other from the one as far before it.
std::array<int64_t, 2> countsAtDistance(const Call &call, int rank, int64_t distance);
/// How many distances there are.
int64_t numDistances(const Call &call);
/// Mismatch, if `all`, by rank, what countsAtDistance gave for this distance, has two different numbers for one block.
Status compareCounts(const Call &call, std::span<const std::array<int64_t, 2>> all, int64_t distance);

} // namespace kolo::runtime
