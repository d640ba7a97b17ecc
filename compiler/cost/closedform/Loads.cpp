#include "compiler/cost/closedform/Loads.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

namespace kolo::cost {

using Along = DimStep::Along;

void Loads::add(const Loads &other, double times) {
  auto addAll = [times](std::vector<double> &to, const std::vector<double> &from) {
    if (to.size() < from.size())
      to.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i)
      to[i] += from[i] * times;
  };
  addAll(alike, other.alike);
  addAll(byNode, other.byNode);
  if (byUnit.size() < other.byUnit.size())
    byUnit.resize(other.byUnit.size());
  for (size_t i = 0; i < other.byUnit.size(); ++i)
    addAll(byUnit[i], other.byUnit[i]);
  for (const OnNodes &some : other.onNodes) {
    onNodes.push_back(some);
    for (auto &[resource, load] : onNodes.back().loads)
      load *= times;
  }
  moves |= other.moves;
}

//===--- Borders and resources
//-------------------------------------------------------------------------------------===//

LoadModel::Border LoadModel::makeBorder(int64_t positions) const {
  Border border{positions, {}, {}};
  const PlacedMesh &mesh = placement.mesh();
  border.numUnits = (placement.numRanks() + positions - 1) / positions;
  for (size_t dim = 0; dim < mesh.sizes.size(); ++dim) {
    int64_t size = mesh.sizes[dim], stride = placement.strideOf(dim);
    int64_t length = stride >= positions ? 1 : std::min(size, positions / stride);
    bool isOutermost = stride * size == placement.numRanks();
    border.lengths.push_back(length);
    border.last.push_back(isOutermost && size % length ? size % length : length);
  }
  return border;
}

/// Whether the border falls between coordinates of every dimension, alike everywhere.
bool LoadModel::fits(const Border &border) const {
  const PlacedMesh &mesh = placement.mesh();
  for (size_t dim = 0; dim < mesh.sizes.size(); ++dim) {
    int64_t size = mesh.sizes[dim], stride = placement.strideOf(dim), extent = stride * size;
    if (size == 1)
      continue;
    bool isOutside = stride >= border.positions, isInside = extent <= border.positions;
    bool isOutermost = extent == placement.numRanks();
    if (isOutside ? stride % border.positions != 0
                  : border.positions % (isInside ? extent : stride) != 0 ||
                        (!isInside && !isOutermost && extent % border.positions != 0))
      return false;
  }
  return true;
}

void LoadModel::addBorders() {
  borders.push_back(makeBorder(placement.ranksPerNode()));
  for (size_t level = 0; level < machine.levels().size(); ++level) {
    const Level &unit = machine.levels()[level];
    if (unit.nodes >= placement.numNodes())
      continue;
    Border border = makeBorder(unit.nodes * placement.ranksPerNode());
    border.level = level;
    border.firstResource = resources.size();
    border.hasResources = unit.bandwidth > 0;
    for (int variant = 0; border.hasResources && variant < (border.last == border.lengths ? 1 : 2); ++variant) {
      resources.push_back({"out of a " + unit.name, unit.bandwidth});
      resources.push_back({"into a " + unit.name, unit.bandwidth});
    }
    borders.push_back(std::move(border));
  }
  aligned = std::ranges::all_of(borders, [&](const Border &border) { return fits(border); });
}

LoadModel::LoadModel(const Machine &machine, const Placement &placement, const Speeds &speeds, Protocol protocol,
                     std::vector<bool> asked)
    : machine(machine), placement(placement), protocol(protocol), isEnumerated(std::move(asked)) {
  addResources(speeds);
  addBorders();
  if (!aligned)
    isEnumerated.assign(isEnumerated.size(), true);
  if (std::ranges::find(isEnumerated, true) != isEnumerated.end())
    numberNodes();
}

