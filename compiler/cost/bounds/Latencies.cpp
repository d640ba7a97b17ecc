#include "compiler/cost/bounds/Latencies.h"

#include <algorithm>
#include <limits>

namespace kolo::cost {

static constexpr double unreachable = std::numeric_limits<double>::infinity();

/// From one vertex to all, over links (Bellman and Ford).
static std::vector<double> latenciesFrom(const Machine &machine, int start) {
  std::vector<double> latency(machine.vertices().size(), unreachable);
  latency[size_t(start)] = 0;
  for (bool changes = true; changes;) {
    changes = false;
    for (const Link &link : machine.links()) {
      double step = std::ranges::min(machine.linkClasses()[size_t(link.linkClass)].latency);
      for (auto [from, to] : {std::pair(link.from, link.to), std::pair(link.to, link.from)})
        if (latency[size_t(from)] + step < latency[size_t(to)]) {
          latency[size_t(to)] = latency[size_t(from)] + step;
          changes = true;
        }
    }
  }
  return latency;
}

/// From a device to the network, or back; through any NIC.
static double latencyToNetwork(const Machine &machine, const std::vector<double> &latencies) {
  double least = unreachable;
  for (size_t vertex = 0; vertex < latencies.size(); ++vertex)
    if (const Vertex &nic = machine.vertices()[vertex]; nic.kind == VertexKind::Nic)
      least =
          std::min(least, latencies[vertex] + std::ranges::min(machine.linkClasses()[size_t(nic.wireClass)].latency));
  return least;
}

/// Between the two farthest nodes. Any way between them has a hop of their common level, or of one outside it.
static double latencyOfNetwork(const Machine &machine, int64_t numNodes) {
  double least = unreachable;
  for (size_t level = machine.commonLevel(0, numNodes - 1); level < machine.levels().size(); ++level)
    least = std::min(least, std::ranges::min(machine.levels()[level].latency));
  return least;
}

double longestLatency(const Machine &machine, const Placement &placement, bool anyPair) {
  std::vector<double> farthest; // by used device: to the rank of this node, or to the network
  for (int device : placement.usedDevices()) {
    std::vector<double> latencies = latenciesFrom(machine, device);
    double most = 0;
    if (placement.numNodes() > 1)
      most = latencyToNetwork(machine, latencies);
    else
      for (int other : placement.usedDevices())
        most = std::max(most, latencies[size_t(other)]);
    farthest.push_back(most);
  }
  double first = anyPair ? std::ranges::max(farthest) : std::ranges::min(farthest);
  if (placement.numNodes() == 1)
    return first;
  return first + latencyOfNetwork(machine, placement.numNodes()) + std::ranges::max(farthest);
}

} // namespace kolo::cost
