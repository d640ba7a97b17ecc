// Small networks with transfers that depend on each other, for the simulator and for SimGrid alike.
#pragma once

#include <string>
#include <vector>

namespace kolo::cost::test {

struct RefereeFlow {
  double bytes;
  std::vector<int> links;
  double start = 0;            // seconds, after all of `after` have ended
  std::vector<int> after = {}; // other flows, with lower numbers
};

struct RefereeCase {
  std::string name;
  std::vector<double> bandwidths; // of links, bytes per second
  std::vector<RefereeFlow> flows;
};

std::vector<RefereeCase> refereeCases();

/// When each flow ends, by SimGrid's fluid model, for all cases. Once in a process.
std::vector<std::vector<double>> simgridEnds(const std::vector<RefereeCase> &cases);

} // namespace kolo::cost::test