void LoadModel::addResources(const Speeds &speeds) {
  for (const Resource &resource : machine.resources()) {
    std::string prefix =
        resource.linkClass >= 0 ? machine.linkClasses()[size_t(resource.linkClass)].name + " link " : std::string();
    resources.push_back(
        {prefix + resource.name, resource.bandwidth(speeds.rates, speeds.workingSetBytes), resource.secondsPerMessage});
  }
  firstLane = resources.size();
  double moving = machine.device().laneBandwidth.at(speeds.workingSetBytes),
         reducing = machine.device().laneReduction.at(speeds.workingSetBytes), unit = moving > 0 ? moving : reducing;
  laneBytes = {moving > 0 ? 1 : 0, reducing > 0 ? unit / reducing : 0};
  for (int64_t place = 0; place < placement.ranksPerNode(); ++place)
    resources.push_back({"lanes of " + machine.vertices()[size_t(deviceAt(place))].name, double(speeds.lanes) * unit});
  firstTraffic = resources.size();
  auto deviceName = [&](int64_t place) { return machine.vertices()[size_t(deviceAt(place))].name; };
  for (int64_t from = 0; from < placement.ranksPerNode(); ++from)
    for (int64_t to = 0; to < placement.ranksPerNode(); ++to)
      resources.push_back({"traffic " + deviceName(from) + " -> " + deviceName(to), 0});
  numNodeResources = resources.size();
}

/// The nodes that the enumerated dimensions tell apart.
void LoadModel::numberNodes() {
  classOfNode.assign(size_t(placement.numNodes()), -1);
  if (std::ranges::find(isEnumerated, false) == isEnumerated.end()) {
    for (int32_t &number : classOfNode)
      number = int32_t(numClasses++);
    return;
  }
  std::vector<int64_t> nodes = {0};
  for (size_t dim = 0; dim < isEnumerated.size(); ++dim) {
    if (!isEnumerated[dim])
      continue;
    int64_t inNode = borders[0].lengths[dim], numOutside = placement.mesh().sizes[dim] / inNode;
    size_t known = nodes.size();
    for (int64_t i = 1; i < numOutside; ++i)
      for (size_t k = 0; k < known; ++k)
        nodes.push_back(nodes[k] + i * inNode * placement.strideOf(dim) / placement.ranksPerNode());
  }
  for (int64_t node : nodes)
    classOfNode[size_t(node)] = int32_t(numClasses++);
}

const Resource *LoadModel::nodeResource(size_t resource) const {
  return resource < firstLane ? &machine.resources()[resource] : nullptr;
}

static bool isPowerOf2(int64_t value) { return value > 0 && std::has_single_bit(uint64_t(value)); }

bool LoadModel::mustEnumerate(size_t dim, const DimStep &step) const {
  int64_t size = placement.mesh().sizes[dim];
  if (step.along == Along::At || step.along == Along::Mapped)
    return borders[0].lengths[dim] != size;
  if (step.along != Along::Flip)
    return false;
  return std::ranges::any_of(
      borders, [&](const Border &border) { return border.lengths[dim] != size && !isPowerOf2(border.lengths[dim]); });
}

//===--- Counting along a dimension
//--------------------------------------------------------------------------------===//

static int64_t modulo(int64_t value, int64_t divisor) { return ((value % divisor) + divisor) % divisor; }

/// Pairs of a rotation by `distance` of `size` coordinates that begin and end among `length` that follow each other.
static int64_t stayingInRotation(int64_t length, int64_t distance, int64_t size) {
  if (distance == 0)
    return length;
  return std::max<int64_t>(0, length - distance) + std::max<int64_t>(0, length - (size - distance));
}

/// Pairs along one dimension that begin and end in one unit, of `length` coordinates there.
static int64_t stayingAlong(const DimStep &step, int64_t length, int64_t size) {
  switch (step.along) {
  case Along::Next:
    return stayingInRotation(length, modulo(step.amount, size), size);
  case Along::Flip:
    return length == size || step.amount < length ? length : 0;
  case Along::Others:
    return length * (length - 1);
  default:
    return length; // all of them are in one unit, or nothing moves
  }
}

