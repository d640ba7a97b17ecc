// Least times that any algorithm needs for a collective on a machine. No MLIR here.
//
// Sources: the cut bound of Zhao et al., ForestColl, 2024; latency bounds of Chan et al., 2007.
#pragma once

#include "compiler/cost/Placement.h"
#include "kolo/runtime/PluginAbi.h"

namespace kolo::cost {

/// A bound, and the cut that gives it.
struct LowerBound {
  double seconds = 0; // the larger of both
  double bandwidthSeconds = 0, latencySeconds = 0;
  std::string bottleneck; // the links that the cut goes through: "into {GCD 0, GCD 1}", "out of a group"
};

/// `bytes`: of the larger of one rank's buffers, as `kolo bench` counts them: the output of all_gather and gather, the
/// input of reduce_scatter and scatter, either of the others. All ranks of the placement take part. Bandwidths are peak
/// ones. In a node all cuts are tried; between nodes the levels of the network are.
LowerBound lowerBound(const Machine &machine, const Placement &placement, KoloCollective collective, int64_t bytes);

} // namespace kolo::cost
