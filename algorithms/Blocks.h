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

// Scans: every rank ends with a combination of what the ranks below it along the dimension have.

inline constexpr int numChainPieces = 16;
/// N + 14 steps, any N. In each, `statements` send one of the pieces of buffers that are cut into `numChainPieces` to
/// the next rank, if there is one. It has received that piece in the step before.
void passUp(Choreography &c, const Dim &dim, const std::function<void(const Index &piece)> &statements,
            Location caller = Location::current());
/// ceil(log2(N - first)) steps, any N. `sums` holds something on all ranks from coordinate `first` on, which scan it.
void recursiveDoublingScan(Choreography &c, const Dim &dim, int first, const Buffer &sums,
                           Location caller = Location::current());
/// One step, any N. Combines, at all coordinates but 0, what is in `from` at those below, in any order, into `into`.
void combineLower(Choreography &c, const Dim &dim, const Buffer &from, const Buffer &into,
                  Location caller = Location::current());

/// Whether a dimension has a power of two of ranks.
Condition isPowerOfTwo(const Dim &dim);

/// The butterfly of Swing and of Bine trees, along one dimension of 2^k ranks. In step s, every even coordinate
/// exchanges with the one that is distance(s) further on, and every odd one with that so far back. The distances are
/// 1, -1, 3, -5, 11, ...: two thirds of those of a binomial butterfly, on average. Coordinates count from `origin` on,
/// upwards or, in direction -1, downwards.
class AlternatingButterfly {
public:
  AlternatingButterfly(const Choreography &c, const Dim &dim, int direction = 1, const Index &origin = 0);

  const Index &numSteps() const { return steps; }
  /// Of a rank, as the butterfly counts.
  Index coordinate(const Rank &rank) const { return direction * (rank[dim] - origin) % dim.size(); }
  /// The number of a coordinate's own block. Blocks are numbered so that all of `held` are one range.
  Index blockOf(const Index &coordinate) const;
  /// The blocks that a rank is left with after so many steps of a reduce-scatter.
  Selector held(const Rank &rank, const Index &numSteps) const;
  /// Statements that send to a rank's peer of the step: those of even coordinates, then those of odd ones.
  void exchange(Choreography &c, const Index &step, const std::function<void(const Rank &peer)> &statements) const;

private:
  Dim dim;
  Rank me;
  int direction;
  Index origin, steps;
};

/// log2 N steps, N a power of two. Near peers exchange most. Leaves a rank's own block, by the butterfly's numbers.
void alternatingReduceScatter(Choreography &c, const AlternatingButterfly &butterfly, const Blocks &blocks,
                              Location caller = Location::current());
/// The same, back.
void alternatingAllGather(Choreography &c, const AlternatingButterfly &butterfly, const Blocks &blocks,
                          Location caller = Location::current());

/// Groups of recursive multiplying along one dimension. In step i, the ranks that differ in digit i of their coordinate
/// alone, to the base `radix`, are a group. The last digit may have fewer values.
class MultiplyingGroups {
public:
  /// Coordinates count from `origin` on. Requires that the number of ranks is radix^k or a multiple of it below
  /// radix^(k+1).
  MultiplyingGroups(Choreography &c, const Dim &dim, int radix, const Index &origin = 0,
                    Location caller = Location::current());

  const Index &numSteps() const { return steps; }
  const Index &coordinate() const { return own; }
  Index stride(const Index &step) const { return pow(radix, step); }                    ///< Between a group's ranks.
  Index size(const Index &step) const { return min(radix, dim.size() / stride(step)); } ///< Ranks of a group.
  Index digit(const Index &step) const { return own / stride(step) % size(step); }      ///< Of this rank.
  /// The coordinates that have brought their blocks together before a step.
  Selector gathered(const Index &step) const { return range(own / stride(step) * stride(step), stride(step)); }
  /// Statements that send to every other rank of the group.
  void exchange(Choreography &c, const Index &step, const std::function<void(const Rank &peer)> &statements) const;

private:
  Dim dim;
  Rank me;
  int radix;
  Index own, steps;
};

/// Steps as there are digits. A block for each of the groups' coordinates.
void multiplyingAllGather(Choreography &c, const MultiplyingGroups &groups, const Blocks &blocks,
                          Location caller = Location::current());

/// A binary tree of labels 1 to `size`, in order: a node's smaller labels are on one side of it, and its larger ones on
/// the other. Nodes of odd labels are leaves. A node of label b * odd, b a power of two, is on level log2(b).
class InOrderTree {
public:
  InOrderTree(const Choreography &c, const Dim &dim, const std::function<Index(const Rank &)> &label, const Index &size)
      : dim(dim), me(c.rank()), labelOf(label), size(max(size, 1)) {}

  Index numLevels() const { return log2(size); }  ///< Below the root.
  Index root() const { return pow2(log2(size)); } ///< Its label.
  Index label(const Rank &rank) const { return labelOf(rank); }

  /// Statements that send along all edges between a level and the parents of its nodes: first those of nodes whose
  /// parent's label is larger, then the others. Upwards children send, downwards parents do.
  void sendUp(Choreography &c, const Index &level, const std::function<void(const Rank &parent)> &statements) const;
  void sendDown(Choreography &c, const Index &level, const std::function<void(const Rank &child)> &statements) const;

private:
  Condition isBelowLarger(const Index &label, const Index &level) const;
  Condition isBelowSmaller(const Index &label, const Index &level) const;

  Dim dim;
  Rank me;
  std::function<Index(const Rank &)> labelOf;
  Index size;
};

/// How PAT goes through the trees of N roots, which are one binomial tree, shifted. A rank that is x behind a root, x =
/// high * numLow + low, gets its block from the rank at x without its lowest bit. Trees of different `high` send
/// together, at most `aggregate` blocks; the values of `low` follow each other.
class AggregatedTrees {
public:
  /// `aggregate`: a power of two.
  AggregatedTrees(const Dim &dim, int aggregate);

  Index numLow() const { return low; }          ///< A power of two.
  Index numHigh() const { return numWith(0); }  ///< At most `aggregate`.
  Index numLevels() const { return log2(low); } ///< Of low parts: of their lowest bits.
  /// How many values of `high` a low part goes with.
  Index numWith(const Index &lowPart) const { return (ranks - lowPart + low - 1) / low; }
  static Index lowestBit(const Index &value) { return ((value ^ (value - 1)) + 1) / 2; }
  /// Of a low part: that of its lowest bit; of 0, the number of levels.
  Index level(const Index &lowPart) const { return log2(lowestBit(lowPart + low)); }

private:
  Index ranks, low;
};

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