double LoadModel::staying(const Border &border, const Moves &moves, bool isLast) const {
  double pairs = 1;
  for (size_t dim = 0; dim < moves.steps.size(); ++dim)
    if (isCounted(moves, dim))
      pairs *= double(
          stayingAlong(moves.steps[dim], (isLast ? border.last : border.lengths)[dim], placement.mesh().sizes[dim]));
  return pairs;
}

double LoadModel::sending(const Border &border, const Moves &moves, bool isLast) const {
  double pairs = 1;
  for (size_t dim = 0; dim < moves.steps.size(); ++dim)
    if (isCounted(moves, dim))
      pairs *= double((isLast ? border.last : border.lengths)[dim]) *
               (moves.steps[dim].along == Along::Others ? double(placement.mesh().sizes[dim] - 1) : 1);
  return pairs;
}

/// The borders that are the outermost between two ends, for ends at different nodes that a relation leads between, or
/// at places `distance` nodes apart: bit 0 for none, bit b for borders[b - 1].
uint32_t LoadModel::bordersBetween(size_t dim, const DimStep &step, int64_t distance) const {
  int64_t inNode = borders[0].lengths[dim], nodes = placement.mesh().sizes[dim] / inNode;
  auto pairsInside = [&](int64_t length) -> double {
    if (step.along == Along::Others)
      return double(length) * double(distance == 0 ? length - 1 : length);
    if (step.along == Along::Flip)
      return distance < length ? double(length) : 0;
    return double(stayingInRotation(length, distance, nodes));
  };
  uint32_t result = 0;
  double before = 0;
  for (size_t number = 0; number <= borders.size(); ++number) {
    int64_t length = number < borders.size() ? borders[number].lengths[dim] / inNode : nodes;
    int64_t numWhole = nodes / length;
    double inside = double(numWhole) * pairsInside(length) + pairsInside(nodes % length);
    if (inside > before)
      result |= uint32_t(1) << number;
    before = inside;
  }
  return result;
}

std::vector<LoadModel::Pair> LoadModel::pairsAlong(size_t dim, const DimStep &step) const {
  int64_t size = placement.mesh().sizes[dim], stride = placement.strideOf(dim);
  int64_t inNode = borders[0].lengths[dim], nodes = size / inNode;
  std::vector<Pair> pairs;
  auto add = [&](int64_t from, int64_t to, double same, double all, int64_t distance) {
    if (all > 0)
      pairs.push_back({from * stride % placement.ranksPerNode(), to * stride % placement.ranksPerNode(), same, all,
                       bordersBetween(dim, step, distance)});
  };
  for (int64_t from = 0; from < inNode; ++from) {
    if (step.along == Along::Others) {
      for (int64_t to = 0; to < inNode; ++to)
        add(from, to, to != from, double(to != from ? nodes : nodes - 1), to != from ? 1 : 0);
      continue;
    }
    int64_t target = step.along == Along::Next     ? modulo(from + step.amount, size)
                     : step.along == Along::Flip   ? from ^ step.amount
                     : step.along == Along::At     ? step.amount
                     : step.along == Along::Mapped ? step.table[size_t(from)]
                                                   : from;
    add(from, target % inNode, target / inNode == 0, 1, target / inNode);
  }
  return pairs;
}

/// Bit max(i, j) for all bits i and j.
static uint32_t largerOf(uint32_t a, uint32_t b) {
  uint32_t result = 0;
  for (uint32_t i = a; i; i &= i - 1)
    for (uint32_t j = b; j; j &= j - 1)
      result |= uint32_t(1) << std::max(std::countr_zero(i), std::countr_zero(j));
  return result;
}

