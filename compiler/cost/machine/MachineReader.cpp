// Reads a machine file: see machines/README.md for its fields.
#include "compiler/cost/machine/JsonObject.h"
#include "compiler/cost/machine/RouteFinder.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

namespace kolo::cost {

namespace {

constexpr int fileVersion = 1;
constexpr int64_t maxNodes = 1 << 20;
constexpr size_t maxVertices = 256; // of each kind, in a node
constexpr size_t maxLinks = 1 << 16, maxClasses = 64, maxLevels = 16, maxSteps = 64;
constexpr double giga = 1e9, mega = 1e6, micro = 1e-6;
constexpr JsonObject::Range bandwidthRange = {1e-6, 1e9}; // GB/s
constexpr JsonObject::Range shareRange = {1e-3, 1};
constexpr JsonObject::Range messageRange = {1e-6, 1e6}; // millions a second
constexpr JsonObject::Range timeRange = {0, 1e6};       // microseconds

Bandwidth readBandwidth(const JsonObject &object) {
  Bandwidth result;
  result.peak = object.number("gigabytesPerSecond", bandwidthRange) * giga;
  for (const JsonObject &step : object.objects("bySize", maxSteps, {"upToBytes", "gigabytesPerSecond"})) {
    int64_t upToBytes = step.integer("upToBytes", 1, int64_t(1) << 50);
    if (!result.bySize.empty() && upToBytes <= result.bySize.back().upToBytes)
      step.fail("upToBytes", "is not above that of the entry before");
    result.bySize.push_back({upToBytes, step.number("gigabytesPerSecond", bandwidthRange) * giga});
  }
  return result;
}

double readShare(const JsonObject &object, const char *name) {
  return object.has(name) ? object.number(name, shareRange) : 1;
}

/// Published inputs travel as bulk data does.
PerProtocol perProtocol(double bulk, double ll, double ll128) {
  PerProtocol result;
  result[size_t(Protocol::Bulk)] = result[size_t(Protocol::Published)] = bulk;
  result[size_t(Protocol::LL)] = ll;
  result[size_t(Protocol::LL128)] = ll128;
  return result;
}

PerProtocol readLatency(const JsonObject &owner) {
  JsonObject object = owner.object("latencyMicroseconds", {"bulk", "ll", "ll128"});
  auto seconds = [&](const char *name) { return object.number(name, timeRange) * micro; };
  return perProtocol(seconds("bulk"), seconds("ll"), seconds(object.has("ll128") ? "ll128" : "bulk"));
}

/// A field that is given twice would lose its first value.
std::optional<std::string> repeatedName(const std::string &text) {
  std::vector<std::set<std::string>> open;
  std::optional<std::string> repeated;
  auto look = [&](int, Json::parse_event_t event, Json &parsed) {
    if (event == Json::parse_event_t::object_start)
      open.emplace_back();
    else if (event == Json::parse_event_t::object_end)
      open.pop_back();
    else if (event == Json::parse_event_t::key && !open.back().insert(parsed.get<std::string>()).second)
      repeated = parsed.get<std::string>();
    return true;
  };
  (void)Json::parse(text, look, false);
  return repeated;
}

} // namespace

/// Fills a machine, in the order in which the parts need each other. All functions throw CostMistake.
class MachineReader {
public:
  MachineReader(const Json &value, const std::string &file)
      : root(value, file, "", {"version", "name", "title", "nodes", "node", "linkClasses", "payloadShare", "levels"}) {}

  Machine read() {
    if (int64_t version = root.integer("version", 0, INT32_MAX); version != fileVersion)
      root.fail("version", fmt::format("is {}, and this Kolo reads version {}", version, fileVersion));
    machine.machineName = root.name();
    machine.machineTitle = root.name("title");
    machine.nodes = root.integer("nodes", 1, maxNodes);
    readPayloadShares();
    readClasses();
    readNode();
    readLevels();
    addResources();
    addRoutes();
    return std::move(machine);
  }

private:
  void readPayloadShares() {
    JsonObject shares = root.object("payloadShare", {"ll", "ll128"});
    machine.payload =
        perProtocol(1, shares.number("ll", shareRange), shares.has("ll128") ? shares.number("ll128", shareRange) : 0);
  }

  void readClasses() {
    for (const JsonObject &object : root.objects("linkClasses", maxClasses,
                                                 {"name", "gigabytesPerSecond", "bySize", "kernelShare", "copyShare",
                                                  "millionMessagesPerSecond", "latencyMicroseconds"})) {
      LinkClass linkClass{object.name(), readBandwidth(object), readShare(object, "kernelShare"),
                          readShare(object, "copyShare")};
      linkClass.latency = readLatency(object);
      if (object.has("millionMessagesPerSecond"))
        linkClass.messagesPerSecond = object.number("millionMessagesPerSecond", messageRange) * mega;
      addName(object, classNames, linkClass.name);
      machine.classes.push_back(std::move(linkClass));
    }
  }

