// Choreographies that send along a packing of trees. Used by exploration. No MLIR here.  Every block is cut in as many
// pieces as a root has trees, one for each tree. What goes along edges of one level is one loop of the choreography,
// and so one phase of its pipeline. With enough slices, the trees of all levels are busy at the same time, and the
// links carry what the packing says. A reduction's loop first combines what has arrived from the level before. A round
// of the loop has one distance between sender and receiver; tables say what each rank does.
#pragma once

#include "tools/explore/TreePacking.h"

#include <kolo/dsl/Language.h>
#include <kolo/dsl/Registry.h>

namespace kolo::explore {

/// Pieces by round and rank: an entry belongs to round * ranks + coordinate.
struct PieceTable {
  std::vector<int64_t> distances; // by round, from the sender's coordinate to the receiver's; 0: no transfer
  std::vector<int64_t> blocks;    // whose block; -1: the rank does nothing in this round
  std::vector<int64_t> pieces;    // the first one
  std::vector<int64_t> counts;    // how many pieces

  size_t numRounds() const { return distances.size(); }
};

/// From the roots to all others: what goes along the edges of each level, in the order in which levels send.
struct TreeRounds {
  int64_t numRanks = 0, piecesPerBlock = 0;
  std::vector<PieceTable> levels;
};

/// Children of a rank in one tree have numbers from 0. What each of them sends arrives in memory of its own.
struct ChildrenTable {
  size_t child;
  bool isLeaf; // has no children itself, so that it sends its own contribution alone
  PieceTable table;
};

/// What ranks do when the children of a level have sent: they combine, and send on to their parents.
struct ReductionLevel {
  PieceTable own;                      // pieces that have arrived, to which the rank adds its own contribution
  std::vector<ChildrenTable> combines; // further pieces that have arrived
  std::vector<ChildrenTable> sends;
};

/// From all others to the roots, along the same links the other way, which must be as wide.
struct TreeReduction {
  int64_t numRanks = 0, piecesPerBlock = 0;
  size_t mostChildren = 0;
  std::vector<ReductionLevel> levels; // the first only sends, the last only combines, in the root
};

TreeRounds roundsOutward(const TreePacking &packing);
TreeReduction roundsInward(const TreePacking &packing);

/// Where pieces of blocks lie, the same on every rank: `[&](Selector block, Selector piece) { return out[{block,
/// piece}]; }`.
using PieceSlices = std::function<dsl::Slice(const dsl::Selector &block, const dsl::Selector &piece)>;

/// Every rank of the dimension starts with its own block in `own`, and ends with all other blocks in `slices`. Both may
/// be the same. Coordinate i is the packing's device i.
void treeAllGather(dsl::Choreography &c, const dsl::Dim &dim, const TreeRounds &outward, const PieceSlices &own,
                   const PieceSlices &slices, dsl::Location caller = dsl::Location::current());

/// Where a reduction finds contributions and leaves sums.
struct ReductionSlices {
  PieceSlices from;   // a rank's contributions to all blocks; empty: `sums` holds them
  PieceSlices sums;   // sums of other ranks' blocks
  PieceSlices result; // the sum of a rank's own block
  /// Memory for pieces that arrive while there is a sum or a contribution in their place: number 0 and so on.
  std::function<PieceSlices(size_t number)> arrivals;
};

/// Every rank of the dimension starts with its contribution to all blocks and ends with its own block, fully combined.
/// Senders push; receivers combine what has arrived.
void treeReduceScatter(dsl::Choreography &c, const dsl::Dim &dim, const TreeReduction &inward,
                       const ReductionSlices &slices, dsl::Location caller = dsl::Location::current());

/// A choreography on a mesh of the one dimension "rank". All-gather, reduce-scatter and all-reduce only.
dsl::Definition treeCollective(const std::string &name, dsl::CollectiveKind kind, const TreePacking &packing);

} // namespace kolo::explore
