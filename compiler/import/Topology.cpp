// The tree of both formats becomes devices, NICs and where they hang; then links. NCCL lists each link at both of its
// ends.
#include "compiler/import/Topology.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

namespace kolo::foreign {

namespace {

/// Something with a PCI address.
struct TopologyUnit {
  std::string bus; // "0000:c1:00.0", as the file has it
  int32_t line = 0, number = 0, numa = 0;
  double pcie = 0;               // GB/s of its slot; 0: not known
  double wire = 0;               // GB/s of a NIC
  std::string name;              // of a NIC, as the file has it
  std::vector<std::string> path; // bridges above it, from the outside in
};

/// A device's own links to one target.
struct OwnLinks {
  size_t device;
  std::string target, kind; // "xgmi", "nvlink"
  int32_t count = 0, line = 0;
  bool isToSwitch = false;
  double rate = 0; // GB/s of one
};

using Json = nlohmann::ordered_json;

class MachineMaker {
public:
  MachineMaker(const ForeignText &source, std::string name) : source(source), name(std::move(name)) {}
  ImportedMachine make();

private:
  [[noreturn]] void refuse(pugi::xml_node node, const std::string &message) const {
    throw Refusal{lineOf(node), message};
  }
  int32_t lineOf(pugi::xml_node node) const {
    return source.lineOf(size_t(std::max<ptrdiff_t>(node.offset_debug(), 0)));
  }
  void readSystem(pugi::xml_node system);
  void readPci(pugi::xml_node pci, int32_t numa, std::vector<std::string> path);
  void readDevice(pugi::xml_node gpu, const TopologyUnit &slot);
  void readTopology(pugi::xml_node topology);
  void readObject(pugi::xml_node object, int32_t numa, std::vector<std::string> path);
  double linkRate(pugi::xml_node gpu, const std::string &kind) const;
  void sortDevices();
  void addDirectLinks();
  void addPciLinks();
  void addNics();
  bool areConnected() const;
  size_t nearestDevice(const TopologyUnit &nic) const;
  std::string deviceName(size_t device) const { return fmt::format("GPU {}", device); }
  std::string classFor(const std::string &kind, double rate, const std::string &where);
  void addLink(const std::string &from, const std::string &to, const std::string &linkClass, int32_t count);
  std::string text() const;

  const ForeignText &source;
  std::string name;
  ImportedMachine result;
  std::vector<TopologyUnit> devices, nics;
  std::vector<OwnLinks> links;
  bool isOfAmd = false;
  Json linkList = Json::array(), classList = Json::array(), nicList = Json::array(), switchList = Json::array();
  std::set<std::string> classes, switches;
  std::vector<std::set<size_t>> neighbours; // by device; past the devices: switches
};

/// GB/s of a slot: gigatransfers of one lane, after coding, times lanes.
std::optional<double> pcieRate(std::string_view speed, std::string_view width) {
  static constexpr std::pair<double, double> lanes[] = {{2.5, 0.25}, {5, 0.5},    {8, 0.985},
                                                        {16, 1.969}, {32, 3.938}, {64, 7.563}};
  double transfers = std::strtod(std::string(speed).c_str(), nullptr);
  std::optional<int64_t> count = parseInteger(width);
  for (auto [known, bytes] : lanes)
    if (transfers == known && count && *count > 0 && *count <= 32)
      return bytes * double(*count);
  return std::nullopt;
}

/// The number of the bus in "0000:c1:00.0".
int64_t busNumber(const std::string &bus) {
  size_t colon = bus.find(':');
  return colon == std::string::npos ? 0 : std::strtoll(bus.c_str() + colon + 1, nullptr, 16);
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char each) { return char(std::tolower(each)); });
  return text;
}

} // namespace