  static void addName(const JsonObject &object, std::vector<std::string> &names, const std::string &name) {
    if (std::ranges::count(names, name))
      object.fail("name", fmt::format("'{}' is the name of an earlier one too", name));
    names.push_back(name);
  }

  JsonObject node() const { return root.object("node", {"devices", "switches", "nics", "links", "host"}); }

  void readNode() {
    readDevices();
    for (const JsonObject &object : node().objects("switches", maxVertices, {"name", "gigabytesPerSecond"})) {
      double capacity =
          object.has("gigabytesPerSecond") ? object.number("gigabytesPerSecond", bandwidthRange) * giga : 0;
      addVertex(object, {VertexKind::Switch, object.name(), capacity});
    }
    for (const JsonObject &object : node().objects("nics", maxVertices, {"name", "class"}))
      addVertex(object, {VertexKind::Nic, object.name(), 0, int(object.oneOf("class", classNames, "link class"))});
    for (const JsonObject &object : node().objects("links", maxLinks, {"from", "to", "class", "count"}))
      addLink(object);
    if (node().has("host"))
      readHost(node().object("host", {"gigabytesPerSecond", "link", "hasNicsOnDevices"}));
  }

  void readHost(const JsonObject &object) {
    machine.host = HostMemory{Bandwidth{object.number("gigabytesPerSecond", bandwidthRange) * giga},
                              int(object.oneOf("link", classNames, "link class")),
                              object.has("hasNicsOnDevices") && object.flag("hasNicsOnDevices")};
    if (!machine.host->hasNicsOnDevices)
      return;
    for (const Link &link : machine.nodeLinks) {
      auto isNic = [&](int vertex) { return machine.nodeVertices[size_t(vertex)].kind == VertexKind::Nic; };
      if (isNic(link.from) || isNic(link.to))
        if (int other = isNic(link.from) ? link.to : link.from; other >= machine.devices)
          object.fail("hasNicsOnDevices",
                      fmt::format("'{}' is linked to '{}', which is no device",
                                  vertexNames[size_t(link.from + link.to - other)], vertexNames[size_t(other)]));
    }
  }

  void addVertex(const JsonObject &object, Vertex vertex) {
    addName(object, vertexNames, vertex.name);
    machine.nodeVertices.push_back(std::move(vertex));
  }

  void readDevices() {
    JsonObject object = node().object("devices", {"name", "count", "memory", "lane", "launchMicroseconds"});
    machine.devices = int(object.integer("count", 1, maxVertices));
    for (int device = 0; device < machine.devices; ++device)
      addVertex(object, {VertexKind::Device, fmt::format("{} {}", object.name(), device)});
    DeviceSpeed &speed = machine.speed;
    if (object.has("memory")) {
      JsonObject memory = object.object("memory", {"gigabytesPerSecond", "bySize", "share", "isShared", "writes"});
      speed.memoryBandwidth = readBandwidth(memory);
      speed.memoryShare = readShare(memory, "share");
      speed.sharesMemory = memory.has("isShared") && memory.flag("isShared");
      if (memory.has("writes"))
        speed.memoryWrites = readBandwidth(memory.object("writes", {"gigabytesPerSecond", "bySize"}));
    }
    if (object.has("lane")) {
      readLane(
          object.object("lane", {"gigabytesPerSecond", "bySize", "reduction", "ll", "ll128", "signalMicroseconds"}));
    }
    if (object.has("launchMicroseconds"))
      speed.launch = object.number("launchMicroseconds", timeRange) * micro;
  }

  void readLane(const JsonObject &lane) {
    DeviceSpeed &speed = machine.speed;
    speed.laneReduction = speed.laneBandwidth = readBandwidth(lane);
    if (lane.has("reduction"))
      speed.laneReduction = readBandwidth(lane.object("reduction", {"gigabytesPerSecond", "bySize"}));
    auto share = [&](const char *protocol) {
      if (!lane.has(protocol))
        return 1.0;
      JsonObject object = lane.object(protocol, {"gigabytesPerSecond"});
      double bandwidth = object.number("gigabytesPerSecond", bandwidthRange) * giga;
      if (bandwidth > speed.laneBandwidth.peak)
        object.fail("gigabytesPerSecond", "is more than the lane moves without packets");
      return bandwidth / speed.laneBandwidth.peak;
    };
    speed.laneShare = perProtocol(1, share("ll"), share("ll128"));
    if (lane.has("signalMicroseconds"))
      speed.laneSignal = lane.number("signalMicroseconds", timeRange) * micro;
  }

