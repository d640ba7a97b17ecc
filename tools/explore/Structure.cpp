// Names of structures, and all combinations of meshes, orders of levels and building blocks.
#include "tools/explore/Structure.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <numeric>
#include <set>

namespace kolo::explore {

const char *toString(Block block) {
  switch (block) {
  case Block::Ring:
    return "ring";
  case Block::RecursiveDoubling:
    return "recursiveDoubling";
  case Block::Bruck:
    return "bruck";
  case Block::AllPairs:
    return "allPairs";
  case Block::Stepped:
    return "stepped";
  case Block::Binomial:
    return "binomial";
  case Block::Chain:
    return "chain";
  case Block::Alternating:
    return "alternating";
  case Block::Multiplying:
    return "multiplying";
  case Block::Trees:
    return "trees";
  case Block::Exchange:
    return "exchange";
  }
  return "";
}

static const char *nameOf(KoloCollective collective) {
  switch (collective) {
  case KOLO_ALL_GATHER:
    return "allGather";
  case KOLO_REDUCE_SCATTER:
    return "reduceScatter";
  case KOLO_ALL_REDUCE:
    return "allReduce";
  case KOLO_BROADCAST:
    return "broadcast";
  case KOLO_ALL_TO_ALL:
    return "allToAll";
  default:
    return "collective";
  }
}

static std::string capitalised(std::string text) {
  text.front() = char(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

std::string Structure::name() const {
  std::string name = nameOf(collective);
  for (const Phase &phase : phases)
    name += capitalised(dims[phase.dim]) + capitalised(toString(phase.block));
  constexpr const char *suffixes[] = {"", "Rings", "TwoWay", "Turned", "Scattered"};
  return name + suffixes[size_t(striping)];
}

std::string Structure::describe() const {
  std::string text;
  for (const Phase &phase : phases) {
    std::string block;
    for (char letter : std::string(toString(phase.block)))
      block += std::isupper(static_cast<unsigned char>(letter)) ? std::string{' ', char(std::tolower(letter))}
                                                                : std::string{letter};
    text += (text.empty() ? "" : ", then ") + block + " along " + dims[phase.dim];
  }
  if (striping == Striping::Rings)
    text += "; " + std::to_string(graphs->rings.size()) + " rings along " + dims.back() + ", each both ways";
  if (striping == Striping::TwoWay)
    text += "; half of every chunk goes around rings the other way";
  if (striping == Striping::Scattered)
    text += ", of what the root scattered along it first";
  if (striping == Striping::Turned)
    text += "; every chunk is cut into a part for each phase, and each part begins with another phase";
  return text;
}

bool Structure::usesTrees() const { return std::ranges::count(phases, Block::Trees, &Phase::block) > 0; }

bool Structure::operator==(const Structure &other) const {
  return collective == other.collective && dims == other.dims && sizes == other.sizes && placement == other.placement &&
         phases == other.phases && striping == other.striping;
}

Structure ringsThroughNodes(KoloCollective collective, const std::vector<std::vector<int64_t>> &rings,
                            int64_t numNodes) {
  NodeGraphs graphs;
  int64_t devices = int64_t(rings.front().size());
  for (const std::vector<int64_t> &ring : rings) {
    std::vector<int64_t> &order = graphs.rings.emplace_back();
    for (int64_t node = 0; node < numNodes; ++node)
      for (int64_t device : ring)
        order.push_back(node * devices + device);
  }
  return {collective,
          {"gpu"},
          {numNodes * devices},
          "",
          {{0, Block::Ring}},
          Striping::Rings,
          std::make_shared<const NodeGraphs>(std::move(graphs))};
}

namespace {

/// Bytes per second between two devices of a node over links that join them directly.
std::vector<std::vector<double>> directBandwidths(const cost::Machine &machine) {
  size_t devices = size_t(machine.devicesPerNode());
  std::vector<std::vector<double>> result(devices, std::vector<double>(devices));
  for (const cost::Link &link : machine.links()) {
    if (size_t(link.from) >= devices || size_t(link.to) >= devices)
      continue;
    double bandwidth = machine.linkClasses()[size_t(link.linkClass)].bandwidth.peak * link.count;
    result[size_t(link.from)][size_t(link.to)] += bandwidth;
    result[size_t(link.to)][size_t(link.from)] += bandwidth;
  }
  return result;
}

/// The different positive bandwidths, widest first.
std::vector<double> thresholds(const std::vector<std::vector<double>> &bandwidths) {
  std::vector<double> result;
  for (const std::vector<double> &row : bandwidths)
    std::ranges::copy_if(row, std::back_inserter(result), [](double value) { return value > 0; });
  std::ranges::sort(result, std::greater());
  result.erase(std::ranges::unique(result).begin(), result.end());
  return result;
}

/// Devices that links of at least this bandwidth join, each group in increasing order.
std::vector<std::vector<int>> groupsBy(const std::vector<std::vector<double>> &bandwidths, double least) {
  std::vector<std::vector<int>> groups;
  std::vector<bool> isSeen(bandwidths.size());
  for (size_t start = 0; start < bandwidths.size(); ++start) {
    if (isSeen[start])
      continue;
    std::vector<int> group = {int(start)};
    isSeen[start] = true;
    for (size_t next = 0; next < group.size(); ++next)
      for (size_t other = 0; other < bandwidths.size(); ++other)
        if (!isSeen[other] && bandwidths[size_t(group[next])][other] >= least) {
          isSeen[other] = true;
          group.push_back(int(other));
        }
    std::ranges::sort(group);
    groups.push_back(std::move(group));
  }
  return groups;
}

/// The widest links' groups that are all alike in size and neither single devices nor the whole node; else empty.
std::vector<std::vector<int>> closeGroups(const cost::Machine &machine) {
  std::vector<std::vector<double>> bandwidths = directBandwidths(machine);
  for (double least : thresholds(bandwidths)) {
    std::vector<std::vector<int>> groups = groupsBy(bandwidths, least);
    size_t size = groups.front().size();
    auto isOfSize = [&](const std::vector<int> &group) { return group.size() == size; };
    if (size > 1 && groups.size() > 1 && std::ranges::all_of(groups, isOfSize))
      return groups;
  }
  return {};
}

/// Extends the path to a cycle through all devices, depth first. False: there is none.
bool closeRing(const std::vector<std::vector<double>> &bandwidths, double least, std::vector<int64_t> &path) {
  const std::vector<double> &from = bandwidths[size_t(path.back())];
  if (path.size() == bandwidths.size())
    return from[size_t(path.front())] >= least;
  std::vector<int64_t> nexts;
  for (size_t next = 0; next < bandwidths.size(); ++next)
    if (std::ranges::find(path, int64_t(next)) == path.end() && from[next] >= least)
      nexts.push_back(int64_t(next));
  // What is left of the widest links serves further rings.
  std::ranges::sort(nexts, {}, [&](int64_t next) { return std::pair(-from[size_t(next)], next); });
  for (int64_t next : nexts) {
    path.push_back(next);
    if (closeRing(bandwidths, least, path))
      return true;
    path.pop_back();
  }
  return false;
}

std::string devicesText(const std::vector<int64_t> &devices) {
  if (std::ranges::is_sorted(devices))
    return "";
  std::string text;
  for (int64_t device : devices)
    text += (text.empty() ? "devices=" : ",") + std::to_string(device);
  return text;
}

/// Ways to number the devices of a node.
std::vector<FittingMesh> deviceMeshes(const cost::Machine &machine) {
  int64_t devices = machine.devicesPerNode();
  std::vector<FittingMesh> result = {{{"gpu"}, {devices}, ""}};
  if (std::string ring = devicesText(widestRing(machine)); !ring.empty())
    result.push_back({{"gpu"}, {devices}, ring});
  if (std::vector<std::vector<int>> groups = closeGroups(machine); !groups.empty()) {
    std::vector<int64_t> order;
    for (const std::vector<int> &group : groups)
      order.insert(order.end(), group.begin(), group.end());
    result.push_back({{"module", "die"}, {int64_t(groups.size()), int64_t(groups.front().size())}, devicesText(order)});
  }
  return result;
}

/// Ways to number nodes.
std::vector<FittingMesh> nodeMeshes(const cost::Machine &machine, int64_t numNodes) {
  if (numNodes == 1)
    return {FittingMesh{}};
  std::vector<FittingMesh> result = {{{"node"}, {numNodes}, ""}};
  for (const cost::Level &level : machine.levels()) {
    int64_t together = std::gcd(numNodes, level.nodes); // of nodes that follow each other
    if (together > 1 && together < numNodes)
      result.push_back({{level.name, "node"}, {numNodes / together, together}, ""});
  }
  return result;
}

} // namespace

constexpr int mostRingDevices = 16; // the search for a ring is exponential in the worst case

std::vector<int64_t> widestRing(const cost::Machine &machine) {
  if (machine.devicesPerNode() < 3 || machine.devicesPerNode() > mostRingDevices)
    return {};
  std::vector<std::vector<double>> bandwidths = directBandwidths(machine);
  for (double least : thresholds(bandwidths))
    if (std::vector<int64_t> path = {0}; closeRing(bandwidths, least, path))
      return path;
  return {};
}

/// Rings that take the bandwidth of the narrowest link each, one after the other, as long as there is one.
static std::vector<std::vector<int64_t>> packRings(const cost::Machine &machine) {
  constexpr size_t mostRings = 8; // a stripe has at most 16 parts
  std::vector<std::vector<double>> left = directBandwidths(machine);
  std::vector<std::vector<int64_t>> rings;
  double unit = 0;
  for (const cost::Link &link : machine.links())
    if (link.from < machine.devicesPerNode() && link.to < machine.devicesPerNode()) {
      double bandwidth = machine.linkClasses()[size_t(link.linkClass)].bandwidth.peak;
      unit = unit > 0 ? std::min(unit, bandwidth) : bandwidth;
    }
  if (unit == 0 || machine.devicesPerNode() < 3 || machine.devicesPerNode() > mostRingDevices)
    return {};
  for (std::vector<int64_t> ring = {0}; rings.size() < mostRings && closeRing(left, unit, ring); ring = {0}) {
    for (size_t i = 0; i < ring.size(); ++i) {
      size_t from = size_t(ring[i]), to = size_t(ring[(i + 1) % ring.size()]);
      left[from][to] -= unit;
      left[to][from] -= unit;
    }
    rings.push_back(ring);
  }
  return rings;
}

NodeGraphs findGraphs(const cost::Machine &machine) {
  constexpr int64_t mostTreesPerRoot = 8;
  NodeGraphs graphs{packRings(machine), std::nullopt};
  std::vector<int> devices(size_t(machine.devicesPerNode()));
  std::iota(devices.begin(), devices.end(), 0);
  auto graph = nodeGraph(machine, devices);
  if (auto *capacities = std::get_if<CapacityGraph>(&graph); capacities && devices.size() > 2) {
    auto packing = packTrees(*capacities, mostTreesPerRoot);
    if (auto *packed = std::get_if<TreePacking>(&packing))
      graphs.packing = std::move(*packed);
  }
  return graphs;
}

std::vector<std::vector<int64_t>> turnedToNics(std::vector<std::vector<int64_t>> rings, const cost::Machine &machine) {
  std::set<int> used;                                   // last resources on the ways out
  auto nicsOf = [&](const std::vector<int64_t> &ring) { // it goes both ways
    std::set<int> nics;
    for (int64_t device : {ring.front(), ring.back()})
      if (const cost::Route &out = machine.toNetwork(int(device)); !out.resources.empty())
        nics.insert(out.resources.back());
    return nics;
  };
  auto numNew = [&](const std::vector<int64_t> &ring) {
    return std::ranges::count_if(nicsOf(ring), [&](int nic) { return !used.contains(nic); });
  };
  for (std::vector<int64_t> &ring : rings) {
    std::vector<int64_t> best = ring;
    for (size_t turn = 1; turn < ring.size(); ++turn) {
      std::ranges::rotate(ring, ring.begin() + 1);
      if (numNew(ring) > numNew(best))
        best = ring;
    }
    ring = std::move(best);
    used.merge(nicsOf(ring));
  }
  return rings;
}

std::vector<FittingMesh> meshesFor(const cost::Machine &machine, int64_t numNodes) {
  std::vector<FittingMesh> result;
  for (const FittingMesh &devices : deviceMeshes(machine)) {
    if (devices.dims.size() == 1 && numNodes > 1)
      result.push_back({{"rank"}, {numNodes * machine.devicesPerNode()}, devices.placement});
    for (FittingMesh mesh : nodeMeshes(machine, numNodes)) {
      mesh.dims.insert(mesh.dims.end(), devices.dims.begin(), devices.dims.end());
      mesh.sizes.insert(mesh.sizes.end(), devices.sizes.begin(), devices.sizes.end());
      mesh.placement = devices.placement;
      result.push_back(std::move(mesh));
    }
  }
  // A dimension of one rank has no phase.
  for (FittingMesh &mesh : result)
    for (size_t i = mesh.dims.size(); i-- > 0;)
      if (mesh.sizes[i] == 1 && mesh.dims.size() > 1) {
        mesh.dims.erase(mesh.dims.begin() + ptrdiff_t(i));
        mesh.sizes.erase(mesh.sizes.begin() + ptrdiff_t(i));
      }
  return result;
}

namespace {

bool isProductOfRadix(int64_t size) {
  while (size % multiplyingRadix == 0)
    size /= multiplyingRadix;
  return size < multiplyingRadix;
}

class Enumerator {
public:
  Enumerator(KoloCollective collective, Space &space, NodeGraphs graphs)
      : collective(collective), space(space), graphs(std::make_shared<const NodeGraphs>(std::move(graphs))) {}

  void addMesh(const FittingMesh &mesh) {
    structure = {collective, mesh.dims, mesh.sizes, mesh.placement, {}, Striping::None, graphs};
    std::vector<size_t> order(mesh.dims.size());
    std::iota(order.begin(), order.end(), 0);
    do {
      structure.phases.clear();
      addPhases(order);
    } while (std::ranges::next_permutation(order).found);
  }

private:
  std::vector<Block> blocks() const {
    using enum Block;
    switch (collective) {
    case KOLO_ALL_GATHER:
      return {AllPairs, Ring, RecursiveDoubling, Bruck, Multiplying, Trees};
    case KOLO_REDUCE_SCATTER:
      return {AllPairs, Ring, RecursiveDoubling, Trees};
    case KOLO_ALL_REDUCE:
      return {AllPairs, Ring, RecursiveDoubling, Alternating, Exchange, Trees};
    case KOLO_ALL_TO_ALL:
      return {AllPairs, Stepped};
    case KOLO_BROADCAST:
      return {AllPairs, Binomial, Alternating, Chain};
    default:
      return {};
    }
  }

  /// Why the block does not work along a dimension of this size; empty: it does.
  std::string refusal(Block block, size_t dim) const {
    int64_t size = structure.sizes[dim];
    if (block == Block::Trees && !(isOfNode(dim) && graphs->packing))
      return "trees are packed into the graph of a node whose devices are one dimension of the mesh, as numbered";
    if (block == Block::Trees && structure.dims.size() > 3)
      return "a grid has at most four dimensions, one of them the pieces of trees";
    bool isPowerOfTwo = std::has_single_bit(uint64_t(size));
    if ((block == Block::RecursiveDoubling || block == Block::Exchange) && !isPowerOfTwo)
      return "recursive doubling needs a power of two of ranks";
    if (block == Block::Alternating && !isPowerOfTwo)
      return "alternating distances need a power of two of ranks";
    if (block == Block::Multiplying && (size <= multiplyingRadix || !isProductOfRadix(size)))
      return "recursive multiplying is for 8, 12, 16, 32, ... ranks: 4^k, or 2 or 3 times that";
    if (size == 2 && block != Block::AllPairs && block != Block::Exchange)
      return "among two ranks every algorithm is the exchange between them";
    return "";
  }

  /// Whether the dimension is that of a node's devices, in their own order.
  bool isOfNode(size_t dim) const {
    return dim + 1 == structure.dims.size() && structure.dims[dim] == "gpu" && structure.placement.empty();
  }

  void addPhases(const std::vector<size_t> &order) {
    if (structure.phases.size() == order.size())
      return addStripings();
    size_t dim = order[structure.phases.size()];
    for (Block block : blocks()) {
      if (std::string reason = refusal(block, dim); !reason.empty()) {
        ++space.leftOut[reason];
        continue;
      }
      structure.phases.push_back({dim, block});
      addPhases(order);
      structure.phases.pop_back();
    }
  }

  void addStripings() {
    bool hasExchange = std::ranges::count(structure.phases, Block::Exchange, &Phase::block) > 0;
    if (hasExchange &&
        !std::ranges::all_of(structure.phases, [](Phase phase) { return phase.block == Block::Exchange; })) {
      ++space.leftOut["an exchange of everything goes with no phases that scatter"];
      return;
    }
    bool hasRing = std::ranges::count(structure.phases, Block::Ring, &Phase::block) > 0;
    bool hasLevels = structure.phases.size() > 1, isBroadcast = collective == KOLO_BROADCAST;
    size_t last = structure.dims.size() - 1;
    bool hasNodeRing = isOfNode(last) && std::ranges::count(structure.phases, Phase{last, Block::Ring}) > 0;
    auto canHave = [&](Striping striping) {
      if (striping != Striping::None && structure.usesTrees())
        return false; // the trees' pieces are parts of chunks already
      switch (striping) {
      case Striping::None:
        return true;
      case Striping::Rings:
        return hasNodeRing && !graphs->rings.empty();
      case Striping::TwoWay:
        return hasRing;
      case Striping::Turned:
        return hasLevels && !isBroadcast && !hasExchange;
      case Striping::Scattered:
        return hasLevels && isBroadcast && structure.phases.back().block == Block::AllPairs;
      }
      return false;
    };
    for (Striping striping :
         {Striping::None, Striping::Rings, Striping::TwoWay, Striping::Turned, Striping::Scattered}) {
      structure.striping = striping;
      if (canHave(striping))
        space.structures.push_back(structure);
    }
    structure.striping = Striping::None;
  }

  KoloCollective collective;
  Space &space;
  std::shared_ptr<const NodeGraphs> graphs;
  Structure structure;
};

} // namespace

Space enumerate(const cost::Machine &machine, int64_t numNodes, KoloCollective collective) {
  Space space;
  Enumerator enumerator(collective, space, findGraphs(machine));
  for (const FittingMesh &mesh : meshesFor(machine, numNodes)) {
    if (mesh.dims.size() > 4)
      ++space.leftOut["a mesh has at most four dimensions"];
    else
      enumerator.addMesh(mesh);
  }
  return space;
}

} // namespace kolo::explore
