// Choreographies that send along a packing of trees. Used by exploration. No MLIR here.
//
// Every block is cut in as many pieces as a root has trees, one for each tree. What goes along edges of one level is
// one loop of the choreography, and so one phase of its pipeline: with enough slices, the trees of all levels are busy
// at the same time, and the links carry what the packing says. A round of the loop has one distance between sender and
// receiver; tables say what each rank sends in it.
#pragma once

#include "compiler/explore/TreePacking.h"

#include <kolo/dsl/Language.h>
#include <kolo/dsl/Registry.h>

namespace kolo::explore {

/// What goes along the edges of one level. An entry of `blocks`, `pieces` and `counts` belongs to a round and a sender:
/// round * ranks + coordinate.
struct TreeLevel {
  std::vector<int64_t> distances; // by round, from the sender's coordinate to the receiver's
  std::vector<int64_t> blocks;    // whose block; -1: the rank sends nothing in this round
  std::vector<int64_t> pieces;    // the first one
  std::vector<int64_t> counts;    // how many pieces

  size_t numRounds() const { return distances.size(); }
};

struct TreeRounds {
  int64_t numRanks = 0, piecesPerBlock = 0;
  std::vector<TreeLevel> levels; // in the order in which they send
};

/// From the roots to all others.
TreeRounds roundsOutward(const TreePacking &packing);
/// From all others to the roots, along the same links the other way, which must be as wide.
TreeRounds roundsInward(const TreePacking &packing);

/// Where pieces of blocks lie, the same on every rank: `[&](Selector block, Selector piece) { return out[{block,
/// piece}]; }`.
using PieceSlices = std::function<dsl::Slice(const dsl::Selector &block, const dsl::Selector &piece)>;

/// Every rank of the dimension starts with its own block in `own`, and ends with all other blocks in `slices`. Both may
/// be the same. Coordinate i is the packing's device i.
void treeAllGather(dsl::Choreography &c, const dsl::Dim &dim, const TreeRounds &outward, const PieceSlices &own,
                   const PieceSlices &slices, dsl::Location caller = dsl::Location::current());
/// Every rank of the dimension starts with its contribution to all blocks and ends with its own block, fully combined.
void treeReduceScatter(dsl::Choreography &c, const dsl::Dim &dim, const TreeRounds &inward, const PieceSlices &slices,
                       dsl::Location caller = dsl::Location::current());

/// A choreography on a mesh of the one dimension "rank". All-gather, reduce-scatter and all-reduce only.
dsl::Definition treeCollective(const std::string &name, dsl::CollectiveKind kind, const TreePacking &packing);

} // namespace kolo::explore
