#include "compiler/cost/simulation/Network.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace kolo::cost {

constexpr double unlimited = std::numeric_limits<double>::infinity();
constexpr uint32_t nowhere = UINT32_MAX;

static double orUnlimited(double bandwidth) { return bandwidth > 0 ? bandwidth : unlimited; }

Network::Network(const Machine &machine, const Placement &placement, const NetworkOptions &options)
    : machine(machine), protocol(options.protocol), wireLoad(1 / machine.payloadShare(options.protocol)),
      perNode(machine.resources().size()) {
  const int64_t numNodes = placement.numNodes();
  for (int64_t rank = 0; rank < placement.numRanks(); ++rank)
    positions.push_back({placement.nodeOf(rank), placement.deviceOf(rank)});
  std::vector<double> inNode;
  for (const Resource &resource : machine.resources())
    inNode.push_back(orUnlimited(resource.bandwidth(options.rates, options.workingSetBytes)));
  bytesPerSecond.reserve(size_t(numNodes) * perNode);
  for (int64_t node = 0; node < numNodes; ++node)
    bytesPerSecond.insert(bytesPerSecond.end(), inNode.begin(), inNode.end());
  firstOfLevels = bytesPerSecond.size();
  for (size_t level = 0; level < machine.levels().size(); ++level) {
    const Level &units = machine.levels()[level];
    firstOfLevel.push_back(bytesPerSecond.size());
    size_t numUnits = size_t(machine.unitOf(level, numNodes - 1)) + 1;
    bytesPerSecond.resize(bytesPerSecond.size() + 2 * numUnits, orUnlimited(units.bandwidth));
  }
  firstOfLanes = bytesPerSecond.size();
  double lane = machine.device().laneBandwidth.at(options.workingSetBytes);
  double reduction = machine.device().laneReduction.at(options.workingSetBytes);
  reductionLoad = lane > 0 && reduction > 0 ? lane / reduction : 1;
  packetLoad = 1 / of(machine.device().laneShare, protocol);
  bytesPerSecond.resize(firstOfLanes + positions.size(), orUnlimited(double(options.lanes) * lane));
  placeOf.assign(bytesPerSecond.size(), nowhere);
  if (!machine.limitsMessages())
    return;
  messageBytes.resize(bytesPerSecond.size());
  for (size_t number = 0; number < firstOfLevels; ++number)
    if (double seconds = machine.resources()[number % perNode].secondsPerMessage; seconds > 0)
      messageBytes[number] = seconds * bytesPerSecond[number];
}

void Network::add(size_t resource, double load, std::vector<ResourceUse> &uses, double messages) const {
  uint32_t &place = placeOf[resource];
  if (place == nowhere) {
    place = uint32_t(uses.size());
    uses.push_back({uint32_t(resource), 0});
  }
  uses[place].load += load;
  uses[place].messages += messages;
}

/// Along the links of a route: a message crosses all of them.
void Network::addLocal(const Position &at, const std::vector<int> &resources, double load,
                       std::vector<ResourceUse> &uses) const {
  for (int resource : resources)
    add(size_t(at.node) * perNode + size_t(resource), load, uses, /*messages=*/1);
}

void Network::addMemory(uint32_t rank, double load, bool isWritten, std::vector<ResourceUse> &uses) const {
  const Position &at = positions[rank];
  add(size_t(at.node) * perNode + size_t(machine.memoryOf(at.device)), load, uses);
  if (int writes = machine.writesOf(at.device); isWritten && writes >= 0)
    add(size_t(at.node) * perNode + size_t(writes), load, uses);
}

size_t Network::unitResource(size_t level, int64_t node, bool isInto) const {
  return firstOfLevel[level] + 2 * size_t(machine.unitOf(level, node)) + isInto;
}

void Network::addRoute(uint32_t from, uint32_t to, double load, std::vector<ResourceUse> &uses) const {
  const Position &a = positions[from], &b = positions[to];
  if (a.node == b.node) {
    addLocal(a, machine.route(a.device, b.device).resources, load, uses);
    return;
  }
  addLocal(a, machine.toNetwork(a.device).resources, load, uses);
  for (size_t level = 0; level < machine.commonLevel(a.node, b.node); ++level) {
    add(unitResource(level, a.node, false), load, uses);
    add(unitResource(level, b.node, true), load, uses);
  }
  addLocal(b, machine.fromNetwork(b.device).resources, load, uses);
}

/// Packets go at the lane's rate of their protocol, and sums at that of reductions: the slower of both.
double Network::laneFactor(const Instruction &transfer, std::span<const PeerLeg> legs) const {
  double ofPackets = std::ranges::any_of(legs, &PeerLeg::isPackets) ? packetLoad : 1;
  return std::max(transfer.reduces ? reductionLoad : 1, ofPackets);
}

