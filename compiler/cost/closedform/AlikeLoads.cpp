// Loads of moves that are told as progressions of ranks: nodes are looked at in classes.
#include "compiler/cost/closedform/Loads.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace kolo::cost {

int64_t Progression::numBetween(int64_t least, int64_t end) const {
  auto numBelow = [&](int64_t limit) { return std::clamp<int64_t>((limit - first + stride - 1) / stride, 0, count); };
  return end <= least ? 0 : numBelow(std::max(end, first)) - numBelow(std::max(least, first));
}

/// Moves between two places of nodes: of the k-th node to the k-th; or of one node, to all or from all of the others.
struct LoadModel::AlikePart {
  Progression fromNodes, toNodes;
  int64_t fromPlace, toPlace;
  double share;

  bool isInNode() const { return fromNodes.first == toNodes.first; }
  int64_t count() const { return std::max(fromNodes.count, toNodes.count); }
  /// Moves of each node that sends, and that receives.
  int64_t numSent() const { return count() / fromNodes.count; }
  int64_t numReceived() const { return count() / toNodes.count; }
};

/// Cuts what fans out of one rank, or into one, so that each piece stays in the rank's node, or leads out of it.
static std::vector<AlikeMoves> cutAtNode(const AlikeMoves &moves, int64_t perNode) {
  if (moves.from.count == moves.to.count)
    return {moves};
  bool isFan = moves.from.count == 1;
  const Progression &others = isFan ? moves.to : moves.from;
  int64_t node = (isFan ? moves.from : moves.to).first / perNode, next = 0;
  std::vector<AlikeMoves> pieces;
  for (int64_t end : {others.numBetween(0, node * perNode), others.numBetween(0, (node + 1) * perNode), others.count}) {
    if (end > next) {
      pieces.push_back(moves);
      (isFan ? pieces.back().to : pieces.back().from) = {others[next], others.stride, end - next};
    }
    next = end;
  }
  return pieces;
}

void LoadModel::addAlike(const Moves &moves, Loads &loads) const {
  int64_t perNode = placement.ranksPerNode();
  for (const AlikeMoves &whole : moves.alike)
    for (const AlikeMoves &piece : cutAtNode(whole, perNode)) {
      int64_t count = std::max(piece.from.count, piece.to.count);
      int64_t stride = piece.from.count == count ? piece.from.stride : piece.to.stride;
      // After so many ranks, places repeat.
      int64_t period = perNode / std::gcd(stride, perNode), nodeStride = stride * period / perNode;
      for (int64_t k = 0; k < std::min(period, count); ++k) {
        int64_t number = (count - k + period - 1) / period;
        auto at = [&](const Progression &ranks) { return ranks.count == 1 ? ranks.first : ranks[k]; };
        auto nodesOf = [&](const Progression &ranks) {
          return Progression{at(ranks) / perNode, nodeStride, ranks.count == 1 ? 1 : number};
        };
        addAlikePart(
            moves.cost,
            {nodesOf(piece.from), nodesOf(piece.to), at(piece.from) % perNode, at(piece.to) % perNode, piece.share},
            loads);
      }
    }
  addOnce(moves, loads);
}

void LoadModel::addAlikePart(const MoveCost &cost, const AlikePart &part, Loads &loads) const {
  int from = deviceAt(part.fromPlace), to = deviceAt(part.toPlace);
  double sent = part.share * double(part.numSent()), received = part.share * double(part.numReceived());
  Loads::OnNodes sending{part.fromNodes, {}}, receiving{part.toNodes, {}};
  auto addRoute = [&](Loads::OnNodes &nodes, const Route &route, double share) {
    for (int resource : route.resources)
      nodes.loads.emplace_back(size_t(resource), share * cost.wire);
  };
  if (part.isInNode()) {
    addRoute(sending, machine.route(from, to), sent);
    if (from != to)
      sending.loads.emplace_back(firstTraffic + size_t(part.fromPlace * placement.ranksPerNode() + part.toPlace),
                                 sent * cost.payload);
  } else {
    addRoute(sending, machine.toNetwork(from), sent);
    addRoute(receiving, machine.fromNetwork(to), received);
  }
  sending.loads.emplace_back(size_t(machine.memoryOf(from)), sent * cost.senderMemory);
  sending.loads.emplace_back(firstLane + size_t(part.fromPlace), sent * cost.senderLanes);
  receiving.loads.emplace_back(size_t(machine.memoryOf(to)), received * cost.receiverMemory);
  receiving.loads.emplace_back(firstLane + size_t(part.toPlace), received * cost.receiverLanes);
  if (int writes = machine.writesOf(to); writes >= 0)
    receiving.loads.emplace_back(size_t(writes), received * cost.receiverWrites);
  loads.onNodes.push_back(std::move(sending));
  loads.onNodes.push_back(std::move(receiving));
  uint32_t crossed = part.isInNode() ? 1 : addAlikeUnits(cost.wire, part, loads);
  addLatencies({{0, 0, 1, 1, 1}}, part.fromPlace, part.toPlace, crossed, loads);
}

