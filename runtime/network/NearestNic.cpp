#include "network/NearestNic.h"

#include "base/Error.h"
#include "base/Variable.h"

#include <algorithm>
#include <charconv>
#include <fstream>

namespace kolo::runtime {
namespace {

namespace fs = std::filesystem;

fs::path folderOf(const fs::path &sysfs, const std::string &address) {
  return sysfs / "bus" / "pci" / "devices" / address;
}

std::string readLine(const fs::path &path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

/// Of a device of PCI: host bridge, bridges and the device itself. Empty: unknown.
std::vector<std::string> wayTo(const fs::path &sysfs, const std::string &address) {
  std::error_code unknown;
  const fs::path real = address.empty() ? fs::path() : fs::canonical(folderOf(sysfs, address), unknown);
  std::vector<std::string> way(real.begin(), real.end());
  auto bridge = std::ranges::find_if(way, [](const std::string &part) { return part.starts_with("pci"); });
  return unknown ? std::vector<std::string>() : std::vector<std::string>(bridge, way.end());
}

/// "-1", or nothing: unknown.
std::string numaNodeOf(const fs::path &sysfs, const std::string &address) {
  std::string node = address.empty() ? "" : readLine(folderOf(sysfs, address) / "numa_node");
  return node == "-1" ? "" : node;
}

/// "0-15,32-47".
cpu_set_t parseProcessors(const std::string &list) {
  cpu_set_t processors = {};
  const char *at = list.data(), *end = at + list.size();
  while (at < end) {
    size_t first = 0;
    auto [afterFirst, error] = std::from_chars(at, end, first);
    if (error != std::errc())
      break;
    size_t last = first;
    at = afterFirst;
    if (at < end && *at == '-')
      at = std::from_chars(at + 1, end, last).ptr;
    for (size_t processor = first; processor <= last && processor < CPU_SETSIZE; ++processor)
      CPU_SET(processor, &processors);
    at += at < end ? 1 : 0;
  }
  return processors;
}

/// More is nearer.
int nearnessTo(const fs::path &sysfs, const std::string &device, const std::string &nic) {
  const std::vector<std::string> one = wayTo(sysfs, device), other = wayTo(sysfs, nic);
  const auto shared = std::ranges::mismatch(one, other).in1 - one.begin();
  if (shared > 0)
    return static_cast<int>(shared) + 1;
  const std::string node = numaNodeOf(sysfs, device);
  return !node.empty() && node == numaNodeOf(sysfs, nic) ? 1 : 0;
}

int nearnessTo(const fs::path &sysfs, const cpu_set_t &processors, const std::string &nic) {
  const cpu_set_t local = parseProcessors(nic.empty() ? "" : readLine(folderOf(sysfs, nic) / "local_cpulist"));
  cpu_set_t both;
  CPU_AND(&both, &local, &processors);
  return CPU_COUNT(&both) > 0 ? 1 : 0;
}

} // namespace

Result<RankLocality> RankLocality::here(const fs::path &sysfs) {
  RankLocality place;
  if (sched_getaffinity(0, sizeof(place.processors), &place.processors) != 0)
    place.processors = {};
  const char *device = variable("KOLO_NETWORK_NEAR");
  if (!device)
    return place;
  place.device = device;
  if (place.device.find('/') != std::string::npos || wayTo(sysfs, place.device).empty())
    return error(StatusCode::InvalidArgument,
                 "KOLO_NETWORK_NEAR='{}' is no device of PCI that this host has, such as 0000:c1:00.0", device);
  return place;
}

std::vector<size_t> nearestNics(std::span<const std::string> nics, const RankLocality &place, const fs::path &sysfs) {
  std::vector<int> nearness;
  nearness.reserve(nics.size());
  for (const std::string &nic : nics)
    nearness.push_back(place.device.empty() ? nearnessTo(sysfs, place.processors, nic)
                                            : nearnessTo(sysfs, place.device, nic));
  const int most = *std::ranges::max_element(nearness);
  std::vector<size_t> nearest;
  for (size_t number = 0; number < nics.size(); ++number)
    if (nearness[number] == most)
      nearest.push_back(number);
  return nearest;
}

} // namespace kolo::runtime