/// From data sheets, GB/s of one link in one direction.
double MachineMaker::linkRate(pugi::xml_node gpu, const std::string &kind) const {
  std::string gcn = gpu.attribute("gcn").value();
  if (gcn.starts_with("gfx"))
    gcn = gcn.substr(3);
  if (kind == "xgmi" && !gcn.empty()) {
    static const std::map<std::string, double> rates{{"906", 46}, {"908", 46}, {"910", 50}, {"90a", 50},
                                                     {"940", 64}, {"941", 64}, {"942", 64}, {"950", 76.8}};
    if (auto found = rates.find(gcn); found != rates.end())
      return found->second;
  } else if (kind == "nvlink") {
    int64_t sm = parseInteger(gpu.attribute("sm").value()).value_or(0);
    if (sm >= 60)
      return sm >= 100 ? 50 : sm >= 70 ? 25 : 20;
  }
  refuse(gpu, fmt::format("a device with gcn={} and sm={}: what its {} links carry is not known", quote(gcn),
                          quote(gpu.attribute("sm").value()), kind));
}

void MachineMaker::readDevice(pugi::xml_node gpu, const TopologyUnit &slot) {
  TopologyUnit device = slot;
  device.line = lineOf(gpu);
  device.number = int32_t(parseInteger(gpu.attribute("dev").value()).value_or(int64_t(devices.size())));
  isOfAmd |= bool(gpu.attribute("gcn"));
  for (const char *kind : {"xgmi", "nvlink"})
    for (pugi::xml_node link : gpu.children(kind)) {
      std::optional<int64_t> count = parseInteger(link.attribute("count").value());
      if (!count || *count < 1 || *count > 1024)
        refuse(link,
               fmt::format("count is {}: it must be a number from 1 to 1024", quote(link.attribute("count").value())));
      links.push_back({devices.size(), lower(link.attribute("target").value()), kind, int32_t(*count), lineOf(link),
                       std::string_view(link.attribute("tclass").value()).starts_with("0x0680"), linkRate(gpu, kind)});
    }
  devices.push_back(std::move(device));
}

void MachineMaker::readPci(pugi::xml_node pci, int32_t numa, std::vector<std::string> path) {
  TopologyUnit slot;
  slot.bus = lower(pci.attribute("busid").value());
  slot.numa = numa;
  slot.line = lineOf(pci);
  slot.pcie = pcieRate(pci.attribute("link_speed").value(), pci.attribute("link_width").value()).value_or(0);
  slot.path = path;
  path.push_back(slot.bus);
  if (path.size() > 64)
    refuse(pci, "more than 64 bridges inside each other");
  for (pugi::xml_node child : pci.children()) {
    std::string_view kind = child.name();
    if (kind == "pci")
      readPci(child, numa, path);
    else if (kind == "gpu")
      readDevice(child, slot);
    else if (kind == "nic")
      for (pugi::xml_node net : child.children("net")) {
        TopologyUnit nic = slot;
        nic.line = lineOf(net);
        nic.name = net.attribute("name").value();
        nic.wire = double(parseInteger(net.attribute("speed").value()).value_or(0)) / 8000;
        nics.push_back(std::move(nic));
      }
  }
}

void MachineMaker::readSystem(pugi::xml_node system) {
  for (pugi::xml_node cpu : system.children("cpu")) {
    auto numa = int32_t(parseInteger(cpu.attribute("numaid").value()).value_or(0));
    for (pugi::xml_node child : cpu.children()) {
      if (std::string_view(child.name()) == "pci")
        readPci(child, numa, {});
      else if (std::string_view(child.name()) == "nic")
        for (pugi::xml_node net : child.children("net"))
          result.unknown.push_back(fmt::format("line {}: {} has no PCI address, and is left out", lineOf(net),
                                               quote(net.attribute("name").value())));
    }
  }
}