/// Calls body(unit) for units of so many nodes, among them all in which a move begins or ends.
static void forEachUnit(const Progression &from, const Progression &to, int64_t nodes, int64_t numUnits,
                        llvm::function_ref<void(int64_t)> body) {
  if (from.count + to.count >= numUnits) {
    for (int64_t unit = 0; unit < numUnits; ++unit)
      body(unit);
    return;
  }
  llvm::SmallVector<int64_t, 32> units;
  for (const Progression &ends : {from, to})
    for (int64_t k = 0; k < ends.count; ++k)
      units.push_back(ends[k] / nodes);
  llvm::sort(units);
  units.erase(llvm::unique(units), units.end());
  llvm::for_each(units, body);
}

/// Gives the borders that are the outermost of some move, as bordersBetween does.
uint32_t LoadModel::addAlikeUnits(double wire, const AlikePart &part, Loads &loads) const {
  int64_t count = part.count(), ahead = part.toNodes.first - part.fromNodes.first;
  bool isPairwise = part.fromNodes.count == part.toNodes.count;
  uint32_t result = 0;
  int64_t numInside = 0; // of moves that cross no border farther out than the last one
  for (size_t number = 0; number <= borders.size(); ++number) {
    if (number == borders.size()) {
      result |= numInside < count ? uint32_t(1) << number : 0;
      break;
    }
    const Border &border = borders[number];
    int64_t nodes = border.positions / placement.ranksPerNode(), numStaying = 0;
    auto addTo = [&](size_t resource, int64_t unit, int64_t moves) {
      if (moves == 0)
        return;
      size_t variants = border.last == border.lengths ? 1 : 2;
      for (size_t variant = 0; border.hasResources && variant < variants; ++variant) {
        loads.byUnit.resize(resources.size());
        std::vector<double> &units = loads.byUnit[resource + 2 * variant];
        units.resize(size_t(border.numUnits));
        units[size_t(unit)] += part.share * wire * double(moves);
      }
    };
    auto addUnit = [&](int64_t unit) {
      int64_t first = unit * nodes, end = first + nodes;
      auto inside = [&](const Progression &some) {
        if (some.count > 1)
          return some.numBetween(first, end);
        return some.first >= first && some.first < end ? count : 0;
      };
      int64_t sent = inside(part.fromNodes), received = inside(part.toNodes);
      int64_t stay = isPairwise ? part.fromNodes.numBetween(std::max(first, first - ahead), std::min(end, end - ahead))
                                : std::min(sent, received);
      numStaying += stay;
      addTo(border.firstResource, unit, sent - stay);
      addTo(border.firstResource + 1, unit, received - stay);
    };
    if (number > 0)
      forEachUnit(part.fromNodes, part.toNodes, nodes, border.numUnits, addUnit);
    if (numStaying > numInside)
      result |= uint32_t(1) << number;
    numInside = numStaying;
  }
  return result;
}

