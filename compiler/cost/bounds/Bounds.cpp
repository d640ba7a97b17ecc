#include "compiler/cost/bounds/Bounds.h"
#include "compiler/cost/bounds/Latencies.h"
#include "compiler/cost/bounds/NodeCuts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>

namespace kolo::cost {

namespace {

/// Which sets a root allows.
enum class RootIs { Nowhere, Inside, Outside };

/// What a collective moves across the edge of a set.
struct Demand {
  KoloCollective collective;
  double numRanks;

  RootIs root() const {
    switch (collective) {
    case KOLO_GATHER:
    case KOLO_SCATTER:
      return RootIs::Inside;
    case KOLO_BROADCAST:
    case KOLO_REDUCE:
      return RootIs::Outside;
    default:
      return RootIs::Nowhere;
    }
  }
  /// Bytes per byte of the call.
  double across(double ranks) const {
    switch (collective) {
    case KOLO_BROADCAST:
    case KOLO_REDUCE:
    case KOLO_SCAN:
    case KOLO_EXSCAN:
      return 1;
    case KOLO_ALL_TO_ALL:
      return ranks * (numRanks - ranks) / numRanks;
    default:
      return (numRanks - ranks) / numRanks;
    }
  }
  /// What all memories together read and write, per byte of the call: every input once, and every output that does not
  /// lie there already.
  double memoryTraffic() const {
    double received = (numRanks - 1) / numRanks; // by one rank, of its output, where it has a block of it
    switch (collective) {
    case KOLO_ALL_GATHER:
    case KOLO_BROADCAST:
      return numRanks;
    case KOLO_REDUCE_SCATTER:
    case KOLO_REDUCE:
      return numRanks + 1;
    case KOLO_ALL_REDUCE:
      return 2 * numRanks;
    case KOLO_ALL_TO_ALL:
      return 2 * numRanks * received;
    case KOLO_SCAN: // the first rank's output is its input
      return 2 * numRanks - 1;
    case KOLO_EXSCAN: // nobody needs the last rank's input, and the first rank has no output
      return 2 * numRanks - 2;
    default: // gather and scatter
      return 2 * received;
    }
  }
  const char *direction() const {
    switch (collective) {
    case KOLO_REDUCE_SCATTER:
    case KOLO_SCATTER:
    case KOLO_REDUCE:
      return "out of ";
    case KOLO_SCAN:
    case KOLO_EXSCAN:
      return "into or out of ";
    default:
      return "into ";
    }
  }
};

/// The largest bound so far; its name is made when all are known.
struct Tightest {
  double seconds = 0;
  std::string name;

  template <class MakeName> void consider(double other, MakeName makeName) {
    // Of bounds that differ by rounding the first one stays.
    if (other <= seconds * (1 + 1e-12))
      return;
    seconds = other;
    name = makeName();
  }
};

/// The units of a level that have ranks: all alike, but for the last one.
struct Units {
  int64_t count;
  double ranks, lastRanks;
  double capacity, lastCapacity; // bytes per second out of one
};

class BoundFinder {
public:
  BoundFinder(const Machine &machine, const Placement &placement, int64_t bytes)
      : machine(machine), placement(placement), cuts(machine, placement, bytes), numNodes(placement.numNodes()),
        memoryBandwidth(machine.device().memoryBandwidth.mostFrom(bytes)) {}

  LowerBound find(KoloCollective collective) const {
    Tightest best;
    Demand demand{collective, double(placement.numRanks())};
    if (collective == KOLO_ALL_REDUCE) {
      tryPartitions(best);
    } else {
      tryNode(demand, best);
      for (size_t level = 0; level + 1 < machine.levels().size(); ++level)
        tryUnits(demand, level, best);
    }
    tryMemory(demand, best);
    double latency = longestLatency(machine, placement, demand.root() == RootIs::Nowhere);
    return {0, best.seconds, latency, best.name, cuts.hasAllCuts()};
  }

private:
  void tryMemory(const Demand &demand, Tightest &best) const {
    if (demand.numRanks == 1 || memoryBandwidth == 0)
      return;
    double memories = machine.device().sharesMemory ? double(numNodes) : demand.numRanks;
    best.consider(demand.memoryTraffic() / (memories * memoryBandwidth), [] { return "memory"; });
  }

  void tryNode(const Demand &demand, Tightest &best) const {
    // In another node than the root's, the root excludes nothing.
    if (demand.root() == RootIs::Nowhere || (demand.root() == RootIs::Outside && numNodes > 1)) {
      trySets(demand, {}, best);
      if (demand.collective == KOLO_ALL_TO_ALL && numNodes > 1)
        trySetsOfAllNodes(best);
      return;
    }
    std::optional<Tightest> least;
    for (size_t kind = 0; kind < cuts.classes().size(); ++kind) {
      Tightest ofRoot;
      trySets(demand, kind, ofRoot);
      if (!least || ofRoot.seconds < least->seconds)
        least = ofRoot;
    }
    best.consider(least->seconds, [&] { return least->name; });
  }

  /// `root`: the class of its device.
  void trySets(const Demand &demand, std::optional<size_t> root, Tightest &best) const {
    for (const NodeCuts::Cut &cut : cuts.cuts()) {
      if (root && demand.root() == RootIs::Inside && cut.counts[*root] == 0)
        continue;
      if (root && demand.root() == RootIs::Outside && cut.counts[*root] == int(cuts.classes()[*root].size()))
        continue;
      best.consider(demand.across(cut.ranks) / cut.capacity, [&] { return demand.direction() + nameOf(cut); });
    }
  }