std::vector<LoadModel::Pair> LoadModel::countedPairs(const Moves &moves) const {
  std::vector<Pair> pairs = {{0, 0, 1, 1, 1}};
  for (size_t dim = 0; dim < moves.steps.size(); ++dim) {
    bool isStill = moves.steps[dim].along == Along::Keep && borders[0].lengths[dim] == 1;
    if (isStill || !isCounted(moves, dim))
      continue;
    std::vector<Pair> longer;
    for (const Pair &along : pairsAlong(dim, moves.steps[dim]))
      for (const Pair &pair : pairs)
        longer.push_back({pair.from + along.from, pair.to + along.to, pair.inNode * along.inNode, pair.all * along.all,
                          largerOf(pair.borders, along.borders)});
    pairs = std::move(longer);
  }
  return pairs;
}

//===--- Loads
//-----------------------------------------------------------------------------------------------------===//

/// Of the enumerated dimensions' part of moves, what concerns one node.
struct LoadModel::Node {
  struct Entry {
    int64_t from, to;       // places in the node
    double inNode, out, in; // shares of what stays, of what leaves, of what comes from elsewhere
    double share;           // of one move
  };
  std::vector<Entry> entries;
};

int LoadModel::outermostBorder(int64_t from, int64_t to) const {
  int result = 0;
  for (size_t number = 0; number < borders.size(); ++number)
    if (from / borders[number].positions != to / borders[number].positions)
      result = int(number) + 1;
  return result;
}

void LoadModel::addLatencies(const std::vector<Pair> &pairs, int64_t fromBase, int64_t toBase, uint32_t enumerated,
                             Loads &loads) const {
  for (const Pair &pair : pairs) {
    int from = deviceAt(fromBase + pair.from), to = deviceAt(toBase + pair.to);
    for (uint32_t rest = largerOf(pair.borders, enumerated); rest; rest &= rest - 1) {
      int border = std::countr_zero(rest);
      double latency = border == 0 ? of(machine.route(from, to).latency, protocol)
                                   : of(machine.toNetwork(from).latency, protocol) +
                                         of(machine.levels()[size_t(border) - 1].latency, protocol) +
                                         of(machine.fromNetwork(to).latency, protocol);
      loads.latency = std::max(loads.latency, latency);
    }
  }
}

void LoadModel::addNode(const Moves &moves, const Node &node, const std::vector<Pair> &pairs, double *loads) const {
  std::vector<double> sentOnce(size_t(placement.ranksPerNode())), receivedOnce(sentOnce);
  for (const Node::Entry &entry : node.entries)
    for (const Pair &pair : pairs) {
      int64_t fromPlace = entry.from + pair.from, toPlace = entry.to + pair.to;
      int from = deviceAt(fromPlace), to = deviceAt(toPlace);
      double inNode = entry.inNode * pair.inNode;
      double out = (entry.inNode + entry.out) * pair.all - inNode, in = (entry.inNode + entry.in) * pair.all - inNode;
      auto addRoute = [&](const Route &route, double share) {
        for (int resource : route.resources)
          loads[resource] += share * moves.cost.wire;
      };
      addRoute(machine.route(from, to), inNode);
      if (from != to)
        loads[firstTraffic + size_t(fromPlace * placement.ranksPerNode() + toPlace)] += inNode * moves.cost.payload;
      if (out > 0)
        addRoute(machine.toNetwork(from), out);
      if (in > 0)
        addRoute(machine.fromNetwork(to), in);
      loads[machine.memoryOf(from)] += (inNode + out) * moves.cost.senderMemory;
      loads[machine.memoryOf(to)] += (inNode + in) * moves.cost.receiverMemory;
      if (int writes = machine.writesOf(to); writes >= 0)
        loads[writes] += (inNode + in) * moves.cost.receiverWrites;
      loads[firstLane + size_t(fromPlace)] += (inNode + out) * moves.cost.senderLanes;
      loads[firstLane + size_t(toPlace)] += (inNode + in) * moves.cost.receiverLanes;
      if (inNode + out > 0)
        sentOnce[size_t(fromPlace)] = std::max(sentOnce[size_t(fromPlace)], entry.share);
      if (inNode + in > 0)
        receivedOnce[size_t(toPlace)] = std::max(receivedOnce[size_t(toPlace)], entry.share);
    }
  for (size_t place = 0; place < sentOnce.size(); ++place) {
    if (int writes = machine.writesOf(deviceAt(int64_t(place))); writes >= 0)
      loads[writes] += receivedOnce[place] * moves.cost.receiverWritesOnce;
    loads[machine.memoryOf(deviceAt(int64_t(place)))] +=
        sentOnce[place] * moves.cost.senderMemoryOnce + receivedOnce[place] * moves.cost.receiverMemoryOnce;
  }
}

