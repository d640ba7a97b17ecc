#include "tools/explore/SwitchRemoval.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdlib>

namespace kolo::explore {

/// The devices are fed by one more vertex, the last. The numbers are integers, which doubles hold exactly.
static cost::MaxFlow flowFromDevices(const Capacities &capacities, size_t numDevices, int64_t amount) {
  cost::MaxFlow flow(capacities.size() + 1);
  for (size_t from = 0; from < capacities.size(); ++from)
    for (size_t to = 0; to < capacities.size(); ++to)
      if (capacities[from][to] > 0)
        flow.addEdge(from, to, double(capacities[from][to]), 0);
  for (size_t device = 0; device < numDevices; ++device)
    flow.addEdge(capacities.size(), device, double(amount), 0);
  return flow;
}

std::optional<std::vector<bool>> findTightCut(const Capacities &capacities, size_t numDevices, int64_t amount,
                                              size_t device) {
  cost::MaxFlow flow = flowFromDevices(capacities, numDevices, amount);
  if (std::llround(flow.run(capacities.size(), device)) >= int64_t(numDevices) * amount)
    return std::nullopt;
  std::vector<bool> side(capacities.size());
  for (size_t vertex = 0; vertex < side.size(); ++vertex)
    side[vertex] = flow.isOnSourceSide(vertex);
  return side;
}

int64_t shortage(const Capacities &capacities, size_t numDevices, int64_t amount) {
  int64_t most = 0;
  for (size_t device = 0; device < numDevices; ++device) {
    double reached = flowFromDevices(capacities, numDevices, amount).run(capacities.size(), device);
    most = std::max(most, int64_t(numDevices) * amount - int64_t(std::llround(reached)));
  }
  return most;
}

/// Leads so much around the switch; a way back to where it came from is dropped.
static void splitOff(Capacities &capacities, size_t from, size_t over, size_t to, int64_t much) {
  capacities[from][over] -= much;
  capacities[over][to] -= much;
  if (from != to)
    capacities[from][to] += much;
}

/// As much as the cuts allow: each cut that it concerns loses all of it.
static void splitOffMost(Capacities &capacities, size_t numDevices, int64_t amount, size_t from, size_t over, size_t to,
                         int64_t most) {
  int64_t much = std::min({most, capacities[from][over], capacities[over][to]});
  if (much == 0)
    return;
  splitOff(capacities, from, over, to, much);
  if (int64_t missing = shortage(capacities, numDevices, amount); missing > 0)
    splitOff(capacities, from, over, to, -std::min(much, missing));
}

/// First evenly from everywhere, so that trees become shallow, then what is left.
static void removeSwitch(Capacities &capacities, size_t numDevices, int64_t amount, size_t removed) {
  for (size_t to = 0; to < capacities.size(); ++to) {
    int64_t sources = 0;
    for (size_t from = 0; from < capacities.size(); ++from)
      sources += from != to && capacities[from][removed] > 0;
    int64_t share = (capacities[removed][to] + std::max<int64_t>(sources, 1) - 1) / std::max<int64_t>(sources, 1);
    for (int64_t most : {share, capacities[removed][to]})
      for (size_t from = 0; from < capacities.size(); ++from)
        if (from != to)
          splitOffMost(capacities, numDevices, amount, from, removed, to, most);
    splitOffMost(capacities, numDevices, amount, to, removed, to, capacities[removed][to]);
    assert(capacities[removed][to] == 0 && "Frank 2011: an edge out of a switch can be split off");
  }
}

void removeSwitches(Capacities &capacities, size_t numDevices, int64_t amount) {
  while (capacities.size() > numDevices) {
    removeSwitch(capacities, numDevices, amount, capacities.size() - 1);
    capacities.pop_back();
    for (std::vector<int64_t> &row : capacities)
      row.pop_back();
  }
}

} // namespace kolo::explore
