#include "tools/explore/TreeProgram.h"

#include <algorithm>
#include <cassert>
#include <map>

namespace kolo::explore {

using namespace dsl;

namespace {

/// Pieces of one block that one rank sends to another, or combines.
struct Pieces {
  int64_t block, first, count;
};

/// What ranks do over each distance to the receiver: by distance and rank. Distance 0: what they do alone.
using Work = std::map<std::pair<int64_t, int64_t>, std::vector<Pieces>>;

/// Adds pieces of a tree; those that follow the last ones of the same block go together with them.
void add(std::vector<Pieces> &list, const Pieces &pieces) {
  if (!list.empty() && list.back().block == pieces.block && list.back().first + list.back().count == pieces.first)
    list.back().count += pieces.count;
  else
    list.push_back(pieces);
}

void addRound(PieceTable &table, int64_t distance, const std::vector<Pieces> &byRank) {
  table.distances.push_back(distance);
  for (const Pieces &pieces : byRank) {
    table.blocks.push_back(pieces.block);
    table.pieces.push_back(pieces.first);
    table.counts.push_back(pieces.count);
  }
}

/// As few rounds as the ranks with most to do over each distance need. Distances take turns.
PieceTable tableOf(const Work &work, int64_t numRanks) {
  PieceTable table;
  size_t numTurns = 0;
  for (const auto &[way, list] : work)
    numTurns = std::max(numTurns, list.size());
  for (size_t turn = 0; turn < numTurns; ++turn)
    for (int64_t distance = 0; distance < numRanks; ++distance) {
      std::vector<Pieces> byRank(size_t(numRanks), {-1, 0, 0});
      bool isEmpty = true;
      for (int64_t rank = 0; rank < numRanks; ++rank)
        if (auto found = work.find({distance, rank}); found != work.end() && turn < found->second.size()) {
          byRank[size_t(rank)] = found->second[turn];
          isEmpty = false;
        }
      if (!isEmpty)
        addRound(table, distance, byRank);
    }
  return table;
}

/// Calls visit(tree, first piece) for all trees.
template <typename Visit> void forEachTree(const TreePacking &packing, Visit visit) {
  std::vector<int64_t> numPieces(packing.numDevices, 0); // by root, so far
  for (const Tree &tree : packing.trees) {
    visit(tree, numPieces[size_t(tree.root)]);
    numPieces[size_t(tree.root)] += tree.copies;
  }
}

/// What ranks do at one level of a reduction. By child, and whether that is a leaf.
struct ReductionWork {
  Work own;
  std::map<std::pair<size_t, bool>, Work> combines, sends;
};

std::vector<ChildrenTable> tablesOf(const std::map<std::pair<size_t, bool>, Work> &byChild, int64_t numRanks) {
  std::vector<ChildrenTable> tables;
  for (const auto &[child, work] : byChild)
    tables.push_back({child.first, child.second, tableOf(work, numRanks)});
  return tables;
}

/// A row of entries for each step of a loop, in which a table's rounds begin at step `first`.
PieceTable spread(const PieceTable &table, size_t first, size_t numSteps, int64_t numRanks) {
  PieceTable spread;
  const std::vector<Pieces> nothing(size_t(numRanks), {-1, 0, 0});
  for (size_t step = 0; step < numSteps; ++step) {
    if (step < first || step >= first + table.numRounds()) {
      addRound(spread, 1, nothing);
      continue;
    }
    std::vector<Pieces> byRank;
    for (size_t i = (step - first) * size_t(numRanks); byRank.size() < size_t(numRanks); ++i)
      byRank.push_back({table.blocks[i], table.pieces[i], table.counts[i]});
    addRound(spread, table.distances[step - first], byRank);
  }
  return spread;
}

/// Statements on the pieces that a table names for a rank, at one step of a loop.
class Step {
public:
  Step(Choreography &c, const Dim &dim, int64_t numRanks, const Index &step)
      : c(c), dim(dim), me(c.rank()), step(step), entry(step * numRanks + me[dim]) {}

  void send(const PieceTable &table, const PieceSlices &from, const PieceSlices &into) {
    Table distances(table.distances);
    on(table, [&](const Index &block, const Selector &piece) {
      c.send(from(block, piece)).to(me.next(dim, distances[step])).at(into(block, piece));
    });
  }

