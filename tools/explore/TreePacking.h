// Packings of spanning trees: how the devices of one node broadcast to each other, all at the same time, as fast as the
// cuts of the node's graph allow. Used by exploration. No MLIR and no language here.
//
// Method: Zhao et al., ForestColl, 2024. The bound and every step below are questions of largest flows; numbers are
// integers throughout. Switches are removed by splitting off edges (Frank, Connections in Combinatorial Optimization,
// 2011, section 5), trees are packed with multiplicities (Berczi and Frank, Packing Arborescences, 2010).
#pragma once

#include "compiler/cost/machine/Machine.h"

namespace kolo::explore {

/// Vertices 0 to numDevices - 1 take part; what follows are switches, which pass data on.
struct CapacityGraph {
  size_t numDevices = 0;
  std::vector<std::vector<int64_t>> capacity; // [from][to], in units; as much enters a switch as leaves it
  double unit = 1;                            // bytes per second
};

/// The links of one node between these devices and its switches, at peak rates. Device i of the graph is devices[i];
/// other devices and NICs do not take part. Fails where a device is named twice, or cannot be reached without a vertex
/// that is left out, and where a switch has a limit of its own.
std::variant<CapacityGraph, cost::CostMistake> nodeGraph(const cost::Machine &machine, std::span<const int> devices);

struct TreeEdge {
  int from, to;
  int level; // edges from the root have level 0, edges from where those end level 1
};

/// Spans all devices.
struct Tree {
  int root;
  int64_t copies = 1;          // trees that are the same
  std::vector<TreeEdge> edges; // an edge comes behind the one that leads to where it begins
};

/// The same number of trees for each device as root, all of the same bandwidth.
struct TreePacking {
  size_t numDevices = 0;
  int64_t treesPerRoot = 0;
  double treeBandwidth = 0; // bytes per second
  double boundPerRoot = 0;  // bytes per second that a device can broadcast at most, while all others do too
  std::vector<Tree> trees;  // by root; their copies are numbered in this order, from 0 for each root

  /// Of all blocks together: the algorithm bandwidth of an all-gather.
  double bandwidth() const { return double(numDevices) * double(treesPerRoot) * treeBandwidth; }
  double bound() const { return double(numDevices) * boundPerRoot; }
  double fractionOfBound() const { return bandwidth() / bound(); }
};

/// The bound is reached if that takes no more than `mostTreesPerRoot` trees for each root; else the packing has the
/// number of trees up to it that comes nearest to the bound. At least two devices, at most 64. Fails where some device
/// cannot be reached from all others.
std::variant<TreePacking, cost::CostMistake> packTrees(const CapacityGraph &graph, int64_t mostTreesPerRoot);

} // namespace kolo::explore
