// Which device of which node each rank of a mesh runs on. No MLIR here.
#pragma once

#include "compiler/cost/machine/Machine.h"

#include <optional>

namespace kolo::cost {

/// A mesh as the command line gives it, slowest dimension first.
struct PlacedMesh {
  std::vector<std::string> names;
  std::vector<int64_t> sizes;
  int64_t numRanks() const;
};

/// The most ranks of a mesh.
inline constexpr int64_t maxPlacedRanks = 1 << 20;

/// Ranks fill nodes one after the other. Within the text of `--placement`, fields are separated by blanks:
///   order=gpu,node           dimensions, slowest first, by which ranks are numbered for this; default: the mesh's
///   devices=0,1,5,4,6,7,3,2  devices of a node, in the order in which they get ranks; default: all, as numbered
///   per-node=4               ranks of a node; default: the number of `devices`, or all ranks where they are fewer
/// Ranks that do not fill the last node are refused, and so are more nodes than the machine has. Mistakes begin with
/// "mesh: " or "placement: " and the field.
class Placement {
public:
  static std::variant<Placement, CostMistake> create(const Machine &machine, const PlacedMesh &mesh,
                                                     const std::string &text = "");

  const PlacedMesh &mesh() const { return placedMesh; }
  int64_t numRanks() const { return ranks; }
  int64_t numNodes() const { return ranks / perNode; }
  int ranksPerNode() const { return int(perNode); }
  int64_t nodeOf(int64_t rank) const { return position(rank) / perNode; }
  int deviceOf(int64_t rank) const { return devices[size_t(position(rank) % perNode)]; }
  /// The rank on a node's k-th used device.
  int64_t rankAt(int64_t node, int k) const;
  /// Number of a rank in the order in which ranks fill nodes.
  int64_t position(int64_t rank) const;
  /// Distance, in that order, between ranks that differ by one in a dimension.
  int64_t strideOf(size_t dim) const { return strides[dim]; }
  std::span<const int> usedDevices() const { return devices; }

private:
  PlacedMesh placedMesh;
  int64_t ranks = 1, perNode = 1;
  std::vector<int64_t> strides; // by mesh dimension
  std::vector<size_t> order;    // mesh dimensions, slowest first
  std::vector<int> devices;
};

} // namespace kolo::cost
