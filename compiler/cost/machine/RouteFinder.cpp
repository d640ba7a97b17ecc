#include "compiler/cost/machine/RouteFinder.h"

#include <algorithm>
#include <deque>
#include <limits>

namespace kolo::cost {

RouteFinder::RouteFinder(const Machine &machine) : machine(machine) {
  size_t count = machine.vertices().size();
  wiresFrom.resize(count);
  wiresTo.resize(count);
  switchResources.assign(count, -1);
  wireOut = wireIn = switchResources;
  reaches.resize(count);
  for (size_t number = 0; number < machine.resources().size(); ++number) {
    const Resource &resource = machine.resources()[number];
    if (resource.kind == Resource::Kind::Switch)
      switchResources[size_t(resource.from)] = int(number);
    else if (resource.kind == Resource::Kind::Link && resource.to < 0)
      wireOut[size_t(resource.from)] = int(number);
    else if (resource.kind == Resource::Kind::Link && resource.from < 0)
      wireIn[size_t(resource.to)] = int(number);
    else if (resource.kind == Resource::Kind::Link) {
      wiresFrom[size_t(resource.from)].push_back({resource.to, int(number), resource.peak.peak});
      wiresTo[size_t(resource.to)].push_back({resource.from, int(number), resource.peak.peak});
    }
  }
  for (auto &wires : wiresFrom)
    std::ranges::sort(wires, {}, &Wire::to);
}

/// Breadth first, backwards from the target. A vertex has its final width when it leaves the queue: all that are one
/// hop nearer have left before.
const std::vector<RouteFinder::Reach> &RouteFinder::reachOf(int target) const {
  std::vector<Reach> &reach = reaches[size_t(target)];
  if (!reach.empty())
    return reach;
  reach.resize(wiresTo.size());
  reach[size_t(target)] = {0, std::numeric_limits<double>::infinity()};
  for (std::deque<int> queue = {target}; !queue.empty(); queue.pop_front()) {
    int here = queue.front();
    if (here != target && machine.vertices()[size_t(here)].kind == VertexKind::Nic)
      continue; // a way ends at a NIC
    for (const Wire &wire : wiresTo[size_t(here)]) {
      Reach &there = reach[size_t(wire.to)];
      if (there.hops == INT32_MAX) {
        there.hops = reach[size_t(here)].hops + 1;
        queue.push_back(wire.to);
      }
      if (there.hops == reach[size_t(here)].hops + 1)
        there.width = std::max(there.width, std::min(wire.width, reach[size_t(here)].width));
    }
  }
  return reach;
}

void RouteFinder::append(Route &route, int resource) const {
  route.resources.push_back(resource);
  const Resource &wire = machine.resources()[size_t(resource)];
  for (size_t protocol = 0; wire.linkClass >= 0 && protocol < numProtocols; ++protocol)
    route.latency[protocol] += machine.linkClasses()[size_t(wire.linkClass)].latency[protocol];
}

std::optional<Route> RouteFinder::between(int from, int to) const {
  const std::vector<Reach> &reach = reachOf(to);
  Reach best = reach[size_t(from)];
  if (best.hops == INT32_MAX)
    return std::nullopt;
  Route route;
  for (int here = from; here != to;) {
    auto next = std::ranges::find_if(wiresFrom[size_t(here)], [&](const Wire &wire) {
      const Reach &there = reach[size_t(wire.to)];
      return there.hops == reach[size_t(here)].hops - 1 && std::min(wire.width, there.width) >= best.width;
    });
    append(route, next->resource);
    here = next->to;
    if (here != to && switchResources[size_t(here)] >= 0)
      append(route, switchResources[size_t(here)]);
  }
  return route;
}

std::optional<RouteFinder::NetworkWays> RouteFinder::throughNic(int device) const {
  std::vector<int> nearest;
  Reach best;
  for (int vertex = 0; vertex < int(machine.vertices().size()); ++vertex) {
    if (machine.vertices()[size_t(vertex)].kind != VertexKind::Nic)
      continue;
    Reach reach = reachOf(vertex)[size_t(device)];
    if (reach.hops == INT32_MAX || reach.hops > best.hops || (reach.hops == best.hops && reach.width < best.width))
      continue;
    if (reach.hops < best.hops || reach.width > best.width)
      nearest.clear();
    best = reach;
    nearest.push_back(vertex);
  }
  if (nearest.empty())
    return std::nullopt;
  int nic = nearest[size_t(device) % nearest.size()];
  NetworkWays ways{*between(device, nic), {}};
  append(ways.out, wireOut[size_t(nic)]);
  append(ways.in, wireIn[size_t(nic)]);
  Route inside = *between(nic, device);
  for (int resource : inside.resources)
    append(ways.in, resource);
  ways.out.crossesNetwork = ways.in.crossesNetwork = true;
  return ways;
}

} // namespace kolo::cost