void Network::addUses(uint32_t rank, const Instruction &transfer, std::span<const PeerLeg> legs,
                      std::vector<ResourceUse> &uses) const {
  for (const PeerLeg &leg : legs) {
    double inMemory = leg.bytes * (leg.isPackets ? wireLoad : 1), onWires = leg.bytes * wireLoad;
    switch (leg.kind) {
    case Leg::Kind::ReadOwn:
    case Leg::Kind::WriteOwn:
      addMemory(rank, inMemory, leg.kind == Leg::Kind::WriteOwn, uses);
      break;
    case Leg::Kind::ReadPeer:
      addMemory(leg.peer, inMemory, false, uses);
      addRoute(leg.peer, rank, onWires, uses);
      break;
    case Leg::Kind::WritePeer:
      addRoute(rank, leg.peer, onWires, uses);
      addMemory(leg.peer, inMemory, true, uses);
    }
  }
  if (transfer.laneLoad > 0)
    add(firstOfLanes + rank, double(transfer.laneLoad) * laneFactor(transfer, legs), uses);
  for (const ResourceUse &use : uses)
    placeOf[use.resource] = nowhere;
}

double Network::latency(uint32_t from, uint32_t to) const {
  const Position &a = positions[from], &b = positions[to];
  if (a.node == b.node)
    return of(machine.route(a.device, b.device).latency, protocol);
  return of(machine.toNetwork(a.device).latency, protocol) +
         of(machine.levels()[machine.commonLevel(a.node, b.node)].latency, protocol) +
         of(machine.fromNetwork(b.device).latency, protocol);
}

double Network::entryLatency() const {
  double most = 0;
  std::vector<uint32_t> firstOf(size_t(machine.devicesPerNode()), nowhere);
  // Every node is like the first, and every level's units are alike: the ranks of node 0 send to those of node 0, and
  // to those of the last node within every level.
  std::vector<uint32_t> near;
  for (uint32_t rank = 0; rank < positions.size(); ++rank)
    if (positions[rank].node == 0)
      near.push_back(rank);
  for (uint32_t a : near)
    for (uint32_t b : near)
      most = std::max(most, latency(a, b));
  double out = 0, in = 0, between = 0;
  int64_t lastNode = numNodes() - 1;
  if (lastNode == 0)
    return most;
  for (uint32_t rank : near) {
    out = std::max(out, of(machine.toNetwork(positions[rank].device).latency, protocol));
    in = std::max(in, of(machine.fromNetwork(positions[rank].device).latency, protocol));
  }
  for (size_t level = machine.commonLevel(0, 1); level <= machine.commonLevel(0, lastNode); ++level)
    between = std::max(between, of(machine.levels()[level].latency, protocol));
  return std::max(most, out + between + in);
}

/// Of the least rotation that maps nodes to nodes, and units to units; 0 if there is none.
int64_t Network::leastRotation() const {
  int64_t nodes = 1;
  for (const Level &level : machine.levels())
    if (level.nodes < numNodes())
      nodes = std::max(nodes, level.nodes);
  bool isWhole = numNodes() % nodes == 0 && int64_t(positions.size()) % numNodes() == 0;
  for (const Level &level : machine.levels())
    isWhole &= level.nodes >= numNodes() || nodes % level.nodes == 0;
  return isWhole && nodes < numNodes() ? nodes : 0;
}

/// Whether an exclusive or of nodes with any number maps nodes to nodes, and units to units.
bool Network::canFlip() const {
  auto isPower = [](int64_t nodes) { return std::has_single_bit(uint64_t(nodes)); };
  return numNodes() > 1 && isPower(numNodes()) && int64_t(positions.size()) % numNodes() == 0 &&
         std::ranges::all_of(machine.levels(),
                             [&](const Level &level) { return level.nodes >= numNodes() || isPower(level.nodes); });
}

