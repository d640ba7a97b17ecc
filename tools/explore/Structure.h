// What exploration chooses among: structures, which say how building blocks are put together on which mesh. Whoever
// knows the language makes a choreography of each. No MLIR and no language here.
#pragma once

#include "tools/explore/TreePacking.h"

#include "compiler/cost/machine/Placement.h"
#include "kolo/runtime/PluginAbi.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kolo::explore {

/// How data goes along one dimension of the mesh.
enum class Block {
  Ring,              // N-1 steps
  RecursiveDoubling, // log2 N steps; halving, where it reduces
  Bruck,             // ceil(log2 N) steps, any N
  AllPairs,          // one step
  Stepped,           // all pairs, one distance after the other
  Binomial,          // a tree of ceil(log2 N) levels
  Chain,             // from one rank to the next
  Alternating,       // log2 N steps by distances of alternating sign, near first; of a broadcast: a tree, far first
  Multiplying,       // recursive multiplying in groups of four
  Trees,             // along a packing of trees into the node's graph
  Exchange           // of an all-reduce: log2 N exchanges of everything
};

inline constexpr int multiplyingRadix = 4; // of Block::Multiplying

/// "ring", "recursiveDoubling".
const char *toString(Block block);

struct Phase {
  size_t dim; // number of the mesh dimension
  Block block;
  bool operator==(const Phase &) const = default;
};

enum class Striping {
  None,
  Rings,    // two parts of every chunk for each of the node's rings: one goes around it, the other goes back
  TwoWay,   // two parts of every chunk; the second goes around rings the other way
  Turned,   // a part of every chunk for each phase; each part begins with another phase
  Scattered // of a broadcast: the root scatters along the last phase's dimension, which gathers at the end
};

/// What a node's graph offers, found once for a machine.
struct NodeGraphs {
  std::vector<std::vector<int64_t>> rings; // orders of the devices; no link is in more rings than it is wide
  std::optional<TreePacking> packing;
};
NodeGraphs findGraphs(const cost::Machine &machine);

/// The rings, each begun where it enters and leaves a node by other NICs than the rings before it, as far as there are.
std::vector<std::vector<int64_t>> turnedToNics(std::vector<std::vector<int64_t>> rings, const cost::Machine &machine);

/// Phases, one for each dimension, on a mesh that fits the machine. A collective that reduces goes through its phases
/// in this order; an all-reduce goes back through them to gather.
struct Structure {
  KoloCollective collective = KOLO_ALL_GATHER;
  std::vector<std::string> dims; // of the mesh, slowest first
  std::vector<int64_t> sizes;
  std::string placement; // see cost::Placement
  std::vector<Phase> phases;
  Striping striping = Striping::None;
  std::shared_ptr<const NodeGraphs> graphs = {}; // of the machine

  /// Whether a phase goes along trees; then every block is cut in as many pieces as a root has trees.
  bool usesTrees() const;
  cost::PlacedMesh mesh() const { return {dims, sizes}; }
  int64_t numRanks() const { return mesh().numRanks(); }
  /// An identifier: "allGatherNodeRingGpuAllPairs". Structures of one name differ in sizes and placement only.
  std::string name() const;
  /// For people: "ring along node, then all pairs along gpu, two ways".
  std::string describe() const;
  bool operator==(const Structure &) const;
};

/// Rings as NCCL and RCCL run them: through the devices of a node in each of these orders and on to the next node, both
/// ways. The mesh has one dimension, "gpu", for the devices of all nodes. All-gather, reduce-scatter, all-reduce only.
Structure ringsThroughNodes(KoloCollective collective, const std::vector<std::vector<int64_t>> &rings,
                            int64_t numNodes);

/// All structures for a collective on so many nodes of a machine, and why others are left out.
struct Space {
  std::vector<Structure> structures;     // in an order that is always the same; those of one mesh follow each other
  std::map<std::string, size_t> leftOut; // number of structures, by reason
};

/// Empty for reduce, gather and scatter, which have no building blocks of several levels.
Space enumerate(const cost::Machine &machine, int64_t numNodes, KoloCollective collective);

/// How ranks may be numbered on a machine: which meshes of how many dimensions, each with its placements.
struct FittingMesh {
  std::vector<std::string> dims;
  std::vector<int64_t> sizes;
  std::string placement;
};
/// One dimension for all ranks; nodes and their devices; devices in groups that wider links join; nodes in the units of
/// the network's levels. At most four dimensions.
std::vector<FittingMesh> meshesFor(const cost::Machine &machine, int64_t numNodes);

/// The cycle through all devices of a node along direct links whose narrowest is widest; the first in lexicographic
/// order. Empty: there is none.
std::vector<int64_t> widestRing(const cost::Machine &machine);

} // namespace kolo::explore