  void combine(const PieceTable &table, const PieceSlices &from, const PieceSlices &into) {
    on(table, [&](const Index &block, const Selector &piece) { c.reduce(from(block, piece), into(block, piece)); });
  }

private:
  void on(const PieceTable &table, const std::function<void(const Index &, const Selector &)> &statement) {
    Table blocks(table.blocks), pieces(table.pieces), counts(table.counts);
    bool areSingles = std::ranges::all_of(table.counts, [](int64_t count) { return count <= 1; });
    c.when(blocks[entry] >= 0, [&] {
      statement(blocks[entry], areSingles ? Selector(pieces[entry]) : range(pieces[entry], counts[entry]));
    });
  }

  Choreography &c;
  const Dim &dim;
  Rank me;
  Index step, entry;
};

void reduceLevel(Choreography &c, const Dim &dim, const TreeReduction &inward, size_t number,
                 const ReductionSlices &slices, const std::vector<PieceSlices> &arrivals) {
  const ReductionLevel &level = inward.levels[number];
  bool isLast = number + 1 == inward.levels.size(), sendsToRoots = number + 2 == inward.levels.size();
  const PieceSlices &sums = isLast ? slices.result : slices.sums, &next = sendsToRoots ? slices.result : slices.sums;
  auto arrivalOf = [&](size_t child) {
    return slices.from ? (child == 0 ? next : arrivals[child - 1]) : arrivals[child];
  };
  size_t numCombines = slices.from ? level.own.numRounds() : 0, numSends = 0;
  for (const ChildrenTable &children : level.combines)
    numCombines = std::max(numCombines, children.table.numRounds());
  for (const ChildrenTable &children : level.sends)
    numSends = std::max(numSends, children.table.numRounds());
  auto rows = [&](const PieceTable &table, size_t first) {
    return spread(table, first, numCombines + numSends, inward.numRanks);
  };
  c.loop(numCombines + numSends, [&](Index index) {
    Step step(c, dim, inward.numRanks, index);
    if (slices.from && level.own.numRounds() > 0)
      step.combine(rows(level.own, 0), slices.from, sums);
    for (const ChildrenTable &children : level.combines)
      if (!slices.from || children.child > 0)
        step.combine(rows(children.table, 0), arrivalOf(children.child), sums);
    for (const ChildrenTable &children : level.sends)
      step.send(rows(children.table, numCombines), children.isLeaf && slices.from ? slices.from : slices.sums,
                arrivalOf(children.child));
  });
}

void gatherInto(Choreography &c, const TreePacking &packing) {
  auto [d] = c.dims<1>();
  Buffer in = c.input().grid(packing.treesPerRoot), out = c.output().grid(d, packing.treesPerRoot);
  auto own = [&](auto, auto piece) { return in[piece]; };
  c.copy(in, out[c.rank()]);
  treeAllGather(c, d, roundsOutward(packing), own, [&](auto block, auto piece) { return out[{block, piece}]; });
}

PieceSlices piecesOf(const Buffer &buffer) {
  return [=](const Selector &block, const Selector &piece) { return buffer[{block, piece}]; };
}

/// Scratch memory like `in` for what arrives.
std::function<PieceSlices(size_t)> arrivalsLike(Choreography &c, const Buffer &in) {
  return [&c, in](size_t number) { return piecesOf(c.scratch("arrived" + std::to_string(number), in)); };
}

void reduceAndScatter(Choreography &c, const TreePacking &packing) {
  auto [d] = c.dims<1>();
  Buffer in = c.input().grid(d, packing.treesPerRoot), out = c.output().grid(packing.treesPerRoot);
  auto result = [&](auto, auto piece) { return out[piece]; };
  treeReduceScatter(c, d, roundsInward(packing),
                    {piecesOf(in), piecesOf(c.scratch("sums", in)), result, arrivalsLike(c, in)});
}

void reduceEverywhere(Choreography &c, const TreePacking &packing) {
  auto [d] = c.dims<1>();
  Buffer in = c.input().grid(d, packing.treesPerRoot), out = c.output().grid(d, packing.treesPerRoot);
  PieceSlices sums = piecesOf(out);
  treeReduceScatter(c, d, roundsInward(packing), {piecesOf(in), sums, sums, arrivalsLike(c, in)});
  treeAllGather(c, d, roundsOutward(packing), sums, sums);
}

} // namespace

TreeRounds roundsOutward(const TreePacking &packing) {
  auto numRanks = int64_t(packing.numDevices);
  std::vector<Work> levels;
  forEachTree(packing, [&](const Tree &tree, int64_t piece) {
    for (const TreeEdge &edge : tree.edges) {
      levels.resize(std::max(levels.size(), size_t(edge.level) + 1));
      add(levels[size_t(edge.level)][{(edge.to - edge.from + numRanks) % numRanks, edge.from}],
          {tree.root, piece, tree.copies});
    }
  });
  TreeRounds rounds{numRanks, packing.treesPerRoot, {}};
  for (const Work &work : levels)
    rounds.levels.push_back(tableOf(work, numRanks));
  return rounds;
}

TreeReduction roundsInward(const TreePacking &packing) {
  auto numRanks = int64_t(packing.numDevices);
  int numLevels = 0;
  for (const Tree &tree : packing.trees)
    for (const TreeEdge &edge : tree.edges)
      numLevels = std::max(numLevels, edge.level + 1);
  TreeReduction reduction{numRanks, packing.treesPerRoot, 0, {}};
  std::vector<ReductionWork> levels(size_t(numLevels) + 1);
  forEachTree(packing, [&](const Tree &tree, int64_t piece) {
    const Pieces pieces{tree.root, piece, tree.copies};
    std::vector<size_t> numChildren(packing.numDevices, 0), numSeen(packing.numDevices, 0);
    for (const TreeEdge &edge : tree.edges)
      ++numChildren[size_t(edge.from)];
    for (const TreeEdge &edge : tree.edges) {
      size_t level = size_t(numLevels - 1 - edge.level), child = numSeen[size_t(edge.from)]++;
      bool isLeaf = numChildren[size_t(edge.to)] == 0;
      add(levels[level].sends[{child, isLeaf}][{(edge.from - edge.to + numRanks) % numRanks, edge.to}], pieces);
      if (child == 0)
        add(levels[level + 1].own[{0, edge.from}], pieces);
      add(levels[level + 1].combines[{child, false}][{0, edge.from}], pieces);
      reduction.mostChildren = std::max(reduction.mostChildren, child + 1);
    }
  });
  for (const ReductionWork &work : levels)
    reduction.levels.push_back(
        {tableOf(work.own, numRanks), tablesOf(work.combines, numRanks), tablesOf(work.sends, numRanks)});
  return reduction;
}

void treeAllGather(Choreography &c, const Dim &dim, const TreeRounds &outward, const PieceSlices &own,
                   const PieceSlices &slices, Location caller) {
  CalledFrom scope(c, caller);
  for (const PieceTable &level : outward.levels)
    c.loop(level.numRounds(), [&](Index round) {
      Step(c, dim, outward.numRanks, round).send(level, &level == outward.levels.data() ? own : slices, slices);
    });
}

void treeReduceScatter(Choreography &c, const Dim &dim, const TreeReduction &inward, const ReductionSlices &slices,
                       Location caller) {
  CalledFrom scope(c, caller);
  std::vector<PieceSlices> arrivals;
  for (size_t number = 0; number + (slices.from ? 1 : 0) < inward.mostChildren; ++number)
    arrivals.push_back(slices.arrivals(number));
  for (size_t number = 0; number < inward.levels.size(); ++number)
    reduceLevel(c, dim, inward, number, slices, arrivals);
}

Definition treeCollective(const std::string &name, dsl::CollectiveKind kind, const TreePacking &packing) {
  using enum dsl::CollectiveKind;
  assert((kind == AllGather || kind == ReduceScatter || kind == AllReduce) && "trees are packed for these");
  auto body = kind == AllGather ? gatherInto : kind == ReduceScatter ? reduceAndScatter : reduceEverywhere;
  return {name, {kind}, Mesh("rank"), [=](Choreography &c) { body(c, packing); }, std::source_location::current()};
}

} // namespace kolo::explore
