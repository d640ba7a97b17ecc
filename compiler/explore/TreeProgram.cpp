#include "compiler/explore/TreeProgram.h"

#include <algorithm>
#include <cassert>
#include <map>

namespace kolo::explore {

using namespace dsl;

namespace {

/// Pieces of one block that one rank sends to another.
struct Sending {
  int64_t block, piece, count;
};

/// What goes from each rank to each other one along edges of one level: by distance and sender.
using Sendings = std::map<std::pair<int64_t, int64_t>, std::vector<Sending>>;

/// Adds pieces of a tree; those that follow the last ones of the same block go together with them.
void add(std::vector<Sending> &list, const Sending &sending) {
  if (!list.empty() && list.back().block == sending.block && list.back().piece + list.back().count == sending.piece)
    list.back().count += sending.count;
  else
    list.push_back(sending);
}

/// As few rounds as the senders with most to send over each distance need. Distances take turns.
TreeLevel levelOf(const Sendings &sendings, int64_t numRanks) {
  TreeLevel level;
  size_t numTurns = 0;
  for (const auto &[way, list] : sendings)
    numTurns = std::max(numTurns, list.size());
  for (size_t turn = 0; turn < numTurns; ++turn)
    for (int64_t distance = 1; distance < numRanks; ++distance) {
      size_t first = level.blocks.size();
      for (int64_t sender = 0; sender < numRanks; ++sender) {
        auto found = sendings.find({distance, sender});
        bool sends = found != sendings.end() && turn < found->second.size();
        Sending sending = sends ? found->second[turn] : Sending{-1, 0, 0};
        level.blocks.push_back(sending.block);
        level.pieces.push_back(sending.piece);
        level.counts.push_back(sending.count);
      }
      if (std::all_of(level.blocks.begin() + ptrdiff_t(first), level.blocks.end(), [](int64_t b) { return b < 0; })) {
        for (std::vector<int64_t> *table : {&level.blocks, &level.pieces, &level.counts})
          table->resize(first);
        continue;
      }
      level.distances.push_back(distance);
    }
  return level;
}

TreeRounds roundsOf(const TreePacking &packing, bool isInward) {
  auto numRanks = int64_t(packing.numDevices);
  std::vector<Sendings> levels;
  std::vector<int64_t> numPieces(packing.numDevices, 0); // by root, so far
  for (const Tree &tree : packing.trees) {
    int64_t piece = numPieces[size_t(tree.root)];
    numPieces[size_t(tree.root)] += tree.copies;
    for (const TreeEdge &edge : tree.edges) {
      int64_t from = isInward ? edge.to : edge.from, to = isInward ? edge.from : edge.to;
      levels.resize(std::max(levels.size(), size_t(edge.level) + 1));
      add(levels[size_t(edge.level)][{(to - from + numRanks) % numRanks, from}], {tree.root, piece, tree.copies});
    }
  }
  if (isInward)
    std::ranges::reverse(levels);
  TreeRounds rounds{numRanks, packing.treesPerRoot, {}};
  for (const Sendings &sendings : levels)
    rounds.levels.push_back(levelOf(sendings, numRanks));
  return rounds;
}

/// One level: a loop over its rounds.
void sendLevel(Choreography &c, const Dim &dim, const TreeRounds &rounds, const TreeLevel &level,
               const PieceSlices &from, const PieceSlices &into, bool reduces) {
  Rank me = c.rank();
  Table distances(level.distances), blocks(level.blocks), pieces(level.pieces), counts(level.counts);
  bool sendsSingles = std::ranges::all_of(level.counts, [](int64_t count) { return count <= 1; });
  c.loop(level.numRounds(), [&](Index round) {
    Index entry = round * rounds.numRanks + me[dim];
    c.when(blocks[entry] >= 0, [&] {
      Selector sent = sendsSingles ? Selector(pieces[entry]) : range(pieces[entry], counts[entry]);
      Transfer transfer = c.send(from(blocks[entry], sent));
      transfer.to(me.next(dim, distances[round])).at(into(blocks[entry], sent));
      if (reduces)
        transfer.reduce();
    });
  });
}

void gatherInto(Choreography &c, const TreePacking &packing) {
  auto [d] = c.dims<1>();
  Buffer in = c.input().grid(packing.treesPerRoot), out = c.output().grid(d, packing.treesPerRoot);
  auto own = [&](auto, auto piece) { return in[piece]; };
  c.copy(in, out[c.rank()]);
  treeAllGather(c, d, roundsOutward(packing), own, [&](auto block, auto piece) { return out[{block, piece}]; });
}

void reduceAndScatter(Choreography &c, const TreePacking &packing) {
  auto [d] = c.dims<1>();
  Buffer in = c.input().grid(d, packing.treesPerRoot), out = c.output().grid(packing.treesPerRoot);
  Buffer work = c.scratch("work", in);
  c.copy(in, work);
  treeReduceScatter(c, d, roundsInward(packing), [&](auto block, auto piece) { return work[{block, piece}]; });
  c.copy(work[c.rank()], out);
}

void reduceEverywhere(Choreography &c, const TreePacking &packing) {
  auto [d] = c.dims<1>();
  Buffer out = c.inPlace().grid(d, packing.treesPerRoot);
  auto slices = [&](auto block, auto piece) { return out[{block, piece}]; };
  treeReduceScatter(c, d, roundsInward(packing), slices);
  treeAllGather(c, d, roundsOutward(packing), slices, slices);
}

} // namespace

TreeRounds roundsOutward(const TreePacking &packing) { return roundsOf(packing, /*isInward=*/false); }
TreeRounds roundsInward(const TreePacking &packing) { return roundsOf(packing, /*isInward=*/true); }

void treeAllGather(Choreography &c, const Dim &dim, const TreeRounds &outward, const PieceSlices &own,
                   const PieceSlices &slices, Location caller) {
  CalledFrom scope(c, caller);
  for (const TreeLevel &level : outward.levels)
    sendLevel(c, dim, outward, level, &level == outward.levels.data() ? own : slices, slices, /*reduces=*/false);
}

void treeReduceScatter(Choreography &c, const Dim &dim, const TreeRounds &inward, const PieceSlices &slices,
                       Location caller) {
  CalledFrom scope(c, caller);
  for (const TreeLevel &level : inward.levels)
    sendLevel(c, dim, inward, level, slices, slices, /*reduces=*/true);
}

Definition treeCollective(const std::string &name, CollectiveKind kind, const TreePacking &packing) {
  using enum CollectiveKind;
  assert((kind == AllGather || kind == ReduceScatter || kind == AllReduce) && "trees are packed for these");
  auto body = kind == AllGather ? gatherInto : kind == ReduceScatter ? reduceAndScatter : reduceEverywhere;
  return {name, {kind}, Mesh("rank"), [=](Choreography &c) { body(c, packing); }, std::source_location::current()};
}

} // namespace kolo::explore
