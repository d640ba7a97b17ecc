// Phases for nodes of 8 devices that are wired as Frontier's: along trees that are packed into the links of a node, so
// that all links are busy. On other nodes, all pairs.
#pragma once

#include "algorithms/Blocks.h"

namespace kolo::algorithms {

/// Pieces that a block is cut in, one for each of the trees that begin at a device.
inline constexpr int64_t numFrontierTrees = 5;
/// Rounds in which all pieces travel.
inline constexpr int64_t numFrontierRounds = 18;

/// Where pieces of blocks lie: as Blocks, `[&](Selector block, Selector piece) { return out[{block, piece}]; }`.
using BlockPieces = std::function<Slice(const Selector &block, const Selector &piece)>;

/// Every rank starts with its own block and ends with all blocks, each at the same place everywhere.
void frontierTreesAllGather(Choreography &c, const Dim &dim, const BlockPieces &pieces,
                            Location caller = Location::current());
/// Every rank starts with its contribution to all blocks and ends with its own block, fully combined. Along the same
/// trees, backwards: what arrives in a round waits in the slots of that round, as `slots(round, piece)` gives them.
/// There are numFrontierRounds rounds.
void frontierTreesReduceScatter(Choreography &c, const Dim &dim, const BlockPieces &pieces, const BlockPieces &slots,
                                Location caller = Location::current());

} // namespace kolo::algorithms