  void addLink(const JsonObject &object) {
    Link link{int(object.oneOf("from", vertexNames, "device, switch or NIC")),
              int(object.oneOf("to", vertexNames, "device, switch or NIC")),
              int(object.oneOf("class", classNames, "link class")), int(object.integer("count", 1, 1024))};
    if (link.from == link.to)
      object.fail("to", fmt::format("'{}' is linked to itself", vertexNames[size_t(link.to)]));
    for (size_t number = 0; number < machine.nodeLinks.size(); ++number) {
      const Link &other = machine.nodeLinks[number];
      if (std::minmax(other.from, other.to) == std::minmax(link.from, link.to))
        object.fail("to", fmt::format("'{}' and '{}' are linked by links[{}] already; its count says how often",
                                      vertexNames[size_t(link.from)], vertexNames[size_t(link.to)], number));
    }
    machine.nodeLinks.push_back(link);
  }

  void readLevels() {
    std::vector<std::string> names;
    std::vector<JsonObject> objects =
        root.objects("levels", maxLevels, {"name", "nodes", "gigabytesPerSecond", "latencyMicroseconds"});
    if (machine.nodes > 1 && objects.empty())
      root.fail("levels", fmt::format("is missing, and {} nodes need a network", machine.nodes));
    if (machine.nodes == 1 && !objects.empty())
      root.fail("levels", "a machine of one node has none");
    int64_t inner = 1;
    for (const JsonObject &object : objects) {
      bool isOutermost = &object == &objects.back();
      Level level{object.name(), object.integer("nodes", 1, machine.nodes), 0, readLatency(object)};
      addName(object, names, level.name);
      if (isOutermost && level.nodes != machine.nodes)
        object.fail("nodes",
                    fmt::format("is {}, and the outermost level has all {} nodes", level.nodes, machine.nodes));
      if (level.nodes < inner || (!isOutermost && level.nodes % inner != 0))
        object.fail("nodes", fmt::format("{} is no multiple of the {} of the level inside", level.nodes, inner));
      if (isOutermost && object.has("gigabytesPerSecond"))
        object.fail("gigabytesPerSecond", "nothing leaves the outermost level");
      if (object.has("gigabytesPerSecond"))
        level.bandwidth = object.number("gigabytesPerSecond", bandwidthRange) * giga;
      inner = level.nodes;
      machine.networkLevels.push_back(std::move(level));
    }
  }

  void addResources() {
    for (const Link &link : machine.nodeLinks) {
      addWire(link.from, link.to, link.linkClass, link.count);
      addWire(link.to, link.from, link.linkClass, link.count);
    }
    for (size_t number = 0; number < machine.nodeVertices.size(); ++number) {
      const Vertex &vertex = machine.nodeVertices[number];
      if (vertex.kind == VertexKind::Nic) {
        addWire(int(number), -1, vertex.wireClass, 1);
        addWire(-1, int(number), vertex.wireClass, 1);
      } else if (vertex.kind == VertexKind::Switch && vertex.capacity > 0) {
        machine.nodeResources.push_back(
            {Resource::Kind::Switch, vertex.name, -1, int(number), int(number), Bandwidth{vertex.capacity}});
      }
    }
    addMemories();
  }

  void addWire(int from, int to, int linkClass, int count) {
    const LinkClass &kind = machine.classes[size_t(linkClass)];
    auto nameOf = [&](int vertex) { return vertex < 0 ? "network" : vertexNames[size_t(vertex)]; };
    Resource wire{
        Resource::Kind::Link, nameOf(from) + " -> " + nameOf(to), linkClass, from, to, kind.bandwidth, kind.kernelShare,
        kind.copyShare};
    wire.peak.peak *= count;
    for (Bandwidth::Step &step : wire.peak.bySize)
      step.peak *= count;
    if (kind.messagesPerSecond > 0)
      wire.secondsPerMessage = 1 / (kind.messagesPerSecond * count);
    machine.nodeResources.push_back(std::move(wire));
  }

