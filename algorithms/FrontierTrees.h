// Phases for nodes of 8 devices that are wired as Frontier's: along trees that are packed into the links of a node, so
// that all links are busy. On other nodes, all pairs.
#pragma once

#include "algorithms/Blocks.h"

namespace kolo::algorithms {

/// Pieces that a block is cut in, one for each of the trees that begin at a device.
inline constexpr int64_t numFrontierTrees = 5;
/// Rounds in which all pieces travel.
inline constexpr int64_t numFrontierRounds = 18;
/// Rounds on the way back in which pieces arrive at devices that have a sum already.
inline constexpr int64_t numFrontierSumRounds = 11;

/// Where pieces of blocks lie: as Blocks, `[&](Selector block, Selector piece) { return out[{block, piece}]; }`.
using BlockPieces = std::function<Slice(const Selector &block, const Selector &piece)>;

/// Every rank starts with its own block and ends with all blocks, each at the same place everywhere.
void frontierTreesAllGather(Choreography &c, const Dim &dim, const BlockPieces &pieces,
                            Location caller = Location::current());
/// Every rank starts with its contribution to all blocks in `own` and ends with its own block in `sums`, fully
/// combined. Along the same trees, backwards. The first pieces that arrive lie in `sums`, where the rank adds its
/// contribution; all others wait in the slots of their round, as `slots(round, piece)` gives them, of
/// numFrontierSumRounds rounds. Without `own`, contributions are in `sums`, and all pieces wait in slots, of
/// numFrontierRounds rounds.
void frontierTreesReduceScatter(Choreography &c, const Dim &dim, const BlockPieces &own, const BlockPieces &sums,
                                const BlockPieces &slots, Location caller = Location::current());

} // namespace kolo::algorithms