/// The nodes below `nodes` stand for all; what several nodes of a unit put on its resources, one of them does then.
/// `nodeAfter`: where a move leads from a node.
NetworkSymmetry Network::symmetryOf(int64_t nodes, std::function<int64_t(int64_t move, int64_t node)> nodeAfter) const {
  size_t numVertices = machine.vertices().size();
  std::vector<uint32_t> rankAt(size_t(numNodes()) * numVertices); // by node and device
  for (uint32_t rank = 0; rank < positions.size(); ++rank)
    rankAt[size_t(positions[rank].node) * numVertices + size_t(positions[rank].device)] = rank;
  NetworkSymmetry symmetry;
  symmetry.numAlike = uint32_t(numNodes() / nodes);
  symmetry.shareOf.assign(bytesPerSecond.size(), 1);
  for (const Position &at : positions)
    symmetry.rankOf.push_back(rankAt[size_t(at.node % nodes) * numVertices + size_t(at.device)]);
  for (size_t resource = 0; resource < firstOfLevels; ++resource)
    symmetry.resourceOf.push_back(uint32_t(resource % (size_t(nodes) * perNode)));
  for (size_t level = 0; level < firstOfLevel.size(); ++level)
    for (int64_t unit = 0; unit <= machine.unitOf(level, numNodes() - 1); ++unit)
      for (bool isInto : {false, true}) {
        int64_t inUnit = machine.levels()[level].nodes;
        symmetry.shareOf[symmetry.resourceOf.size()] = std::max(1.0, double(inUnit) / double(nodes));
        symmetry.resourceOf.push_back(uint32_t(unitResource(level, unit * inUnit % nodes, isInto)));
      }
  for (uint32_t rank : symmetry.rankOf)
    symmetry.resourceOf.push_back(uint32_t(firstOfLanes + rank));
  symmetry.moved = [this, numVertices, rankAt = std::move(rankAt), nodeAfter = std::move(nodeAfter)](uint32_t move,
                                                                                                     uint32_t rank) {
    const Position &at = positions[rank];
    return rankAt[size_t(nodeAfter(move, at.node)) * numVertices + size_t(at.device)];
  };
  return symmetry;
}

std::vector<NetworkSymmetry> Network::symmetries() const {
  std::vector<NetworkSymmetry> result;
  if (canFlip())
    result.push_back(symmetryOf(1, [](int64_t move, int64_t node) { return node ^ move; }));
  if (int64_t nodes = leastRotation())
    result.push_back(
        symmetryOf(nodes, [=, this](int64_t move, int64_t node) { return (node + move * nodes) % numNodes(); }));
  return result;
}

std::string Network::nameOf(size_t resource) const {
  if (resource >= firstOfLanes)
    return "lanes of " + machine.vertices()[size_t(positions[resource - firstOfLanes].device)].name;
  if (resource < firstOfLevels) {
    const Resource &found = machine.resources()[resource % perNode];
    return (found.linkClass >= 0 ? machine.linkClasses()[size_t(found.linkClass)].name + " link " : "") + found.name;
  }
  size_t level = size_t(std::ranges::upper_bound(firstOfLevel, resource) - firstOfLevel.begin()) - 1;
  bool isInto = (resource - firstOfLevel[level]) % 2 == 1;
  return (isInto ? "into a " : "out of a ") + machine.levels()[level].name;
}

double Network::busySeconds(size_t resource, std::span<const double> bytes, std::span<const double> messages) const {
  double more = messages.empty() ? 0 : messages[resource] * messageBytes[resource];
  return (bytes[resource] + more) / bytesPerSecond[resource];
}

std::optional<size_t> Network::slowest(std::span<const double> bytes, std::span<const double> messages) const {
  std::optional<size_t> worst;
  double most = 0;
  for (size_t resource = 0; resource < bytes.size(); ++resource) {
    if (bytes[resource] == 0) // then there is no message either
      continue;
    if (double seconds = busySeconds(resource, bytes, messages); seconds > most * (1 + 1e-9)) {
      most = seconds;
      worst = resource;
    }
  }
  return worst;
}

std::vector<ResourceLoad> Network::loads(std::span<const double> bytes, std::span<const double> messages,
                                         double seconds) const {
  std::vector<ResourceLoad> result;
  auto addMost = [&](size_t first, size_t stride, size_t end, ResourceLoad load) {
    size_t most = first;
    for (size_t resource = first; resource < end; resource += stride)
      if (bytes[resource] > bytes[most])
        most = resource;
    if (bytes[most] == 0 || bytesPerSecond[most] == unlimited)
      return;
    load.bytes = bytes[most];
    load.share = seconds > 0 ? busySeconds(most, bytes, messages) / seconds : 0;
    result.push_back(std::move(load));
  };
  auto vertexName = [&](int vertex) { return vertex < 0 ? "network" : machine.vertices()[size_t(vertex)].name; };
  for (size_t number = 0; number < perNode; ++number) {
    const Resource &resource = machine.resources()[number];
    bool isLink = resource.kind == Resource::Kind::Link;
    addMost(number, perNode, firstOfLevels,
            {resource.name, isLink ? vertexName(resource.from) : "", isLink ? vertexName(resource.to) : ""});
  }
  for (size_t level = 0; level < firstOfLevel.size(); ++level) {
    size_t end = level + 1 < firstOfLevel.size() ? firstOfLevel[level + 1] : firstOfLanes;
    for (size_t direction : {0, 1})
      addMost(firstOfLevel[level] + direction, 2, end, {nameOf(firstOfLevel[level] + direction), "", ""});
  }
  return result;
}

} // namespace kolo::cost
