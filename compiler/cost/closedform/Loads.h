// What one execution of a statement, on all ranks of a mesh, puts on every resource of a machine. No MLIR here.
//
// Ranks that a dimension does not tell apart are counted, not looked at: along it, a relation is a rotation, an
// exclusive or, or "all others", and the borders of nodes and of the network's units cut it into equal intervals. The
// other dimensions are enumerated, all their coordinates, or all dimensions where borders do not fall between
// coordinates. On a mesh of one dimension, ranks that are alike may be told instead, as progressions of coordinates.
#pragma once

#include "compiler/cost/machine/Placement.h"

#include <optional>

namespace kolo::cost {

/// How a relation goes along one mesh dimension: as kolo.step, and `amount` its operand.
struct DimStep {
  enum class Along { Keep, Next, Flip, Others, At, Mapped };
  Along along = Along::Keep;
  int64_t amount = 0;
  std::span<const int64_t> table = {};
};

/// Moves from one combination of coordinates along enumerated dimensions to another; both as the sum of coordinate
/// times Placement::strideOf.
struct EnumeratedMoves {
  int64_t from, to;
  double share;
};

/// Ranks or nodes: `count` of them, each `stride` after the one before.
struct Progression {
  int64_t first = 0, stride = 1, count = 1;

  int64_t operator[](int64_t number) const { return first + number * stride; }
  bool contains(int64_t number) const {
    return number >= first && number <= (*this)[count - 1] && (number - first) % stride == 0;
  }
  /// How many are at least `least` and less than `end`.
  int64_t numBetween(int64_t least, int64_t end) const;
  auto operator<=>(const Progression &) const = default;
};

/// Moves of the same size: of the k-th rank to the k-th, with the same stride; where one side is one rank, to all, or
/// from all, of the other.
struct AlikeMoves {
  Progression from, to;
  double share;
};

/// What moving one byte of the call's elements costs, in bytes of each resource on its way.
struct MoveCost {
  double payload = 1;                                              // as it is encoded on the way
  double wire = 0;                                                 // payload, and what a protocol adds
  double senderMemory = 0, receiverMemory = 0, receiverWrites = 0; // written bytes count in both of the receiver's
  double senderLanes = 0, receiverLanes = 0;
  // For each sender, however many it sends to, and for each receiver, however many send to it.
  double senderMemoryOnce = 0, receiverMemoryOnce = 0, receiverWritesOnce = 0;
  bool operator==(const MoveCost &) const = default;
};

/// One execution of a statement. Shares are parts of the call's bytes.
struct Moves {
  std::vector<DimStep> steps;
  bool isEnumerated = false;               // along the dimensions that the model enumerates
  double share = 0;                        // of each move, if not
  std::vector<EnumeratedMoves> enumerated; // if so,
  std::vector<AlikeMoves> alike;           // or these
  MoveCost cost;
};

/// Bytes on resources, as shares of the call's bytes. On a node's resources: of each class of nodes.
struct Loads {
  std::vector<double> alike;  // by resource: on every node, or unit
  std::vector<double> byNode; // [class of nodes][resource of a node]: in addition; empty: none
  struct OnNodes {
    Progression nodes;
    std::vector<std::pair<size_t, double>> loads; // by resource of a node
  };
  std::vector<OnNodes> onNodes;            // on each of some nodes: in addition
  std::vector<std::vector<double>> byUnit; // [resource of the network][class of units]: in addition; may be empty
  double latency = 0;                      // of the worst message; 0 without moves
  bool moves = false;                      // whether there are any

  /// Loads of what runs at the same time, or of `times` executions. Latencies stay as they are.
  void add(const Loads &other, double times = 1);
};

/// A load divided by its resource's bandwidth.
struct Bottleneck {
  double seconds = 0; // per byte of the call
  double share = 0;
  size_t resource = 0;
};

/// What messages take beside their bytes, at the resource that they take longest.
struct MessageTime {
  double seconds = 0;
  size_t resource = 0;
};

/// Which of a machine's bandwidths count.
struct Speeds {
  Rates rates = Rates::Peak;
  int64_t lanes = 0; // of every rank; 0: as many as it takes
  int64_t workingSetBytes = beyondCaches;
};

class LoadModel {
public:
  /// `asked`: by dimension, whether what moves depends on the coordinate along it.
  LoadModel(const Machine &machine, const Placement &placement, const Speeds &speeds, Protocol protocol,
            std::vector<bool> asked);

  /// What a byte that a lane moves, or reduces, counts on the resource "lanes".
  double laneMove() const { return laneBytes.first; }
  double laneReduction() const { return laneBytes.second; }

  /// Whether a relation goes along a dimension in a way that needs it to be enumerated.
  bool mustEnumerate(size_t dim, const DimStep &step) const;
  /// By dimension; all of them where some are and borders do not fall between coordinates.
  const std::vector<bool> &enumerated() const { return isEnumerated; }
  /// Whether all coordinates along a dimension are in one node.
  bool isInNode(size_t dim) const { return borders[0].lengths[dim] == placement.mesh().sizes[dim]; }
  /// Whether borders fall between coordinates. If not, all dimensions must be enumerated.
  bool isAligned() const { return aligned; }

