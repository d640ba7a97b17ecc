#include "compiler/cost/blocks/BlockNetwork.h"

namespace kolo::cost {

BlockNetwork::BlockNetwork(const Machine &machine, const Placement &placement, Protocol protocol,
                           std::vector<uint32_t> ranks)
    : network(machine, placement, {Rates::Kernel, protocol, /*lanes=*/0}), rankOf(std::move(ranks)),
      laneSignal(machine.device().laneSignal.value_or(0)), firstLane(network.bandwidths().size()),
      bytesPerSecond(network.bandwidths().begin(), network.bandwidths().end()) {
  bytesPerSecond.resize(firstLane + rankOf.size(), machine.device().laneBandwidth.peak);
}

void BlockNetwork::addUses(uint32_t thread, const Instruction &transfer, std::span<const PeerLeg> legs,
                           std::vector<ResourceUse> &uses) const {
  rankLegs.assign(legs.begin(), legs.end());
  for (PeerLeg &leg : rankLegs)
    leg.peer = rankOf[leg.peer];
  Instruction ofRank = transfer;
  ofRank.laneLoad = 0;
  network.addUses(rankOf[thread], ofRank, rankLegs, uses);
  uses.push_back({uint32_t(firstLane + thread), double(transfer.laneLoad)});
}

double BlockNetwork::latency(uint32_t from, uint32_t to) const {
  return rankOf[from] == rankOf[to] ? laneSignal : network.latency(rankOf[from], rankOf[to]);
}

std::optional<size_t> BlockNetwork::slowest(std::span<const double> bytes) const {
  std::optional<size_t> worst;
  double most = 0;
  for (size_t resource = 0; resource < bytes.size(); ++resource)
    if (double seconds = bytes[resource] / bytesPerSecond[resource]; seconds > most * (1 + 1e-9)) {
      most = seconds;
      worst = resource;
    }
  return worst;
}

std::string BlockNetwork::nameOf(size_t resource) const {
  return resource < firstLane ? network.nameOf(resource) : "thread block";
}

std::vector<ResourceLoad> BlockNetwork::loads(std::span<const double> bytes, double seconds) const {
  return network.loads(bytes.first(firstLane), {}, seconds);
}

} // namespace kolo::cost
