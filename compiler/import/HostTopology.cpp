#include "compiler/import/HostTopology.h"
#include "compiler/import/ForeignText.h"

#include <fmt/format.h>
#include <pugixml.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

namespace kolo::foreign {

namespace fs = std::filesystem;

namespace {

struct HostLink {
  std::string target, kind; // "xgmi", "nvlink"
  int64_t count = 0;
};

struct HostDevice {
  int64_t number = 0;
  std::string gcn, sm; // of AMD, of NVIDIA
  int64_t numa = 0;    // where sysfs does not have it
  std::vector<HostLink> links;
};

struct HostNic {
  std::string name;
  int64_t megabits = 0; // per second; 0: not known
};

class HostReader {
public:
  HostReader(const std::string &sysfs, const NvidiaSmi &smi) : sysfs(sysfs), smi(smi) {}
  std::string read();

private:
  void readNvidiaDevices();
  void readMatrix();
  void readAmdDevices();
  void readNics();
  void addSlot(const std::string &bus);
  pugi::xml_node slotOf(const std::string &bus);
  fs::path deviceFolder(const std::string &bus) const { return sysfs / "bus" / "pci" / "devices" / bus; }

  const fs::path sysfs;
  const NvidiaSmi &smi;
  std::map<std::string, HostDevice> devices;        // by address
  std::map<std::string, std::vector<HostNic>> nics; // by address
  std::map<int64_t, pugi::xml_node> processors;     // by NUMA node
  std::map<std::string, pugi::xml_node> slots;      // by address
  pugi::xml_document document;
  pugi::xml_node system;
};

std::string trimmed(std::string_view text) {
  size_t first = text.find_first_not_of(" \t\r"), last = text.find_last_not_of(" \t\r");
  return first == std::string_view::npos ? "" : std::string(text.substr(first, last - first + 1));
}

/// The first line of a small file, without spaces at its ends; empty if there is none.
std::string lineOf(const fs::path &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return trimmed(line);
}

std::vector<std::string> namesIn(const fs::path &folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (fs::directory_iterator each(folder, ignored), end; !ignored && each != end; each.increment(ignored))
    names.push_back(each->path().filename());
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream{std::string(text)};
  for (std::string part; std::getline(stream, part, separator);)
    parts.push_back(trimmed(part));
  return parts;
}

/// Without what makes a terminal underline it.
std::string plain(const std::string &text) {
  std::string result;
  for (size_t at = 0; at < text.size(); ++at)
    if (text[at] == '\x1b')
      at = std::min(text.find('m', at), text.size() - 1);
    else
      result += text[at];
  return result;
}

/// "0000:c1:00.0" from "00000000:C1:00.0", as sysfs has it.
std::string addressOf(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char each) { return char(std::tolower(each)); });
  size_t colon = text.find(':');
  return colon == 8 ? text.substr(4) : text;
}

bool isAddress(const std::string &text) {
  return text.size() == 12 && text[4] == ':' && text[7] == ':' && text[10] == '.';
}

/// NVLinks that a device of this compute capability has at most.
int64_t mostLinks(int64_t sm) { return sm >= 90 ? 18 : sm >= 80 ? 12 : sm >= 70 ? 6 : 4; }

/// "name value" in each line, as AMD's driver writes it.
std::map<std::string, int64_t> propertiesIn(const fs::path &path) {
  std::map<std::string, int64_t> properties;
  std::ifstream file(path);
  std::string name;
  for (int64_t value = 0; file >> name >> value;)
    properties[name] = value;
  return properties;
}

} // namespace

void HostReader::readNvidiaDevices() {
  for (const std::string &line : split(smi.devices, '\n'))
    if (std::vector<std::string> fields = split(line, ','); fields.size() == 3 && isAddress(addressOf(fields[1]))) {
      HostDevice &device = devices[addressOf(fields[1])];
      device.number = parseInteger(fields[0]).value_or(0);
      device.sm = fields[2];
      std::erase(device.sm, '.');
    }
  if (!devices.empty())
    return readMatrix();
  for (const std::string &bus : namesIn(sysfs / "bus" / "pci" / "devices"))
    if (lineOf(deviceFolder(bus) / "vendor") == "0x10de" && lineOf(deviceFolder(bus) / "class").starts_with("0x0302")) {
      auto number = int64_t(devices.size());
      devices[bus].number = number;
    }
}

/// Where a device has more links to all others together than it can have, they lead to switches.
void HostReader::readMatrix() {
  std::map<std::string, std::string> buses; // by the matrix's names
  for (const auto &[bus, device] : devices)
    buses[fmt::format("GPU{}", device.number)] = bus;
  std::vector<std::string> header;
  for (const std::string &line : split(plain(smi.matrix), '\n')) {
    // The corner is empty, and trimmed away with its tab.
    if (header.empty() && line.starts_with("GPU")) {
      header = split("\t" + line, '\t');
      continue;
    }
    std::vector<std::string> cells = split(line, '\t');
    auto own = buses.find(cells.empty() ? "" : cells[0]);
    if (own == buses.end())
      continue;
    HostDevice &device = devices[own->second];
    int64_t total = 0, most = 0;
    for (size_t column = 1; column < std::min(cells.size(), header.size()); ++column) {
      if (header[column] == "NUMA Affinity")
        device.numa = parseInteger(cells[column]).value_or(0);
      auto other = buses.find(header[column]);
      if (other == buses.end() || !cells[column].starts_with("NV"))
        continue;
      int64_t count = parseInteger(std::string_view(cells[column]).substr(2)).value_or(0);
      if (count <= 0)
        continue;
      device.links.push_back({other->second, "nvlink", count});
      total += count;
      most = std::max(most, count);
    }
    if (total > mostLinks(parseInteger(device.sm).value_or(0)))
      device.links = {{"nvswitch", "nvlink", most}};
  }
}

