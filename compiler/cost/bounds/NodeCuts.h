// The cuts of a node: which sets of its ranks' devices there are, and what can leave each of them. No MLIR here.
//
// Links have the same bandwidth in both directions, so as much can enter a set as can leave it.
#pragma once

#include "compiler/cost/machine/Placement.h"

#include <map>

namespace kolo::cost {

/// Devices that can change places without changing the machine are a class. Only how many of a class a set has matters.
class NodeCuts {
public:
  struct Cut {
    std::vector<int> counts; // by class
    int ranks = 0;           // in the set
    double capacity = 0;     // bytes per second out of the set
  };

  /// The set is on one side, the other ranks' devices and the network are on the other. Switches, NICs and devices
  /// without a rank lie where least can cross (Ford and Fulkerson 1956). A placement of one node does not use the
  /// network. Bandwidths are the largest for working sets of at least so many bytes.
  NodeCuts(const Machine &machine, const Placement &placement, int64_t workingSetBytes);

  /// All sets but the empty one and, in a placement of one node, the whole; the whole node is the last one otherwise.
  /// With more than `maxCuts` of them: the neighbourhoods of every device instead, and what they leave.
  std::span<const Cut> cuts() const { return all; }
  bool hasAllCuts() const { return isComplete; }
  std::span<const std::vector<int>> classes() const { return alike; } // devices

  /// The parts that a partition of a node's devices has, as cuts.
  using Partition = std::vector<const Cut *>;
  /// The partition, the same one in each of so many nodes, with the largest (parts - 1) / (sum of what leaves parts).
  /// Where not all cuts are known: the one into single devices.
  Partition tightestPartition(int64_t numNodes) const;
  static double ratioOf(const Partition &partition, int64_t numNodes);

  static constexpr size_t maxCuts = 1 << 16;

private:
  struct Edge {
    int a, b;
    double capacity;
  };

  void addEdges(int64_t workingSetBytes);
  void findClasses();
  void addAllCuts();
  void addNeighbourhoods();
  void addCut(std::vector<int> counts);
  bool areAlike(int a, int b) const;
  Partition singleDevices() const;
  Partition betterPartition(double ratio) const;
  double capacityOf(const std::vector<bool> &isInside) const;
  double capacityWithFreeVertices(const std::vector<bool> &isInside) const;

  const Machine &machine;
  const Placement &placement;
  bool isComplete = true, hasFreeVertices = false;
  int network; // a vertex beyond the machine's
  std::vector<Edge> edges;
  std::vector<std::map<int, double>> neighbours; // by vertex: what leads there
  std::vector<bool> isUsed;                      // by vertex: has a rank
  std::vector<std::vector<int>> alike;
  std::vector<Cut> all;
  std::vector<size_t> strides; // of classes, in the numbers of all cuts
};

} // namespace kolo::cost