void LoadModel::addNodes(const Moves &moves, const std::vector<Pair> &pairs, Loads &loads) const {
  if (!moves.isEnumerated) {
    addNode(moves, {{{0, 0, moves.share, 0, 0, moves.share}}}, pairs, loads.alike.data());
    addLatencies(pairs, 0, 0, 1, loads);
    return;
  }
  int64_t perNode = placement.ranksPerNode();
  std::vector<Node> nodes(numClasses);
  std::vector<uint32_t> seen(size_t(perNode * perNode)); // borders, by places
  for (const EnumeratedMoves &move : moves.enumerated) {
    int64_t from = move.from % perNode, to = move.to % perNode;
    Node &sender = nodes[size_t(classOfNode[size_t(move.from / perNode)])],
         &receiver = nodes[size_t(classOfNode[size_t(move.to / perNode)])];
    if (&sender == &receiver) {
      sender.entries.push_back({from, to, move.share, 0, 0, move.share});
    } else {
      sender.entries.push_back({from, to, 0, move.share, 0, move.share});
      receiver.entries.push_back({from, to, 0, 0, move.share, move.share});
    }
    uint32_t &known = seen[size_t(from * perNode + to)], border = uint32_t(1) << outermostBorder(move.from, move.to);
    if (!(known & border))
      addLatencies(pairs, from, to, border, loads);
    known |= border;
  }
  loads.byNode.resize(numClasses * numNodeResources);
  for (size_t number = 0; number < numClasses; ++number)
    addNode(moves, nodes[number], pairs, loads.byNode.data() + number * numNodeResources);
}

void LoadModel::addUnits(const Moves &moves, Loads &loads) const {
  double wire = moves.cost.wire;
  for (const Border &border : borders) {
    size_t variants = border.last == border.lengths ? 1 : 2;
    for (size_t variant = 0; border.hasResources && variant < variants; ++variant) {
      double sent = sending(border, moves, variant == 1), kept = staying(border, moves, variant == 1);
      size_t out = border.firstResource + 2 * variant, in = out + 1;
      if (!moves.isEnumerated) {
        loads.alike[out] += moves.share * wire * (sent - kept);
        loads.alike[in] += moves.share * wire * (sent - kept);
        continue;
      }
      loads.byUnit.resize(resources.size());
      std::vector<double> &outOf = loads.byUnit[out], &into = loads.byUnit[in];
      outOf.resize(size_t(border.numUnits));
      into.resize(size_t(border.numUnits));
      for (const EnumeratedMoves &move : moves.enumerated) {
        auto from = size_t(move.from / border.positions), to = size_t(move.to / border.positions);
        double all = move.share * wire * sent, stay = from == to ? move.share * wire * kept : 0;
        outOf[from] += all - stay;
        into[to] += all - stay;
      }
    }
  }
}

