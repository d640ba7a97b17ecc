// The least latencies between devices, over any links and with any protocol. No MLIR here.
#pragma once

#include "compiler/cost/machine/Placement.h"

namespace kolo::cost {

/// Seconds. The longest of the shortest ways between two ranks; with `anyPair` false, of those from the rank for which
/// it is shortest.
double longestLatency(const Machine &machine, const Placement &placement, bool anyPair);

} // namespace kolo::cost
