// A machine as JSON, and for how many nodes its bounds are shown. Used by `kolo machine` and `kolo probe`.
#pragma once

#include "compiler/cost/bounds/Bounds.h"

#include <nlohmann/json_fwd.hpp>

#include <vector>

namespace kolo::tools {

/// One node, a unit of each level, and all nodes.
std::vector<int64_t> shownNodes(const cost::Machine &machine);

/// With all devices of so many nodes.
cost::LowerBounds boundsOn(const cost::Machine &machine, int64_t nodes);

/// In SI units; the machine as it was understood, with what was derived from the file. `schedules` has a CostReport's
/// fields: a schedule for each collective and number of nodes, which takes as long as the lower bound.
nlohmann::ordered_json machineJson(const cost::Machine &machine);

} // namespace kolo::tools
