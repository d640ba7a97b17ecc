// Finds the routes of a node: fewest hops, then the widest narrowest link, then the lowest vertices. No MLIR here.
#pragma once

#include "compiler/cost/machine/Machine.h"

#include <optional>

namespace kolo::cost {

class RouteFinder {
public:
  /// The machine has its vertices, links, classes and resources.
  explicit RouteFinder(const Machine &machine);

  /// Between two vertices, through devices and switches. Nothing where no way leads.
  std::optional<Route> between(int from, int to) const;

  struct NetworkWays {
    Route out, in;
  };
  /// Through the nearest NIC: see Machine::toNetwork. Nothing where no way leads.
  std::optional<NetworkWays> throughNic(int device) const;

private:
  struct Wire {
    int to, resource; // of Machine::resources
    double width;
  };
  /// The best way from a vertex to a target.
  struct Reach {
    int hops = INT32_MAX;
    double width = 0; // of its narrowest link
  };

  const std::vector<Reach> &reachOf(int target) const;
  void append(Route &route, int resource) const;

  const Machine &machine;
  std::vector<std::vector<Wire>> wiresFrom, wiresTo; // by vertex; `to` of wiresTo is where a wire comes from
  std::vector<int> switchResources, wireOut, wireIn; // by vertex; -1: none
  mutable std::vector<std::vector<Reach>> reaches;   // by target, found when first asked for
};

} // namespace kolo::cost
