// A machine with a placement, as the resources and latencies that Simulator asks for. No MLIR here.
#pragma once

#include "compiler/cost/Prediction.h"
#include "compiler/cost/machine/Placement.h"
#include "compiler/cost/simulation/Simulator.h"

namespace kolo::cost {

struct NetworkOptions {
  Rates rates = Rates::Peak;
  Protocol protocol = Protocol::Bulk;
  int64_t lanes = 0; // of every rank; 0: as many as it takes
  int64_t workingSetBytes = beyondCaches;
};

/// What README.md of this folder says that a move takes. Resources are those of all nodes in use, then one for each
/// direction of every unit of the network's levels, then the lanes of every rank.
class Network : public SimulatedNetwork {
public:
  Network(const Machine &machine, const Placement &placement, const NetworkOptions &options);

  std::span<const double> bandwidths() const override { return bytesPerSecond; }
  void addUses(uint32_t rank, const Instruction &transfer, std::span<const PeerLeg> legs,
               std::vector<ResourceUse> &uses) const override;
  std::span<const double> bytesPerMessage() const override { return messageBytes; }
  double latency(uint32_t from, uint32_t to) const override;
  double entryLatency() const override;
  /// Those that move whole nodes, and units of levels: by an exclusive or, and around.
  std::vector<NetworkSymmetry> symmetries() const override;

  /// As reports name a bottleneck: "quad link GCD 0 -> GCD 1", "out of a group", "lanes of GCD 0".
  std::string nameOf(size_t resource) const;
  /// The resource that takes longest for so many bytes, and messages, each; nothing if none takes any time. Messages
  /// may be empty.
  std::optional<size_t> slowest(std::span<const double> bytes, std::span<const double> messages) const;
  /// What each resource of a node carries in the node where it carries most, and each level in its most loaded unit;
  /// without those that carry nothing or have no limit.
  std::vector<ResourceLoad> loads(std::span<const double> bytes, std::span<const double> messages,
                                  double seconds) const;

private:
  struct Position {
    int64_t node;
    int device;
  };
  void addRoute(uint32_t from, uint32_t to, double load, std::vector<ResourceUse> &uses) const;
  void addLocal(const Position &at, const std::vector<int> &resources, double load,
                std::vector<ResourceUse> &uses) const;
  double laneFactor(const Instruction &transfer, std::span<const PeerLeg> legs) const;
  void addMemory(uint32_t rank, double load, bool isWritten, std::vector<ResourceUse> &uses) const;
  void add(size_t resource, double load, std::vector<ResourceUse> &uses, double messages = 0) const;
  double busySeconds(size_t resource, std::span<const double> bytes, std::span<const double> messages) const;
  int64_t numNodes() const { return int64_t(firstOfLevels / perNode); }
  int64_t leastRotation() const;
  bool canFlip() const;
  NetworkSymmetry symmetryOf(int64_t nodes, std::function<int64_t(int64_t move, int64_t node)> nodeAfter) const;
  size_t unitResource(size_t level, int64_t node, bool isInto) const;

  const Machine &machine;
  Protocol protocol;
  double wireLoad;                 // bytes on a wire for a byte of payload
  double reductionLoad;            // of lanes, for a byte of a source that is reduced
  double packetLoad;               // of lanes, for a byte that goes in packets
  std::vector<Position> positions; // of ranks
  size_t perNode, firstOfLevels, firstOfLanes;
  std::vector<size_t> firstOfLevel;
  std::vector<std::string> names; // of a node's resources, of levels' directions, of a node's lanes
  std::vector<double> bytesPerSecond;
  std::vector<double> messageBytes;      // as bytesPerMessage
  mutable std::vector<uint32_t> placeOf; // in the uses that are being made
};

} // namespace kolo::cost
