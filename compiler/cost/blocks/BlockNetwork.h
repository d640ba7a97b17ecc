// A machine on which thread blocks run: what Network says of their ranks' moves, and a rate for each block. Used by
// BlockTimes. No MLIR.
#pragma once

#include "compiler/cost/simulation/Network.h"

namespace kolo::cost {

class BlockNetwork : public SimulatedNetwork {
public:
  /// `rankOf`: of each thread block, of which there are as many.
  BlockNetwork(const Machine &machine, const Placement &placement, Protocol protocol, std::vector<uint32_t> rankOf);

  std::span<const double> bandwidths() const override { return bytesPerSecond; }
  void addUses(uint32_t thread, const Instruction &transfer, std::span<const PeerLeg> legs,
               std::vector<ResourceUse> &uses) const override;
  /// Between two blocks of a rank: a signal from lane to lane.
  double latency(uint32_t from, uint32_t to) const override;
  double entryLatency() const override { return network.entryLatency(); }

  /// Of the resource that takes longest for so many bytes each; nothing if none takes any time.
  std::optional<size_t> slowest(std::span<const double> bytes) const;
  std::string nameOf(size_t resource) const;
  std::vector<ResourceLoad> loads(std::span<const double> bytes, double seconds) const;

private:
  Network network;
  std::vector<uint32_t> rankOf;
  double laneSignal;
  size_t firstLane;
  std::vector<double> bytesPerSecond;
  mutable std::vector<PeerLeg> rankLegs;
};

} // namespace kolo::cost