  /// Whether moves may be told as AlikeMoves.
  bool takesAlikeMoves() const { return placement.mesh().sizes.size() == 1 && aligned && placement.numNodes() > 1; }

  /// Moves that are not enumerated have no step that must be, and the model is aligned.
  Loads loadsOf(const Moves &moves) const;
  /// The resource that takes longest.
  Bottleneck bottleneckOf(const Loads &loads) const { return bottleneckOf(largest(loads)); }
  Bottleneck bottleneckOf(const std::vector<double> &largest) const;
  /// By resource: the largest load over all nodes or units.
  std::vector<double> largest(const Loads &loads) const;
  /// Loads that count messages: one for each move on each link of its way. Empty where they take no time.
  Loads messagesOf(Moves moves) const;
  MessageTime messageTimeOf(const Loads &messages) const;
  /// Seconds that so many messages take a resource.
  double messageSeconds(size_t resource, double messages) const {
    return messages * resources[resource].secondsPerMessage;
  }
  /// The latency of a message between the two ranks that are furthest from each other.
  double worstLatency() const;

  size_t numResources() const { return resources.size(); }
  /// Some resources have no bandwidth, and count what goes from device to device of a node.
  bool isTraffic(size_t resource) const { return resource >= firstTraffic && resource < numNodeResources; }
  /// From loads by resource: by sending and receiving device.
  std::vector<std::vector<double>> trafficOf(const std::vector<double> &loads) const;
  const std::string &nameOf(size_t resource) const { return resources[resource].name; }
  /// Bytes per second; 0: no limit.
  double bandwidthOf(size_t resource) const { return resources[resource].bandwidth; }
  /// Null for lanes, for traffic and for the network's levels.
  const Resource *nodeResource(size_t resource) const;

private:
  struct NamedResource {
    std::string name;
    double bandwidth;
    double secondsPerMessage = 0;
  };
  /// Of a border between nodes, or between units of a level.
  struct Border {
    int64_t positions;            // of a node or of a whole unit
    std::vector<int64_t> lengths; // by dimension: coordinates inside one node or unit
    std::vector<int64_t> last;    // the same for the last unit, which may hold less
    size_t level = 0;
    size_t firstResource = 0; // out; then into
    bool hasResources = false;
    int64_t numUnits = 1;
  };
  /// Pairs of places in a node, of the counted dimensions.
  struct Pair {
    int64_t from, to;
    double inNode, all; // receivers for one sender: in its node, and in any node
    uint32_t borders;   // bit b: some of them have border b - 1 as the outermost between them
  };
  struct Node;

  Border makeBorder(int64_t positions) const;
  void addResources(const Speeds &speeds);
  void addBorders();
  void numberNodes();
  bool fits(const Border &border) const;
  double staying(const Border &border, const Moves &moves, bool isLast) const;
  double sending(const Border &border, const Moves &moves, bool isLast) const;
  bool isCounted(const Moves &moves, size_t dim) const { return !moves.isEnumerated || !isEnumerated[dim]; }
  std::vector<Pair> pairsAlong(size_t dim, const DimStep &step) const;
  uint32_t bordersBetween(size_t dim, const DimStep &step, int64_t distance) const;
  std::vector<Pair> countedPairs(const Moves &moves) const;
  int outermostBorder(int64_t from, int64_t to) const;
  void addLatencies(const std::vector<Pair> &pairs, int64_t fromBase, int64_t toBase, uint32_t borders,
                    Loads &loads) const;
  void addNode(const Moves &moves, const Node &node, const std::vector<Pair> &pairs, double *loads) const;
  void addNodes(const Moves &moves, const std::vector<Pair> &pairs, Loads &loads) const;
  void addUnits(const Moves &moves, Loads &loads) const;
  // Of ranks that are alike: AlikeLoads.cpp.
  struct AlikePart;
  void addAlike(const Moves &moves, Loads &loads) const;
  void addAlikePart(const MoveCost &cost, const AlikePart &part, Loads &loads) const;
  uint32_t addAlikeUnits(double wire, const AlikePart &part, Loads &loads) const;
  void addOnce(const Moves &moves, Loads &loads) const;
  void takeLargestOnNodes(const Loads &loads, std::vector<double> &most) const;
  int deviceAt(int64_t place) const { return placement.usedDevices()[size_t(place)]; }

  const Machine &machine;
  const Placement &placement;
  Protocol protocol;
  std::vector<bool> isEnumerated;
  bool aligned = true;
  std::pair<double, double> laneBytes;
  std::vector<NamedResource> resources;
  size_t firstLane = 0, firstTraffic = 0, numNodeResources = 0;
  std::vector<Border> borders; // of nodes, then of units that do not hold all nodes, from the inside out
  std::vector<int32_t> classOfNode;
  size_t numClasses = 0;
};

} // namespace kolo::cost
