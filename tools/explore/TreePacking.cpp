#include "tools/explore/TreePacking.h"
#include "tools/explore/StableSort.h"
#include "tools/explore/SwitchRemoval.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>
#include <random>

namespace kolo::explore {

using cost::CostMistake;

static CostMistake mistake(const std::string &message) { return {"trees: " + message}; }

/// Bytes per second from vertex to vertex of the graph. `numberOf`: a machine's vertex in the graph, or -1.
static std::vector<std::vector<int64_t>> bandwidthsOf(const cost::Machine &machine, const std::vector<int> &numberOf,
                                                      size_t numVertices) {
  std::vector<std::vector<int64_t>> result(numVertices, std::vector<int64_t>(numVertices, 0));
  for (const cost::Link &link : machine.links()) {
    int from = numberOf[size_t(link.from)], to = numberOf[size_t(link.to)];
    if (from < 0 || to < 0)
      continue;
    double one = machine.linkClasses()[size_t(link.linkClass)].bandwidth.peak;
    int64_t all = std::llround(one * link.count);
    result[size_t(from)][size_t(to)] += all;
    result[size_t(to)][size_t(from)] += all;
  }
  return result;
}

std::variant<CapacityGraph, CostMistake> nodeGraph(const cost::Machine &machine, std::span<const int> devices) {
  std::vector<int> numberOf(machine.vertices().size(), -1);
  for (size_t i = 0; i < devices.size(); ++i) {
    if (numberOf[size_t(devices[i])] >= 0)
      return mistake("device " + std::to_string(devices[i]) + " is named twice");
    numberOf[size_t(devices[i])] = int(i);
  }
  size_t numVertices = devices.size();
  for (size_t vertex = 0; vertex < numberOf.size(); ++vertex) {
    const cost::Vertex &described = machine.vertices()[vertex];
    if (described.kind != cost::VertexKind::Switch)
      continue;
    if (described.capacity > 0)
      return mistake("switch '" + described.name + "' of " + machine.name() +
                     " has a bandwidth of its own, with which trees cannot be packed");
    numberOf[vertex] = int(numVertices++);
  }
  CapacityGraph graph{devices.size(), bandwidthsOf(machine, numberOf, numVertices)};
  int64_t unit = 0;
  for (const std::vector<int64_t> &row : graph.capacity)
    unit = std::accumulate(row.begin(), row.end(), unit, std::gcd<int64_t, int64_t>);
  if (unit == 0)
    return mistake("no links between the devices of " + machine.name());
  for (std::vector<int64_t> &row : graph.capacity)
    for (int64_t &capacity : row)
      capacity /= unit;
  graph.unit = double(unit);
  return graph;
}

namespace {

/// A fraction in lowest terms.
struct Ratio {
  int64_t over = 0, under = 1;
  Ratio(int64_t a, int64_t b) : over(a / std::gcd(a, b)), under(b / std::gcd(a, b)) {}
  double value() const { return double(over) / double(under); }
};

/// How many trees each root has, and what they may use of the links.
struct Scale {
  int64_t trees;
  Ratio perUnit; // trees that a unit of capacity carries
};

/// Enough of every link for so many trees of one unit's size: what is left over is rounded away.
Capacities scaled(const CapacityGraph &graph, Ratio perUnit) {
  Capacities result = graph.capacity;
  for (std::vector<int64_t> &row : result)
    for (int64_t &capacity : row)
      capacity = capacity * perUnit.over / perUnit.under;
  return result;
}

/// What every device can broadcast at most, in units, while all others do. Each set of vertices that leaves out a
/// device gives a bound: the capacity out of the set by its number of devices. This is the smallest. Each flow that is
/// too small names a set that has less (Dinkelbach 1967).
Ratio findBound(const CapacityGraph &graph) {
  size_t numDevices = graph.numDevices;
  int64_t most = 0;
  for (const std::vector<int64_t> &row : graph.capacity)
    most = std::accumulate(row.begin(), row.end(), most);
  Ratio bound(most, 1);
  for (bool isSmaller = true; isSmaller;) {
    isSmaller = false;
    for (size_t device = 0; device < numDevices; ++device) {
      std::optional<std::vector<bool>> cut =
          findTightCut(scaled(graph, {bound.under, 1}), numDevices, bound.over, device);
      if (!cut)
        continue;
      int64_t capacity = 0;
      for (size_t from = 0; from < cut->size(); ++from)
        for (size_t to = 0; to < cut->size(); ++to)
          capacity += (*cut)[from] && !(*cut)[to] ? graph.capacity[from][to] : 0;
      bound = {capacity, std::count(cut->begin(), cut->begin() + ptrdiff_t(numDevices), true)};
      isSmaller = true;
    }
  }
  return bound;
}

bool isFeasible(const CapacityGraph &graph, const Scale &scale) {
  return shortage(scaled(graph, scale.perUnit), graph.numDevices, scale.trees) == 0;
}

/// The fewest trees with which the bound is reached.
Scale exactScale(const CapacityGraph &graph, Ratio bound) {
  int64_t divisor = bound.over;
  for (const std::vector<int64_t> &row : graph.capacity)
    divisor = std::accumulate(row.begin(), row.end(), divisor, std::gcd<int64_t, int64_t>);
  return {bound.over / divisor, {bound.under, divisor}};
}

/// With so many trees: the fewest of them per unit that still fit. Rounding changes only where a link carries one more.
Scale bestScale(const CapacityGraph &graph, Ratio bound, int64_t trees) {
  Ratio least(trees * bound.under, bound.over);
  std::vector<int64_t> capacities;
  for (const std::vector<int64_t> &row : graph.capacity)
    std::copy_if(row.begin(), row.end(), std::back_inserter(capacities), [](int64_t capacity) { return capacity > 0; });
  std::sort(capacities.begin(), capacities.end());
  capacities.erase(std::unique(capacities.begin(), capacities.end()), capacities.end());
  std::vector<Ratio> candidates = {least};
  for (int64_t capacity : capacities) {
    auto first = int64_t(std::floor(least.value() * double(capacity)));
    int64_t last = first + capacity / capacities.front() + 2;
    for (int64_t carried = first; carried <= last; ++carried)
      if (carried * least.under > least.over * capacity)
        candidates.emplace_back(carried, capacity);
  }
  std::ranges::sort(candidates, {}, &Ratio::value);
  auto doesNotFit = [&](Ratio perUnit) { return !isFeasible(graph, {trees, perUnit}); };
  return {trees, *std::partition_point(candidates.begin(), candidates.end(), doesNotFit)};
}

Scale chooseScale(const CapacityGraph &graph, Ratio bound, int64_t mostTrees) {
  Scale best = exactScale(graph, bound);
  if (best.trees <= mostTrees)
    return best;
  best = bestScale(graph, bound, 1);
  auto rate = [](const Scale &scale) { return double(scale.trees) / scale.perUnit.value(); };
  for (int64_t trees = 2; trees <= mostTrees; ++trees)
    if (Scale scale = bestScale(graph, bound, trees); rate(scale) > rate(best) * (1 + 1e-9))
      best = scale;
  return best;
}

/// Trees of one root that are the same so far.
struct Growing {
  Tree tree;
  std::vector<int> level; // of the edge that leads to a device, plus one; 0 for the root, -1: not reached
  size_t numReached = 1;
};

/// Grows trees edge by edge, so that what is left of the links is always enough for what is still to grow.
class Packer {
public:
  /// Attempt 0 prefers links with most left, every other one another order of links.
  Packer(Capacities capacities, int64_t treesPerRoot, unsigned attempt);
  /// All trees span.
  std::vector<Tree> run();

private:
  void grow(Growing &tree);
  int64_t mostCopies(const Growing &tree, size_t from, size_t to);
  std::vector<std::pair<size_t, size_t>> edgesOutOf(const Growing &tree);

