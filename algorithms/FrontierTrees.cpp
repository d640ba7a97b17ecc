// Trees that are packed into the links of a Frontier node.
// Source: Zhao et al., ForestColl, 2024, for the method; found by
//   kolo explore all_gather --machine frontier --nodes 1 --bytes 1G --source DIR
#include "algorithms/FrontierTrees.h"

#include <algorithm>

namespace kolo::algorithms {

namespace {

constexpr int64_t numDevices = 8;

/// What a device sends: pieces that follow each other, of a block.
struct Sending {
  int64_t block, piece, count;
};
constexpr Sending none = {-1, 0, 0};

/// Every device sends over the same distance, to the device whose number is so much larger, wrapping around.
struct Round {
  int64_t distance;
  Sending sendings[numDevices]; // by sender
};

/// Edges of trees, from devices that have got the pieces along the edges of the level before.
using Level = std::vector<Round>;

const std::vector<Level> outward = {
    {
        {1, {{0, 0, 5}, none, {2, 0, 5}, none, {4, 0, 5}, none, {6, 0, 5}, none}},
        {2, {{0, 0, 5}, {1, 0, 5}, {2, 0, 5}, none, {4, 0, 5}, {5, 0, 5}, {6, 0, 5}, none}},
        {4, {none, {1, 0, 5}, none, {3, 0, 5}, none, {5, 0, 5}, none, {7, 0, 5}}},
        {6, {{0, 0, 5}, none, {2, 0, 5}, {3, 0, 5}, {4, 0, 5}, none, {6, 0, 5}, {7, 0, 5}}},
        {7, {none, {1, 0, 5}, none, {3, 0, 5}, none, {5, 0, 5}, none, {7, 0, 5}}},
    },
    {
        {1, {{2, 0, 5}, none, {0, 0, 5}, none, {2, 0, 5}, none, {0, 0, 5}, none}},
        {2, {{6, 1, 1}, {5, 0, 1}, {0, 2, 3}, none, {2, 1, 1}, {1, 0, 1}, {4, 2, 3}, none}},
        {4, {none, {0, 0, 1}, none, {2, 0, 1}, none, {4, 0, 1}, none, {6, 0, 1}}},
        {6, {{1, 1, 4}, none, {4, 1, 1}, {7, 0, 1}, {5, 1, 4}, none, {0, 1, 1}, {3, 0, 1}}},
        {7, {none, {3, 0, 5}, none, {1, 0, 5}, none, {1, 0, 5}, none, {3, 0, 5}}},
        {1, {{6, 0, 5}, none, {4, 0, 5}, none, {6, 0, 5}, none, {4, 0, 5}, none}},
        {2, {none, none, {3, 1, 4}, none, none, none, {7, 1, 4}, none}},
        {6, {{2, 2, 3}, none, none, none, {6, 2, 3}, none, none, none}},
        {7, {none, {5, 0, 5}, none, {7, 0, 5}, none, {7, 0, 5}, none, {5, 0, 5}}},
    },
    {
        {1, {{4, 1, 4}, none, {5, 1, 4}, none, {0, 1, 4}, none, {1, 1, 4}, none}},
        {7, {none, {4, 0, 1}, none, {5, 0, 1}, none, {0, 0, 1}, none, {1, 0, 1}}},
        {1, {{7, 1, 4}, none, {6, 1, 4}, none, {3, 1, 4}, none, {2, 1, 4}, none}},
        {7, {none, {7, 0, 1}, none, {6, 0, 1}, none, {3, 0, 1}, none, {2, 0, 1}}},
    },
};

/// The way back: receivers become senders, in as many rounds.
std::vector<Level> turned(std::vector<Level> levels) {
  std::ranges::reverse(levels);
  for (Level &level : levels)
    for (auto &[distance, sendings] : level) {
      std::ranges::rotate(sendings, std::end(sendings) - distance);
      distance = numDevices - distance;
    }
  return levels;
}

/// A level as tables; an entry of the last three belongs to a round and a sender.
class LevelTables {
public:
  explicit LevelTables(const Level &level) : LevelTables(Columns(level)) {}

  /// For what a rank sends or receives in a round: the body gets the pieces, of which block.
  template <typename Body>
  void whereSends(Choreography &c, const Dim &dim, const Index &round, const Index &sender, Body body) {
    Index entry = round * numDevices + sender % numDevices;
    c.when(dim.size() == numDevices && blocks[entry] >= 0,
           [&] { body(blocks[entry], range(firsts[entry], counts[entry])); });
  }

  Table distances;

private:
  struct Columns {
    explicit Columns(const Level &level) {
      for (const Round &round : level) {
        distances.push_back(round.distance);
        for (const Sending &sending : round.sendings) {
          blocks.push_back(sending.block);
          firsts.push_back(sending.piece);
          counts.push_back(sending.count);
        }
      }
    }
    std::vector<int64_t> distances, blocks, firsts, counts;
  };
  explicit LevelTables(Columns columns)
      : distances(std::move(columns.distances)), blocks(std::move(columns.blocks)), firsts(std::move(columns.firsts)),
        counts(std::move(columns.counts)) {}

  Table blocks, firsts, counts;
};

} // namespace

void frontierTreesAllGather(Choreography &c, const Dim &dim, const BlockPieces &pieces, Location caller) {
  CalledFrom scope(c, caller);
  Rank me = c.rank();
  c.when(dim.size() != numDevices, [&] { c.send(pieces(me[dim], all)).to(me.others(dim)); });
  for (const Level &level : outward) {
    LevelTables tables(level);
    c.loop(int64_t(level.size()), [&](Index round) {
      tables.whereSends(c, dim, round, me[dim], [&](const Index &block, const Selector &which) {
        c.send(pieces(block, which)).to(me.next(dim, tables.distances[round]));
      });
    });
  }
}

void frontierTreesReduceScatter(Choreography &c, const Dim &dim, const BlockPieces &pieces, const BlockPieces &slots,
                                Location caller) {
  CalledFrom scope(c, caller);
  Rank me = c.rank(), peer = me.others(dim);
  c.when(dim.size() != numDevices, [&] { c.send(pieces(peer[dim], all)).to(peer).reduce(); });
  int64_t numBefore = 0;
  for (const Level &level : turned(outward)) {
    LevelTables tables(level);
    c.loop(int64_t(level.size()), [&](Index round) {
      tables.whereSends(c, dim, round, me[dim], [&](const Index &block, const Selector &which) {
        c.send(pieces(block, which)).to(me.next(dim, tables.distances[round])).at(slots(numBefore + round, which));
      });
    });
    c.loop(int64_t(level.size()), [&](Index round) {
      Index sender = me[dim] + numDevices - tables.distances[round];
      tables.whereSends(c, dim, round, sender, [&](const Index &block, const Selector &which) {
        c.reduce(slots(numBefore + round, which), pieces(block, which));
      });
    });
    numBefore += int64_t(level.size());
  }
}

} // namespace kolo::algorithms