/// hwloc: devices of RSMI, CUDA and NVML are OS devices inside a PCI device; several of them may be one.
void MachineMaker::readObject(pugi::xml_node object, int32_t numa, std::vector<std::string> path) {
  if (path.size() > 64)
    refuse(object, "more than 64 bridges inside each other");
  std::string_view type = object.attribute("type").value();
  for (pugi::xml_node child : object.children("object"))
    if (std::string_view(child.attribute("type").value()) == "NUMANode")
      numa = int32_t(parseInteger(child.attribute("os_index").value()).value_or(numa));
  if (type == "Bridge")
    path.push_back(lower(object.attribute("pci_busid").value()));
  if (type == "PCIDev") {
    TopologyUnit unit;
    unit.bus = lower(object.attribute("pci_busid").value());
    unit.numa = numa;
    unit.line = lineOf(object);
    unit.path = path;
    unit.pcie = object.attribute("pci_link_speed").as_double();
    bool isDevice = false, isNic = false;
    for (pugi::xml_node child : object.children("object")) {
      std::string_view kind = child.attribute("subtype").value();
      std::string_view old = child.attribute("osdev_type").value();
      isDevice |= kind == "RSMI" || kind == "CUDA" || kind == "NVML" || kind == "LevelZero";
      if (kind == "OpenFabrics" || kind == "Slingshot" || (kind.empty() && old == "3")) {
        isNic = true;
        unit.name = child.attribute("name").value();
      }
    }
    if (isDevice) {
      unit.number = int32_t(devices.size());
      devices.push_back(unit);
    } else if (isNic) {
      nics.push_back(unit);
    }
  }
  for (pugi::xml_node child : object.children("object"))
    readObject(child, numa, path);
}

void MachineMaker::readTopology(pugi::xml_node topology) {
  for (pugi::xml_node object : topology.children("object"))
    readObject(object, 0, {});
  for (pugi::xml_node matrix : topology.children("distances2"))
    if (std::string_view(matrix.attribute("name").value()).starts_with("XGMI"))
      result.unknown.push_back(
          fmt::format("line {}: the matrix {} has one value for every pair, linked or not, so no links are "
                      "taken from it: NICs and NUMA nodes alone",
                      lineOf(matrix), matrix.attribute("name").value()));
}

/// By number, as the library counts them.
void MachineMaker::sortDevices() {
  std::vector<size_t> order(devices.size()), places(devices.size());
  for (size_t each = 0; each < order.size(); ++each)
    order[each] = each;
  std::ranges::sort(order, {}, [&](size_t each) { return std::pair(devices[each].number, each); });
  std::vector<TopologyUnit> sorted;
  for (size_t each = 0; each < order.size(); ++each) {
    places[order[each]] = each;
    sorted.push_back(devices[order[each]]);
  }
  devices = std::move(sorted);
  for (OwnLinks &each : links)
    each.device = places[each.device];
}

std::string MachineMaker::classFor(const std::string &kind, double rate, const std::string &where) {
  std::string made = fmt::format("{}-{:.4g}", kind, rate);
  if (!classes.insert(made).second)
    return made;
  bool isLink = kind == "xgmi" || kind == "nvlink";
  double bulk = !isLink ? 0 : kind == "xgmi" ? 3.6 : 3.4, ll = !isLink ? 0 : kind == "xgmi" ? 0.8 : 0.6;
  classList.push_back({{"name", made},
                       {"gigabytesPerSecond", rate},
                       {"latencyMicroseconds", {{"bulk", bulk}, {"ll", ll}, {"ll128", ll}}},
                       {"source", where}});
  return made;
}

void MachineMaker::addLink(const std::string &from, const std::string &to, const std::string &linkClass,
                           int32_t count) {
  linkList.push_back({{"from", from}, {"to", to}, {"class", linkClass}, {"count", count}});
}

