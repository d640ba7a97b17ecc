#include "compiler/cost/bounds/NodeCuts.h"
#include "compiler/cost/bounds/MaxFlow.h"

#include <algorithm>
#include <array>
#include <limits>

namespace kolo::cost {

/// The subsets of a set that have a device of its first class. A set's number has a digit for every class, how many of
/// its devices it has; strides are the digits' weights.
template <class Handle> static void forEachPart(size_t set, std::span<const size_t> strides, Handle handle) {
  std::array<size_t, 64> most = {}, least = {}, digits = {};
  size_t first = strides.size();
  for (size_t digit = strides.size(), rest = set; digit-- > 0; rest %= strides[digit])
    if ((most[digit] = rest / strides[digit]) > 0)
      first = digit;
  least[first] = digits[first] = 1;
  for (size_t part = strides[first], digit = 0; digit < strides.size();) {
    handle(part);
    for (digit = first; digit < strides.size() && digits[digit] == most[digit]; ++digit) {
      part -= (digits[digit] - least[digit]) * strides[digit];
      digits[digit] = least[digit];
    }
    if (digit < strides.size()) {
      ++digits[digit];
      part += strides[digit];
    }
  }
}

NodeCuts::NodeCuts(const Machine &machine, const Placement &placement, int64_t workingSetBytes)
    : machine(machine), placement(placement), network(int(machine.vertices().size())) {
  isUsed.assign(machine.vertices().size() + 1, false);
  for (int device : placement.usedDevices())
    isUsed[size_t(device)] = true;
  addEdges(workingSetBytes);
  findClasses();
  size_t number = 1;
  for (const std::vector<int> &members : alike)
    number = number > maxCuts ? number : number * (members.size() + 1);
  if ((isComplete = number <= maxCuts))
    addAllCuts();
  else
    addNeighbourhoods();
}

/// A NIC with one link is a link to the network.
void NodeCuts::addEdges(int64_t workingSetBytes) {
  bool usesNetwork = placement.numNodes() > 1;
  std::vector<int> numLinks(machine.vertices().size());
  for (const Link &link : machine.links()) {
    ++numLinks[size_t(link.from)];
    ++numLinks[size_t(link.to)];
  }
  auto wireOf = [&](int vertex) {
    int wireClass = machine.vertices()[size_t(vertex)].wireClass;
    return machine.linkClasses()[size_t(wireClass)].bandwidth.mostFrom(workingSetBytes);
  };
  auto isNic = [&](int vertex) { return machine.vertices()[size_t(vertex)].kind == VertexKind::Nic; };
  for (const Link &link : machine.links()) {
    double capacity = machine.linkClasses()[size_t(link.linkClass)].bandwidth.mostFrom(workingSetBytes) * link.count;
    int nic = isNic(link.from) ? link.from : isNic(link.to) ? link.to : -1;
    if (nic >= 0 && !usesNetwork)
      continue;
    if (nic >= 0 && numLinks[size_t(nic)] == 1)
      edges.push_back({link.from + link.to - nic, network, std::min(capacity, wireOf(nic))});
    else
      edges.push_back({link.from, link.to, capacity});
  }
  for (int vertex = 0; vertex < network; ++vertex)
    if (usesNetwork && isNic(vertex) && numLinks[size_t(vertex)] > 1)
      edges.push_back({vertex, network, wireOf(vertex)});
  neighbours.resize(isUsed.size());
  for (const Edge &edge : edges)
    for (auto [end, other] : {std::pair(edge.a, edge.b), std::pair(edge.b, edge.a)}) {
      neighbours[size_t(end)][other] += edge.capacity;
      hasFreeVertices |= end != network && !isUsed[size_t(end)];
    }
}

/// Whether the machine is the same after the two have changed places.
bool NodeCuts::areAlike(int a, int b) const {
  auto others = [&](int vertex) {
    std::map<int, double> result = neighbours[size_t(vertex)];
    result.erase(a);
    result.erase(b);
    return result;
  };
  return others(a) == others(b);
}

void NodeCuts::findClasses() {
  for (int device : placement.usedDevices()) {
    auto found =
        std::ranges::find_if(alike, [&](const std::vector<int> &members) { return areAlike(members[0], device); });
    if (found == alike.end())
      alike.push_back({device});
    else
      found->push_back(device);
  }
}

void NodeCuts::addCut(std::vector<int> counts) {
  std::vector<bool> isInside(isUsed.size());
  Cut cut{std::move(counts)};
  for (size_t kind = 0; kind < alike.size(); ++kind)
    for (int member = 0; member < cut.counts[kind]; ++member, ++cut.ranks)
      isInside[size_t(alike[kind][size_t(member)])] = true;
  if (cut.ranks == 0 || (cut.ranks == placement.ranksPerNode() && placement.numNodes() == 1))
    return;
  cut.capacity = hasFreeVertices ? capacityWithFreeVertices(isInside) : capacityOf(isInside);
  all.push_back(std::move(cut));
}

/// Counts up through all numbers of devices of each class.
void NodeCuts::addAllCuts() {
  size_t stride = 1;
  for (const std::vector<int> &members : alike) {
    strides.push_back(stride);
    stride *= members.size() + 1;
  }
  for (size_t number = 1; number < stride; ++number) {
    std::vector<int> counts;
    for (size_t kind = 0; kind < alike.size(); ++kind)
      counts.push_back(int(number / strides[kind] % (alike[kind].size() + 1)));
    addCut(std::move(counts));
  }
}

/// Around each device, the devices at most so many links away; and all others.
void NodeCuts::addNeighbourhoods() {
  alike.clear();
  for (int device : placement.usedDevices())
    alike.push_back({device});
  for (const std::vector<int> &centre : alike) {
    std::vector<size_t> distances;
    for (const std::vector<int> &other : alike)
      distances.push_back(machine.route(centre[0], other[0]).resources.size());
    for (size_t radius = 0; radius < std::ranges::max(distances); ++radius) {
      std::vector<int> inside, outside;
      for (size_t distance : distances) {
        inside.push_back(distance <= radius);
        outside.push_back(distance > radius);
      }
      addCut(std::move(inside));
      addCut(std::move(outside));
    }
  }
  addCut(std::vector<int>(alike.size(), 1));
}

NodeCuts::Partition NodeCuts::singleDevices() const {
  Partition partition;
  for (size_t kind = 0; kind < alike.size(); ++kind) {
    auto cut = std::ranges::find_if(all, [&](const Cut &other) { return other.ranks == 1 && other.counts[kind] == 1; });
    partition.insert(partition.end(), alike[kind].size(), &*cut);
  }
  return partition;
}

double NodeCuts::ratioOf(const Partition &partition, int64_t numNodes) {
  double sum = 0;
  for (const Cut *part : partition)
    sum += part->capacity;
  return (double(partition.size()) * double(numNodes) - 1) / (sum * double(numNodes));
}

/// Dinkelbach 1967: a partition beats the ratio of the best one so far, or that one is the best.
NodeCuts::Partition NodeCuts::tightestPartition(int64_t numNodes) const {
  Partition best = singleDevices();
  while (isComplete) {
    Partition better = betterPartition(ratioOf(best, numNodes));
    if (ratioOf(better, numNodes) <= ratioOf(best, numNodes) * (1 + 1e-12))
      break;
    best = std::move(better);
  }
  return best;
}

/// The partition with the largest sum of (1 - ratio x what leaves the part). A set of devices is best cut into one part
/// with a device of its first class, and the best partition of the rest.
NodeCuts::Partition NodeCuts::betterPartition(double ratio) const {
  size_t numSets = 1;
  for (const std::vector<int> &members : alike)
    numSets *= members.size() + 1;
  std::vector<double> value(numSets);
  std::vector<size_t> firstPart(numSets);
  for (size_t set = 1; set < numSets; ++set) {
    value[set] = -std::numeric_limits<double>::infinity();
    forEachPart(set, strides, [&](size_t part) {
      if (part > all.size())
        return; // the whole, in a placement of one node
      double sum = 1 - ratio * all[part - 1].capacity + value[set - part];
      if (sum > value[set]) {
        value[set] = sum;
        firstPart[set] = part;
      }
    });
  }
  Partition partition;
  for (size_t set = numSets - 1; set > 0; set -= firstPart[set])
    partition.push_back(&all[firstPart[set] - 1]);
  return partition;
}

double NodeCuts::capacityOf(const std::vector<bool> &isInside) const {
  double sum = 0;
  for (const Edge &edge : edges)
    if (isInside[size_t(edge.a)] != isInside[size_t(edge.b)])
      sum += edge.capacity;
  return sum;
}

double NodeCuts::capacityWithFreeVertices(const std::vector<bool> &isInside) const {
  constexpr double unlimited = std::numeric_limits<double>::infinity();
  // A switch with a capacity is two vertices: data comes in at one and leaves at the other.
  size_t numVertices = isInside.size(), source = 2 * numVertices, sink = source + 1;
  MaxFlow flow(sink + 1);
  auto exitOf = [&](int vertex) {
    bool isLimited = vertex != network && machine.vertices()[size_t(vertex)].capacity > 0;
    return isLimited ? numVertices + size_t(vertex) : size_t(vertex);
  };
  for (const Edge &edge : edges) {
    flow.addEdge(exitOf(edge.a), size_t(edge.b), edge.capacity, 0);
    flow.addEdge(exitOf(edge.b), size_t(edge.a), edge.capacity, 0);
  }
  for (int vertex = 0; vertex < network; ++vertex)
    if (exitOf(vertex) != size_t(vertex))
      flow.addEdge(size_t(vertex), exitOf(vertex), machine.vertices()[size_t(vertex)].capacity, 0);
  for (size_t vertex = 0; vertex < numVertices; ++vertex) {
    if (isInside[vertex])
      flow.addEdge(source, vertex, unlimited, 0);
    else if (isUsed[vertex] || int(vertex) == network)
      flow.addEdge(vertex, sink, unlimited, 0);
  }
  return flow.run(source, sink);
}

} // namespace kolo::cost