  void trySetsOfAllNodes(Tightest &best) const {
    double perNode = placement.ranksPerNode();
    for (const NodeCuts::Cut &cut : cuts.cuts())
      best.consider(cut.ranks * (perNode - cut.ranks) / perNode / cut.capacity,
                    [&] { return "out of " + nameOf(cut) + " of all nodes"; });
  }

  void tryUnits(const Demand &demand, size_t level, Tightest &best) const {
    std::optional<Units> units = unitsOf(level);
    if (!units)
      return;
    double whole = demand.across(units->ranks) / units->capacity,
           last = demand.across(units->lastRanks) / units->lastCapacity;
    double seconds = demand.root() == RootIs::Nowhere  ? std::max(whole, last)
                     : demand.root() == RootIs::Inside ? std::min(whole, last)
                                                       : whole; // the root is in the last one, which has the least
    best.consider(seconds, [&] { return demand.direction() + ("a " + machine.levels()[level].name); });
  }

  void tryPartitions(Tightest &best) const {
    if (placement.numRanks() == 1)
      return;
    if (numNodes > 1) {
      double leaving = double(numNodes) * cuts.cuts().back().capacity;
      best.consider(2 * double(numNodes - 1) / leaving, [] { return "between the nodes"; });
    }
    NodeCuts::Partition partition = cuts.tightestPartition(numNodes);
    best.consider(2 * NodeCuts::ratioOf(partition, numNodes), [&] { return nameOf(partition); });
    for (size_t level = 0; level + 1 < machine.levels().size(); ++level)
      if (std::optional<Units> units = unitsOf(level)) {
        double leaving = double(units->count - 1) * units->capacity + units->lastCapacity;
        best.consider(2 * double(units->count - 1) / leaving,
                      [&] { return "between units of level " + machine.levels()[level].name; });
      }
  }

  /// Nothing where one unit has all nodes, or where a unit lets through what its nodes do.
  std::optional<Units> unitsOf(size_t level) const {
    const Level &kind = machine.levels()[level];
    int64_t count = (numNodes + kind.nodes - 1) / kind.nodes;
    if (count < 2 || kind.bandwidth == 0)
      return std::nullopt;
    int64_t lastNodes = numNodes - (count - 1) * kind.nodes;
    double perNode = placement.ranksPerNode(), injection = cuts.cuts().back().capacity;
    return Units{count, double(kind.nodes) * perNode, double(lastNodes) * perNode,
                 std::min(kind.bandwidth, double(kind.nodes) * injection),
                 std::min(kind.bandwidth, double(lastNodes) * injection)};
  }

  std::string nameOf(const NodeCuts::Cut &cut) const {
    if (cut.ranks == placement.ranksPerNode())
      return "a node";
    std::vector<int> devices;
    for (size_t kind = 0; kind < cut.counts.size(); ++kind)
      devices.insert(devices.end(), cuts.classes()[kind].begin(), cuts.classes()[kind].begin() + cut.counts[kind]);
    std::ranges::sort(devices);
    constexpr size_t maxNamed = 8;
    size_t numMore = devices.size() - std::min(maxNamed, devices.size());
    std::vector<std::string> names;
    for (int device : std::span(devices).first(devices.size() - numMore))
      names.push_back(machine.vertices()[size_t(device)].name);
    if (numMore > 0)
      names.push_back(fmt::format("and {} more", numMore));
    return fmt::format("{{{}}}", fmt::join(names, ", "));
  }

  std::string nameOf(const NodeCuts::Partition &partition) const {
    if (int(partition.size()) == placement.ranksPerNode())
      return "between all devices";
    std::vector<std::string> names;
    for (const NodeCuts::Cut *part : partition)
      names.push_back(nameOf(*part));
    return fmt::format("between {}", fmt::join(names, ", "));
  }

  const Machine &machine;
  const Placement &placement;
  NodeCuts cuts;
  int64_t numNodes;
  double memoryBandwidth;
};

} // namespace

LowerBounds::LowerBounds(const Machine &machine, const Placement &placement) {
  std::set<int64_t> begins = {0};
  auto addSteps = [&](const Bandwidth &bandwidth) {
    for (const Bandwidth::Step &step : bandwidth.bySize)
      begins.insert(step.upToBytes + 1);
  };
  addSteps(machine.device().memoryBandwidth);
  for (const LinkClass &kind : machine.linkClasses())
    addSteps(kind.bandwidth);
  for (int64_t bytes : begins) {
    BoundFinder finder(machine, placement, bytes);
    FromBytes &found = bounds.emplace_back(FromBytes{bytes, {}});
    for (int collective = 0; collective < KOLO_NUM_COLLECTIVES; ++collective)
      found.perByte.push_back(finder.find(KoloCollective(collective)));
  }
}

LowerBound LowerBounds::of(KoloCollective collective, int64_t bytes) const {
  auto next = std::ranges::upper_bound(bounds, bytes, {}, &FromBytes::bytes);
  LowerBound bound = std::prev(next)->perByte[size_t(collective)];
  bound.bandwidthSeconds *= double(bytes);
  bound.seconds = std::max(bound.bandwidthSeconds, bound.latencySeconds);
  return bound;
}

} // namespace kolo::cost