void MachineMaker::addDirectLinks() {
  neighbours.resize(devices.size());
  std::map<std::string, size_t> byBus;
  for (size_t device = 0; device < devices.size(); ++device)
    byBus[devices[device].bus] = device;
  std::map<std::string, std::string> switchNames;
  std::map<std::pair<size_t, size_t>, const OwnLinks *> seen;
  std::ranges::sort(links, {}, [](const OwnLinks &each) { return std::pair(each.device, each.line); });
  for (const OwnLinks &link : links) {
    std::string where =
        fmt::format("{} of the file; the rate of one link is its data sheet's, latencies are those of the "
                    "library's tuning model",
                    link.kind);
    auto target = byBus.find(link.target);
    if (target == byBus.end() && !link.isToSwitch)
      throw Refusal{link.line, fmt::format("a link to {}, where no device is", quote(link.target))};
    if (target == byBus.end()) {
      auto [found, isNew] = switchNames.try_emplace(link.target, fmt::format("switch{}", switchNames.size()));
      if (isNew)
        switchList.push_back({{"name", found->second}});
      neighbours[link.device].insert(devices.size() + size_t(found->second.back() - '0'));
      addLink(deviceName(link.device), found->second, classFor(link.kind, link.rate, where), link.count);
      continue;
    }
    size_t other = target->second;
    auto pair = std::minmax(link.device, other);
    if (link.device == other)
      throw Refusal{link.line, "a link from a device to itself"};
    auto [found, isNew] = seen.try_emplace(pair, &link);
    if (!isNew) {
      if (found->second->count != link.count)
        throw Refusal{link.line, fmt::format("{} links, and the other end, line {}, has {}", link.count,
                                             found->second->line, found->second->count)};
      continue;
    }
    neighbours[link.device].insert(other);
    neighbours[other].insert(link.device);
    addLink(deviceName(pair.first), deviceName(pair.second), classFor(link.kind, link.rate, where), link.count);
  }
  if (!linkList.empty())
    result.taken.push_back(
        fmt::format("{} links between {} devices and {} switches", linkList.size(), devices.size(), switchList.size()));
}

/// Over direct links. Devices that hang on the same switch are.
bool MachineMaker::areConnected() const {
  std::map<size_t, std::vector<size_t>> ofSwitch;
  for (size_t device = 0; device < devices.size(); ++device)
    for (size_t other : neighbours[device])
      if (other >= devices.size())
        ofSwitch[other].push_back(device);
  std::set<size_t> reached{0};
  std::vector<size_t> open{0};
  while (!open.empty()) {
    size_t device = open.back();
    open.pop_back();
    for (size_t other : neighbours[device])
      for (size_t next : other < devices.size() ? std::vector{other} : ofSwitch[other])
        if (reached.insert(next).second)
          open.push_back(next);
  }
  return reached.size() == devices.size();
}

/// Where devices are not all linked, their data goes through PCIe and the processors.
void MachineMaker::addPciLinks() {
  if (areConnected())
    return;
  std::set<int32_t> nodes;
  for (const TopologyUnit &device : devices)
    nodes.insert(device.numa);
  for (int32_t node : nodes)
    switchList.push_back({{"name", fmt::format("NUMA{}", node)}});
  for (size_t device = 0; device < devices.size(); ++device) {
    double rate = devices[device].pcie;
    if (rate <= 0) {
      rate = 31.5;
      result.assumed.push_back(fmt::format("{}: PCIe 4.0 x16, 31.5 GB/s; the file does not say", deviceName(device)));
    }
    addLink(deviceName(device), fmt::format("NUMA{}", devices[device].numa),
            classFor("pcie", rate, "the slot's speed and width in the file, after coding"), 1);
  }
  for (auto first = nodes.begin(); first != nodes.end(); ++first)
    for (auto second = std::next(first); second != nodes.end(); ++second)
      addLink(fmt::format("NUMA{}", *first), fmt::format("NUMA{}", *second),
              classFor("processors", 32, "assumed: what a processor passes on to another"), 1);
  result.assumed.push_back(
      "devices without links reach each other through PCIe and their NUMA nodes, bridges left out");
  if (nodes.size() > 1)
    result.assumed.push_back("32 GB/s between every two NUMA nodes");
}

