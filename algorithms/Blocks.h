// Phases that several algorithms are made of. Each runs along one dimension of the mesh, side by side in all groups of
// ranks that differ in that dimension only; so hierarchical algorithms are compositions of them. A mistake in a phase
// names the line of its `caller` too.
#pragma once

#include <kolo/dsl/Language.h>

namespace kolo::algorithms {

using namespace kolo::dsl;

/// Where the blocks of a phase lie: one block per coordinate of the dimension that the phase runs along. A block may be
/// many chunks: `[&](Selector i) { return out[{i, all}]; }`. A buffer with a one-dimensional grid is its own blocks.
class Blocks {
public:
  Blocks(const Buffer &buffer) : slice([buffer](const Selector &which) { return buffer[which]; }) {}
  template <std::invocable<Selector> Function> Blocks(Function function) : slice(std::move(function)) {}

  /// The slice of one block, or of a range of blocks.
  Slice operator()(const Selector &which) const { return slice(which); }

private:
  std::function<Slice(const Selector &)> slice;
};

/// The smallest k with pow2(k) >= value, for value >= 1.
Index ceilLog2(const Index &value);

// All-gathers: every rank starts with its own block and ends with all blocks, each at the same place everywhere.

/// N-1 steps, any N. Blocks travel upwards, or, in direction -1, downwards.
void ringAllGather(Choreography &c, const Dim &dim, const Blocks &blocks, int direction = 1,
                   Location caller = Location::current());
/// log2 N steps, N a power of two.
void recursiveDoublingAllGather(Choreography &c, const Dim &dim, const Blocks &blocks,
                                Location caller = Location::current());
/// ceil(log2 N) steps, any N. The blocks of a step wrap around the end of the dimension, so nothing is rotated.
void bruckAllGather(Choreography &c, const Dim &dim, const Blocks &blocks, Location caller = Location::current());
/// One step, any N.
void allPairsAllGather(Choreography &c, const Dim &dim, const Blocks &blocks, Location caller = Location::current());

// Reduce-scatters: every rank starts with its contribution to all blocks and ends with its own block, fully combined.
// The other blocks are left with partial results.

/// N-1 steps, any N. Blocks travel upwards, or, in direction -1, downwards.
void ringReduceScatter(Choreography &c, const Dim &dim, const Blocks &blocks, int direction = 1,
                       Location caller = Location::current());
/// log2 N steps, N a power of two.
void recursiveHalvingReduceScatter(Choreography &c, const Dim &dim, const Blocks &blocks,
                                   Location caller = Location::current());
/// One step, any N. Reads `from`, combines into the receiver's own block in `into`, which must hold its contribution.
void allPairsReduceScatter(Choreography &c, const Dim &dim, const Blocks &from, const Blocks &into,
                           Location caller = Location::current());

// The same by pushes: data arrives in slots of its receiver, who combines it from there. A slot holds a block: see
// Choreography::slots.

/// N-1 steps, any N. What step s receives arrives in slot s; with fewer slots than steps, they are used in turn. Blocks
/// travel upwards, or, in direction -1, downwards.
void slottedRingReduceScatter(Choreography &c, const Dim &dim, const Blocks &blocks, const Blocks &slots,
                              int direction = 1, Location caller = Location::current());
/// One step, any N. What comes from coordinate i arrives in slot i. Else as allPairsReduceScatter.
void slottedAllPairsReduceScatter(Choreography &c, const Dim &dim, const Blocks &from, const Blocks &into,
                                  const Blocks &slots, Location caller = Location::current());

/// A binomial tree along one dimension, rooted at the collective's root, for any number of ranks. A rank's distance
/// counts from the root upwards, wrapping around. At reach 2^k the parents are at multiples of 2^(k+1), and a parent's
/// child is 2^k further on. The child's subtree begins with the child, and has 2^k ranks or as many as there are.
class BinomialTree {
public:
  BinomialTree(const Choreography &c, const Dim &dim);

  const Index &numRounds() const { return rounds; }                                   ///< Number of different reaches.
  Index reachUpwards(const Index &round) const { return pow2(round); }                ///< Leaves first: 1, 2, 4, ...
  Index reachDownwards(const Index &round) const { return pow2(rounds - 1 - round); } ///< Root first: ..., 4, 2, 1.

  Condition isRoot() const { return distance == 0; }
  Condition isParent(const Index &reach) const; ///< Whether this rank has a child at this reach.
  Condition isChild(const Index &reach) const;  ///< Whether this rank's parent is at this reach.
  Condition isChildOfRoot(const Index &reach) const { return distance == reach; }

  Rank child(const Index &reach) const { return me.next(dim, reach); }
  Rank parent(const Index &reach) const { return me.next(dim, 0 - reach); }

  Selector subtree(const Index &reach) const;        ///< For a child: the coordinates in its own subtree.
  Selector subtreeOfChild(const Index &reach) const; ///< For a parent: the coordinates in that child's subtree.

private:
  Dim dim;
  Rank me;
  Index distance, rounds;
};

} // namespace kolo::algorithms