Loads LoadModel::loadsOf(const Moves &moves) const {
  Loads loads;
  loads.alike.resize(resources.size());
  if (!moves.alike.empty()) {
    loads.moves = true;
    addAlike(moves, loads);
    return loads;
  }
  std::vector<Pair> pairs = countedPairs(moves);
  if (pairs.empty() || (moves.isEnumerated && moves.enumerated.empty()))
    return loads;
  loads.moves = true;
  addNodes(moves, pairs, loads);
  addUnits(moves, loads);
  return loads;
}

Loads LoadModel::messagesOf(Moves moves) const {
  if (!machine.limitsMessages() || moves.cost.wire == 0)
    return {};
  auto countOne = [](double &share) { share = share > 0 ? 1 : 0; };
  countOne(moves.share);
  for (EnumeratedMoves &move : moves.enumerated)
    countOne(move.share);
  for (AlikeMoves &some : moves.alike)
    countOne(some.share);
  moves.cost = {.payload = 0, .wire = 1};
  return loadsOf(moves);
}

MessageTime LoadModel::messageTimeOf(const Loads &messages) const {
  MessageTime worst;
  if (!messages.moves)
    return worst;
  std::vector<double> most = largest(messages);
  for (size_t resource = 0; resource < firstLane; ++resource)
    if (double seconds = messageSeconds(resource, most[resource]); seconds > worst.seconds)
      worst = {seconds, resource};
  return worst;
}

std::vector<double> LoadModel::largest(const Loads &loads) const {
  std::vector<double> most(resources.size());
  if (!loads.onNodes.empty())
    takeLargestOnNodes(loads, most);
  for (size_t first = 0; loads.onNodes.empty() && first < loads.byNode.size(); first += numNodeResources)
    for (size_t resource = 0; resource < numNodeResources; ++resource)
      most[resource] = std::max(most[resource], loads.byNode[first + resource]);
  for (size_t resource = 0; resource < loads.byUnit.size(); ++resource)
    if (!loads.byUnit[resource].empty())
      most[resource] = std::ranges::max(loads.byUnit[resource]);
  for (size_t resource = 0; resource < loads.alike.size(); ++resource)
    most[resource] += loads.alike[resource];
  return most;
}

std::vector<std::vector<double>> LoadModel::trafficOf(const std::vector<double> &loads) const {
  auto numDevices = size_t(machine.devicesPerNode());
  std::vector<std::vector<double>> traffic(numDevices, std::vector<double>(numDevices));
  for (int64_t from = 0; from < placement.ranksPerNode(); ++from)
    for (int64_t to = 0; to < placement.ranksPerNode(); ++to)
      traffic[size_t(deviceAt(from))][size_t(deviceAt(to))] =
          loads[firstTraffic + size_t(from * placement.ranksPerNode() + to)];
  return traffic;
}

Bottleneck LoadModel::bottleneckOf(const std::vector<double> &most) const {
  Bottleneck result;
  for (size_t resource = 0; resource < resources.size(); ++resource) {
    if (resources[resource].bandwidth <= 0)
      continue;
    double seconds = most[resource] / resources[resource].bandwidth;
    if (seconds > result.seconds)
      result = {seconds, most[resource], resource};
  }
  return result;
}

double LoadModel::worstLatency() const {
  Loads loads;
  std::vector<Pair> pairs;
  uint32_t across = 0;
  for (int64_t node = 1; node < placement.numNodes(); node *= 2)
    across |= uint32_t(1) << outermostBorder(0, node * placement.ranksPerNode());
  if (placement.numNodes() > 1)
    across |= uint32_t(1) << outermostBorder(0, placement.numRanks() - 1);
  for (int64_t from = 0; from < placement.ranksPerNode(); ++from)
    for (int64_t to = 0; to < placement.ranksPerNode(); ++to)
      pairs.push_back({from, to, 0, 0, 1});
  addLatencies(pairs, 0, 0, 1, loads);
  if (across)
    addLatencies(pairs, 0, 0, across, loads);
  return loads.latency;
}

} // namespace kolo::cost