void HostReader::readAmdDevices() {
  const fs::path nodes = sysfs / "class" / "kfd" / "kfd" / "topology" / "nodes";
  std::map<int64_t, std::string> buses; // by the driver's numbers
  for (const std::string &name : namesIn(nodes)) {
    std::map<std::string, int64_t> own = propertiesIn(nodes / name / "properties");
    int64_t version = own["gfx_target_version"], place = own["location_id"];
    if (version <= 0 || !parseInteger(name))
      continue;
    std::string bus =
        fmt::format("{:04x}:{:02x}:{:02x}.{:x}", own["domain"], (place >> 8) & 0xff, (place >> 3) & 0x1f, place & 7);
    buses[*parseInteger(name)] = bus;
    devices[bus].gcn = fmt::format("gfx{}{}{:x}", version / 10000, version / 100 % 100, version % 100);
  }
  int64_t number = 0;
  for (const auto &[node, bus] : buses) {
    devices[bus].number = number++;
    const fs::path links = nodes / std::to_string(node) / "io_links";
    for (const std::string &name : namesIn(links)) {
      std::map<std::string, int64_t> link = propertiesIn(links / name / "properties");
      auto other = buses.find(link["node_to"]);
      constexpr int64_t xgmi = 11;
      if (link["type"] != xgmi || other == buses.end())
        continue;
      int64_t one = link["min_bandwidth"], all = link["max_bandwidth"]; // of one link, and of all of them
      devices[bus].links.push_back({other->second, "xgmi", one > 0 && all > one ? all / one : 1});
    }
  }
}

void HostReader::readNics() {
  for (const std::string &bus : namesIn(sysfs / "bus" / "pci" / "devices")) {
    const fs::path folder = deviceFolder(bus);
    int64_t ofNet = 0;
    for (const std::string &name : namesIn(folder / "net"))
      ofNet = std::max(ofNet, parseInteger(lineOf(folder / "net" / name / "speed")).value_or(0));
    for (const char *kind : {"infiniband", "cxi"})
      for (const std::string &name : namesIn(folder / kind)) {
        std::string rate = lineOf(folder / kind / name / "ports" / "1" / "rate"); // "200 Gb/sec (4X HDR)"
        int64_t gigabits = std::strtoll(rate.c_str(), nullptr, 10);
        nics[bus].push_back({name, gigabits > 0 ? gigabits * 1000 : ofNet});
      }
  }
}

/// The element of a PCI device, inside of those of the bridges above it.
pugi::xml_node HostReader::slotOf(const std::string &bus) {
  if (auto found = slots.find(bus); found != slots.end())
    return found->second;
  const fs::path folder = deviceFolder(bus);
  std::error_code ignored;
  std::string above = fs::canonical(folder, ignored).parent_path().filename();
  pugi::xml_node parent;
  if (isAddress(above) && above != bus) {
    parent = slotOf(above);
  } else {
    auto device = devices.find(bus);
    int64_t numa =
        parseInteger(lineOf(folder / "numa_node")).value_or(device == devices.end() ? 0 : device->second.numa);
    pugi::xml_node &processor = processors[std::max<int64_t>(numa, 0)];
    if (!processor) {
      processor = system.append_child("cpu");
      processor.append_attribute("numaid") = std::max<int64_t>(numa, 0);
    }
    parent = processor;
  }
  pugi::xml_node slot = parent.append_child("pci");
  slot.append_attribute("busid") = bus.c_str();
  // What it can do: an idle device turns its slot down.
  std::string speed = lineOf(folder / "max_link_speed"), width = lineOf(folder / "max_link_width");
  if (!speed.empty() && !width.empty()) {
    slot.append_attribute("link_speed") = speed.c_str();
    slot.append_attribute("link_width") = width.c_str();
  }
  return slots[bus] = slot;
}

void HostReader::addSlot(const std::string &bus) {
  if (auto found = devices.find(bus); found != devices.end()) {
    pugi::xml_node gpu = slotOf(bus).append_child("gpu");
    gpu.append_attribute("dev") = found->second.number;
    if (!found->second.sm.empty())
      gpu.append_attribute("sm") = found->second.sm.c_str();
    if (!found->second.gcn.empty())
      gpu.append_attribute("gcn") = found->second.gcn.c_str();
    for (const HostLink &each : found->second.links) {
      pugi::xml_node link = gpu.append_child(each.kind.c_str());
      link.append_attribute("target") = each.target.c_str();
      link.append_attribute("count") = each.count;
      link.append_attribute("tclass") = devices.contains(each.target) ? "0x030200" : "0x068000";
    }
  }
  for (const HostNic &each : nics[bus]) {
    pugi::xml_node net = slotOf(bus).append_child("nic").append_child("net");
    net.append_attribute("name") = each.name.c_str();
    net.append_attribute("speed") = each.megabits;
  }
}

std::string HostReader::read() {
  readNvidiaDevices();
  readAmdDevices();
  if (devices.empty())
    return "";
  readNics();
  system = document.append_child("system");
  system.append_attribute("version") = 1;
  std::set<std::string> all;
  for (const auto &[bus, device] : devices)
    all.insert(bus);
  for (const auto &[bus, nic] : nics)
    all.insert(bus);
  for (const std::string &bus : all)
    addSlot(bus);
  std::ostringstream text;
  document.save(text, "  ", pugi::format_indent | pugi::format_no_declaration);
  return text.str();
}

std::string hostTopology(const std::string &sysfs, const NvidiaSmi &smi) { return HostReader(sysfs, smi).read(); }

} // namespace kolo::foreign
