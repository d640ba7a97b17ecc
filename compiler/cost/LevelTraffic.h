// What goes between nodes, by the network's levels. A simulation gives it, and reports show it.
#pragma once

#include <string>

namespace kolo::cost {

/// Between nodes whose innermost common unit is of the level.
struct LevelTraffic {
  std::string level; // "group", "global"
  double bytes = 0;  // payload, as it is encoded, of all ranks
};

} // namespace kolo::cost
