#include "compiler/cost/machine/Placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <sstream>

namespace kolo::cost {

namespace {

[[noreturn]] void fail(const std::string &message) { throw CostMistake{message}; }

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts(1);
  for (char letter : text)
    if (letter == separator)
      parts.emplace_back();
    else
      parts.back() += letter;
  return parts;
}

int64_t parseNumber(const std::string &text, const std::string &field) {
  int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    fail(fmt::format("placement: {}: '{}' is no number", field, text));
  return number;
}

/// The fields of a placement's text, as texts.
struct Fields {
  std::optional<std::string> order, devices, perNode;

  explicit Fields(const std::string &text) {
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      size_t equals = word.find('=');
      std::string name = word.substr(0, equals);
      std::optional<std::string> *field = name == "order"      ? &order
                                          : name == "devices"  ? &devices
                                          : name == "per-node" ? &perNode
                                                               : nullptr;
      if (!field)
        fail(fmt::format("placement: there is no field '{}' (one of order, devices, per-node)", name));
      if (equals == std::string::npos || equals + 1 == word.size())
        fail(fmt::format("placement: {}: a value is missing, as in {}=...", name, name));
      if (*field)
        fail(fmt::format("placement: {}: is given twice", name));
      *field = word.substr(equals + 1);
    }
  }
};

std::vector<size_t> parseOrder(const std::optional<std::string> &text, const PlacedMesh &mesh) {
  std::vector<size_t> order(mesh.names.size());
  std::iota(order.begin(), order.end(), 0);
  if (!text)
    return order;
  order.clear();
  for (const std::string &name : split(*text, ',')) {
    auto dim = size_t(std::ranges::find(mesh.names, name) - mesh.names.begin());
    if (dim == mesh.names.size())
      fail(fmt::format("placement: order: the mesh has no dimension '{}' (it has {})", name,
                       fmt::join(mesh.names, ", ")));
    if (std::ranges::count(order, dim))
      fail(fmt::format("placement: order: dimension '{}' is given twice", name));
    order.push_back(dim);
  }
  if (order.size() < mesh.names.size()) {
    auto missing = std::ranges::find_if(
        mesh.names, [&](const std::string &name) { return !std::ranges::count(order, &name - mesh.names.data()); });
    fail(fmt::format("placement: order: dimension '{}' is missing", *missing));
  }
  return order;
}

std::vector<int> parseDevices(const std::optional<std::string> &text, const Machine &machine) {
  std::vector<int> devices(size_t(machine.devicesPerNode()));
  std::iota(devices.begin(), devices.end(), 0);
  if (!text)
    return devices;
  devices.clear();
  for (const std::string &part : split(*text, ',')) {
    int64_t device = parseNumber(part, "devices");
    if (device < 0 || device >= machine.devicesPerNode())
      fail(fmt::format("placement: devices: a node of {} has no device {}; its devices are 0 to {}", machine.name(),
                       device, machine.devicesPerNode() - 1));
    if (std::ranges::count(devices, int(device)))
      fail(fmt::format("placement: devices: device {} is given twice, and a device has one rank", device));
    devices.push_back(int(device));
  }
  return devices;
}

void checkMesh(const PlacedMesh &mesh) {
  int64_t ranks = 1;
  for (size_t dim = 0; dim < mesh.sizes.size(); ++dim) {
    if (mesh.sizes[dim] < 1)
      fail(fmt::format("mesh: dimension '{}' has size {}; the least is 1", mesh.names[dim], mesh.sizes[dim]));
    if (__builtin_mul_overflow(ranks, mesh.sizes[dim], &ranks) || ranks > maxPlacedRanks)
      fail(fmt::format("mesh: it has more than {} ranks", maxPlacedRanks));
  }
}

/// As many ranks of a node as devices are given, or all ranks where they are fewer.
int64_t parsePerNode(const std::optional<std::string> &text, int64_t numDevices, int64_t ranks) {
  if (!text)
    return std::min(numDevices, ranks);
  int64_t perNode = parseNumber(*text, "per-node");
  if (perNode < 1 || perNode > numDevices)
    fail(fmt::format("placement: per-node: {} is no number from 1 to {}, the devices that are used of a node", perNode,
                     numDevices));
  return perNode;
}

} // namespace

int64_t PlacedMesh::numRanks() const {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
}

std::variant<Placement, CostMistake> Placement::create(const Machine &machine, const PlacedMesh &mesh,
                                                       const std::string &text) {
  try {
    checkMesh(mesh);
    Fields fields(text);
    Placement placement;
    placement.placedMesh = mesh;
    placement.ranks = mesh.numRanks();
    placement.order = parseOrder(fields.order, mesh);
    placement.devices = parseDevices(fields.devices, machine);
    placement.perNode = parsePerNode(fields.perNode, int64_t(placement.devices.size()), placement.ranks);
    placement.devices.resize(size_t(placement.perNode));
    placement.strides.resize(mesh.sizes.size());
    int64_t stride = 1;
    for (size_t place = placement.order.size(); place-- > 0; stride *= mesh.sizes[placement.order[place]])
      placement.strides[placement.order[place]] = stride;
    if (placement.ranks % placement.perNode != 0)
      fail(fmt::format("placement: {} ranks do not fill nodes of {} ranks each; per-node=... takes another number",
                       placement.ranks, placement.perNode));
    if (placement.numNodes() > machine.numNodes())
      fail(fmt::format("mesh: {} ranks need {} nodes of {}, which has {}", placement.ranks, placement.numNodes(),
                       machine.name(), machine.numNodes()));
    return placement;
  } catch (CostMistake &mistake) {
    return std::move(mistake);
  }
}

int64_t Placement::position(int64_t rank) const {
  int64_t result = 0;
  for (size_t dim = placedMesh.sizes.size(); dim-- > 0; rank /= placedMesh.sizes[dim])
    result += rank % placedMesh.sizes[dim] * strides[dim];
  return result;
}

int64_t Placement::rankAt(int64_t node, int k) const {
  int64_t place = node * perNode + k, rank = 0;
  for (size_t dim = 0; dim < placedMesh.sizes.size(); ++dim)
    rank = rank * placedMesh.sizes[dim] + place / strides[dim] % placedMesh.sizes[dim];
  return rank;
}

} // namespace kolo::cost