/// The device with the most bridges in common, then on the same NUMA node, then with the nearest bus number.
size_t MachineMaker::nearestDevice(const TopologyUnit &nic) const {
  auto distance = [&](const TopologyUnit &device) {
    auto common = std::ranges::mismatch(nic.path, device.path).in1 - nic.path.begin();
    return std::tuple(-common, device.numa != nic.numa, std::abs(busNumber(device.bus) - busNumber(nic.bus)),
                      device.number);
  };
  return size_t(std::ranges::min_element(devices, {}, distance) - devices.begin());
}

void MachineMaker::addNics() {
  std::set<std::string> names;
  for (const TopologyUnit &nic : nics) {
    double wire = nic.wire;
    if (wire <= 0) {
      wire = 25;
      result.assumed.push_back(
          fmt::format("line {}: 200 Gb/s of {}; the file does not say", nic.line, quote(nic.name)));
    }
    double slot = nic.pcie;
    if (slot <= 0) {
      slot = 31.5;
      result.assumed.push_back(
          fmt::format("line {}: PCIe 4.0 x16 of {}; the file does not say", nic.line, quote(nic.name)));
    }
    std::string own =
        nic.name.empty() || !names.insert(nic.name).second ? fmt::format("nic{}", nicList.size()) : nic.name;
    names.insert(own);
    size_t device = nearestDevice(nic);
    nicList.push_back({{"name", own}, {"class", classFor("wire", wire, "the NIC's speed in the file")}});
    addLink(deviceName(device), own, classFor("pcie", slot, "the slot's speed and width in the file, after coding"), 1);
    result.assumed.push_back(fmt::format("line {}: {} hangs on {}, whose address {} is nearest to {}", nic.line, own,
                                         deviceName(device), devices[device].bus, nic.bus));
  }
  if (!nicList.empty())
    result.taken.push_back(fmt::format("{} NICs", nicList.size()));
}

std::string MachineMaker::text() const {
  Json payload = {{"ll", isOfAmd ? 0.2 : 0.5}};
  if (!isOfAmd)
    payload["ll128"] = 0.9375;
  Json node = {{"devices", {{"name", "GPU"}, {"count", devices.size()}}}};
  if (!switchList.empty())
    node["switches"] = switchList;
  if (!nicList.empty())
    node["nics"] = nicList;
  if (!linkList.empty())
    node["links"] = linkList;
  Json machine = {{"version", 1}, {"name", name}, {"title", "imported from a topology"}, {"nodes", 1}, {"node", node}};
  if (!classList.empty())
    machine["linkClasses"] = classList;
  machine["payloadShare"] = payload;
  return machine.dump(2) + "\n";
}

ImportedMachine MachineMaker::make() {
  pugi::xml_document document;
  const std::string &text = source.text();
  pugi::xml_parse_result parsed =
      document.load_buffer(text.data(), text.size(), pugi::parse_default & ~pugi::parse_escapes, pugi::encoding_utf8);
  if (!parsed)
    throw Refusal{source.lineOf(size_t(std::max<ptrdiff_t>(parsed.offset, 0))),
                  fmt::format("is no XML: {}", parsed.description())};
  if (pugi::xml_node system = document.child("system"))
    readSystem(system);
  else if (pugi::xml_node topology = document.child("topology"))
    readTopology(topology);
  else
    throw Refusal{1, "has neither <system>, as NCCL and RCCL write it, nor <topology>, as hwloc does"};
  if (devices.empty())
    throw Refusal{1, "has no device"};
  sortDevices();
  result.taken.push_back(fmt::format("{} devices", devices.size()));
  addDirectLinks();
  addPciLinks();
  addNics();
  result.assumed.push_back(
      "one node; latencies of links are those of the library's tuning model, those of PCIe and wires are 0");
  result.unknown.push_back(
      "memory bandwidth, what kernels and copies reach of a link, and the network beyond the NICs");
  result.json = this->text();
  return std::move(result);
}

std::variant<ImportedMachine, Refusal> importMachine(const ForeignText &source, const std::string &name) {
  try {
    return MachineMaker(source, name).make();
  } catch (Refusal &refusal) {
    return std::move(refusal);
  }
}

} // namespace kolo::foreign