  Capacities left;
  std::vector<Growing> growing; // those that do not span yet, but for the one at hand
  unsigned attempt;
  std::mt19937 random;
};

Packer::Packer(Capacities capacities, int64_t treesPerRoot, unsigned attempt)
    : left(std::move(capacities)), attempt(attempt), random(attempt) {
  for (size_t root = 0; root < left.size(); ++root) {
    std::vector<int> level(left.size(), -1);
    level[root] = 0;
    growing.push_back({{int(root), treesPerRoot, {}}, level});
  }
}

/// Copies of the tree that the edge may be added to. What enters a set of devices must be enough for all trees that
/// have not reached it. The edge changes this for sets with `to`, without `from`, that the tree has reached elsewhere.
int64_t Packer::mostCopies(const Growing &tree, size_t from, size_t to) {
  size_t numDevices = left.size();
  cost::MaxFlow flow(numDevices + growing.size());
  for (size_t a = 0; a < numDevices; ++a)
    for (size_t b = 0; b < numDevices; ++b)
      if (left[a][b] > 0)
        flow.addEdge(a, b, double(left[a][b]), 0);
  double others = 0;
  for (size_t i = 0; i < growing.size(); ++i) {
    const Growing &other = growing[i];
    flow.addEdge(from, numDevices + i, double(other.tree.copies), 0);
    for (size_t device = 0; device < numDevices; ++device)
      if (other.level[device] >= 0)
        flow.addEdge(numDevices + i, device, std::numeric_limits<double>::infinity(), 0);
    others += double(other.tree.copies);
  }
  int64_t most = std::min(left[from][to], tree.tree.copies);
  return std::min(most, int64_t(std::llround(flow.run(from, to) - others)));
}

/// Those that begin near the root first.
std::vector<std::pair<size_t, size_t>> Packer::edgesOutOf(const Growing &tree) {
  std::vector<std::pair<size_t, size_t>> edges;
  for (size_t from = 0; from < left.size(); ++from)
    for (size_t to = 0; to < left.size(); ++to)
      if (tree.level[from] >= 0 && tree.level[to] < 0 && left[from][to] > 0)
        edges.emplace_back(from, to);
  if (attempt > 0)
    std::shuffle(edges.begin(), edges.end(), random);
  sortStably(edges, [&](const std::pair<size_t, size_t> &edge) {
    return std::pair(tree.level[edge.first], attempt == 0 ? -left[edge.first][edge.second] : 0);
  });
  return edges;
}

/// By one edge; copies that it may not be added to become a tree of their own.
void Packer::grow(Growing &tree) {
  for (auto [from, to] : edgesOutOf(tree)) {
    int64_t copies = mostCopies(tree, from, to);
    if (copies <= 0)
      continue;
    if (copies < tree.tree.copies) {
      growing.push_back(tree);
      growing.back().tree.copies -= copies;
      tree.tree.copies = copies;
    }
    left[from][to] -= copies;
    tree.tree.edges.push_back({int(from), int(to), tree.level[from]});
    tree.level[to] = tree.level[from] + 1;
    ++tree.numReached;
    return;
  }
  // Edmonds 1973: there is one as long as the invariant holds.
  assert(false && "a tree that does not span can always grow");
  std::abort();
}

std::vector<Tree> Packer::run() {
  std::vector<Tree> done;
  while (!growing.empty()) {
    auto next = std::ranges::min_element(growing, {}, &Growing::numReached);
    Growing tree = std::move(*next);
    growing.erase(next);
    grow(tree);
    if (tree.numReached < left.size())
      growing.push_back(std::move(tree));
    else
      done.push_back(std::move(tree.tree));
  }
  sortStably(done, [](const Tree &tree) { return tree.root; });
  return done;
}

/// How many levels the trees have, and how much goes along the edges of each, on the link that it fills most. In a
/// pipeline, a slice goes from level to level, so less is better.
std::pair<size_t, double> costOf(const std::vector<Tree> &trees, const Capacities &capacities) {
  std::vector<Capacities> loads;
  for (const Tree &tree : trees)
    for (const TreeEdge &edge : tree.edges) {
      while (loads.size() <= size_t(edge.level))
        loads.emplace_back(capacities.size(), std::vector<int64_t>(capacities.size(), 0));
      loads[size_t(edge.level)][size_t(edge.from)][size_t(edge.to)] += tree.copies;
    }
  double sum = 0;
  for (const Capacities &level : loads) {
    double fullest = 0;
    for (size_t from = 0; from < level.size(); ++from)
      for (size_t to = 0; to < level.size(); ++to)
        if (level[from][to] > 0)
          fullest = std::max(fullest, double(level[from][to]) / double(capacities[from][to]));
    sum += fullest;
  }
  return {loads.size(), sum};
}

/// The best of several packings. An attempt takes time in proportion to the devices' cube, at least.
std::vector<Tree> packBest(const Capacities &capacities, int64_t treesPerRoot) {
  constexpr size_t work = 60'000, mostAttempts = 128;
  size_t numAttempts =
      std::clamp<size_t>(work / (capacities.size() * capacities.size() * capacities.size()), 1, mostAttempts);
  std::vector<Tree> best;
  for (unsigned attempt = 0; attempt < numAttempts; ++attempt) {
    std::vector<Tree> trees = Packer(capacities, treesPerRoot, attempt).run();
    if (best.empty() || costOf(trees, capacities) < costOf(best, capacities))
      best = std::move(trees);
  }
  return best;
}

} // namespace

std::variant<TreePacking, CostMistake> packTrees(const CapacityGraph &graph, int64_t mostTreesPerRoot) {
  constexpr size_t mostDevices = 64;
  if (graph.numDevices < 2 || graph.numDevices > mostDevices)
    return mistake("between 2 and " + std::to_string(mostDevices) + " devices, not " +
                   std::to_string(graph.numDevices));
  if (mostTreesPerRoot < 1)
    return mistake("at least one tree for each root, not " + std::to_string(mostTreesPerRoot));
  Ratio bound = findBound(graph);
  if (bound.over == 0)
    return mistake("some device cannot be reached from all others");
  Scale scale = chooseScale(graph, bound, mostTreesPerRoot);
  Capacities capacities = scaled(graph, scale.perUnit);
  removeSwitches(capacities, graph.numDevices, scale.trees);
  return TreePacking{graph.numDevices, scale.trees, graph.unit / scale.perUnit.value(), graph.unit * bound.value(),
                     packBest(capacities, scale.trees)};
}

} // namespace kolo::explore