/// What a rank has once, however many moves begin or end there.
void LoadModel::addOnce(const Moves &moves, Loads &loads) const {
  const MoveCost &cost = moves.cost;
  if (cost.senderMemoryOnce == 0 && cost.receiverMemoryOnce == 0 && cost.receiverWritesOnce == 0)
    return;
  int64_t perNode = placement.ranksPerNode();
  std::map<Progression, double> senders, receivers; // progressions that differ have no rank in common
  for (const AlikeMoves &alike : moves.alike)
    for (auto [ends, ranks] : {std::pair(&senders, alike.from), std::pair(&receivers, alike.to)}) {
      ranks.stride = ranks.count == 1 ? 1 : ranks.stride;
      double &share = (*ends)[ranks];
      share = std::max(share, alike.share);
    }
  auto addTo = [&](const std::map<Progression, double> &ends, auto resourceOf, double once) {
    for (const auto &[ranks, share] : ends) {
      int64_t period = perNode / std::gcd(ranks.stride, perNode);
      for (int64_t k = 0; once > 0 && k < std::min(period, ranks.count); ++k)
        if (int resource = resourceOf(deviceAt(ranks[k] % perNode)); resource >= 0)
          loads.onNodes.push_back(
              {{ranks[k] / perNode, ranks.stride * period / perNode, (ranks.count - k + period - 1) / period},
               {{size_t(resource), share * once}}});
    }
  };
  auto memoryOf = [&](int device) { return machine.memoryOf(device); };
  addTo(senders, memoryOf, cost.senderMemoryOnce);
  addTo(receivers, memoryOf, cost.receiverMemoryOnce);
  addTo(receivers, [&](int device) { return machine.writesOf(device); }, cost.receiverWritesOnce);
}

/// One node of each class of those that are in the same sets.
static std::vector<int64_t> representativesOf(const std::vector<Progression> &sets, int64_t numNodes) {
  auto isInterval = [](const Progression &set) { return set.stride == 1 || set.count == 1; };
  std::set<int64_t> cuts = {numNodes};
  for (const Progression &set : sets)
    if (isInterval(set)) {
      cuts.insert(set.first);
      cuts.insert(set[set.count - 1] + 1);
    }
  std::vector<int64_t> nodeOf; // of each class, its last node
  std::vector<uint32_t> classOf(static_cast<size_t>(numNodes));
  for (int64_t first = 0; int64_t cut : cuts) {
    if (cut == first)
      continue;
    std::fill(classOf.begin() + first, classOf.begin() + cut, uint32_t(nodeOf.size()));
    nodeOf.push_back(cut - 1);
    first = cut;
  }
  constexpr uint32_t none = UINT32_MAX;
  bool isStale = false;
  for (const Progression &set : sets) {
    if (isInterval(set))
      continue;
    std::vector<uint32_t> inside(nodeOf.size(), none);
    for (int64_t k = 0; k < set.count; ++k) {
      uint32_t &number = classOf[size_t(set[k])], &split = inside[number];
      isStale |= nodeOf[number] == set[k];
      if (split == none) {
        split = uint32_t(nodeOf.size());
        nodeOf.push_back(0);
      }
      nodeOf[split] = set[k];
      number = split;
    }
  }
  if (isStale) {
    std::ranges::fill(nodeOf, -1);
    for (int64_t node = 0; node < numNodes; ++node)
      nodeOf[classOf[size_t(node)]] = node;
    std::erase(nodeOf, -1);
  }
  return nodeOf;
}

void LoadModel::takeLargestOnNodes(const Loads &loads, std::vector<double> &most) const {
  std::map<Progression, std::vector<const Loads::OnNodes *>> bySet;
  for (const Loads::OnNodes &some : loads.onNodes) {
    Progression nodes = some.nodes;
    nodes.stride = nodes.count == 1 ? 1 : nodes.stride;
    bySet[nodes].push_back(&some);
  }
  std::vector<Progression> sets;
  for (const auto &[nodes, some] : bySet)
    sets.push_back(nodes);
  std::vector<int64_t> nodes = representativesOf(sets, placement.numNodes());
  if (!loads.byNode.empty()) { // all nodes differ
    nodes.resize(size_t(placement.numNodes()));
    std::iota(nodes.begin(), nodes.end(), 0);
  }
  std::vector<double> onNode(numNodeResources);
  for (int64_t node : nodes) {
    std::ranges::fill(onNode, 0);
    if (!loads.byNode.empty())
      std::copy_n(loads.byNode.begin() + int64_t(numNodeResources) * classOfNode[size_t(node)], numNodeResources,
                  onNode.begin());
    for (const auto &[set, all] : bySet)
      if (set.contains(node))
        for (const Loads::OnNodes *some : all)
          for (auto [resource, load] : some->loads)
            onNode[resource] += load;
    for (size_t resource = 0; resource < numNodeResources; ++resource)
      most[resource] = std::max(most[resource], onNode[resource]);
  }
}

} // namespace kolo::cost