  void addMemories() {
    const DeviceSpeed &speed = machine.speed;
    auto add = [&](const std::string &name, const Bandwidth &bandwidth) {
      machine.nodeResources.push_back(
          {Resource::Kind::Memory, name, -1, -1, -1, bandwidth, speed.memoryShare, speed.memoryShare});
    };
    for (int device = 0; device < machine.devices; ++device) {
      if (device > 0 && speed.sharesMemory) {
        machine.memories.push_back(machine.memories.front());
        continue;
      }
      std::string name = speed.sharesMemory ? "memory" : "memory of " + vertexNames[size_t(device)];
      machine.memories.push_back(int(machine.nodeResources.size()));
      add(name, speed.memoryBandwidth);
      if (speed.memoryWrites.peak > 0) // Machine::writesOf
        add("writes to " + name, speed.memoryWrites);
    }
  }

  void addRoutes() {
    RouteFinder finder(machine);
    for (size_t vertex = 0; vertex < vertexNames.size(); ++vertex)
      if (!finder.between(0, int(vertex)))
        node().fail("links", fmt::format("no way leads from '{}' to '{}'", vertexNames[0], vertexNames[vertex]));
    for (int from = 0; from < machine.devices; ++from)
      for (int to = 0; to < machine.devices; ++to)
        machine.routes.between.push_back(finder.between(from, to).value());
    for (int device = 0; device < machine.devices; ++device) {
      std::optional<RouteFinder::NetworkWays> ways = finder.throughNic(device);
      if (!ways && !machine.networkLevels.empty())
        node().fail("nics", fmt::format("{} nodes need one at least", machine.nodes));
      if (machine.networkLevels.empty())
        ways = RouteFinder::NetworkWays();
      machine.routes.outward.push_back(std::move(ways->out));
      machine.routes.inward.push_back(std::move(ways->in));
    }
  }

  JsonObject root;
  Machine machine;
  std::vector<std::string> classNames, vertexNames;
};

namespace {

/// The folder of the shipped machines, beside the program.
std::string shippedFolder() {
  std::string program = llvm::sys::fs::getMainExecutable(nullptr, nullptr);
  llvm::SmallString<128> path(llvm::sys::path::parent_path(llvm::sys::path::parent_path(program)));
  llvm::sys::path::append(path, "share", "kolo", "machines");
  return std::string(path.str());
}

std::string pathOf(const std::string &nameOrPath) {
  if (nameOrPath.find('/') != std::string::npos || nameOrPath.ends_with(".json"))
    return nameOrPath;
  if (nameOrPath == "host") {
    std::string path = Machine::hostPath();
    if (path.empty() || !llvm::sys::fs::exists(path))
      throw CostMistake{fmt::format("machine host: `kolo probe` has not measured this machine yet: there is no {}",
                                    path.empty() ? "$HOME" : path)};
    return path;
  }
  std::vector<std::string> names = Machine::shippedNames();
  if (std::ranges::count(names, nameOrPath))
    return shippedFolder() + "/" + nameOrPath + ".json";
  names.push_back("host");
  throw CostMistake{fmt::format("there is no machine '{}'{} (one of {}, or a file)", nameOrPath,
                                didYouMean(nameOrPath, names), fmt::join(names, ", "))};
}

} // namespace

std::vector<std::string> Machine::shippedNames() {
  std::vector<std::string> names;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator entry(shippedFolder(), error), end; !error && entry != end;
       entry.increment(error))
    if (llvm::StringRef name = llvm::sys::path::filename(entry->path());
        name.ends_with(".json") && !name.ends_with(".schema.json"))
      names.push_back(name.drop_back(5).str());
  std::ranges::sort(names);
  return names;
}

std::string Machine::hostPath() {
  const char *data = std::getenv("XDG_DATA_HOME"), *home = std::getenv("HOME");
  if (data && *data)
    return std::string(data) + "/kolo/host.json";
  return home && *home ? std::string(home) + "/.local/share/kolo/host.json" : "";
}

std::variant<Machine, CostMistake> Machine::read(const std::string &nameOrPath) {
  try {
    std::string path = pathOf(nameOrPath);
    std::ifstream file(path);
    if (!llvm::sys::fs::is_regular_file(path) || !file)
      throw CostMistake{"cannot read " + path + ": it is no file, or may not be read"};
    return parse(std::string(std::istreambuf_iterator<char>(file), {}), path);
  } catch (CostMistake &mistake) {
    return std::move(mistake);
  }
}

std::variant<Machine, CostMistake> Machine::parse(const std::string &text, const std::string &file) {
  try {
    Json value = Json::parse(text, nullptr, false);
    if (value.is_discarded())
      throw CostMistake{file + ": is no JSON"};
    if (std::optional<std::string> name = repeatedName(text))
      throw CostMistake{file + ": " + *name + ": is given twice in one object"};
    return MachineReader(value, file).read();
  } catch (CostMistake &mistake) {
    return std::move(mistake);
  }
}

} // namespace kolo::cost
