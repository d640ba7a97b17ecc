#include "memory/AvailableMemory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace kolo::runtime {
namespace {

constexpr uint64_t unlimited = std::numeric_limits<uint64_t>::max();

/// The number that follows `key` at the start of a line of a file; with an empty key, the file's first word.
std::optional<uint64_t> readNumber(const std::string &path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key))
      continue;
    size_t begin = line.find_first_not_of(" \t", key.size());
    uint64_t value = 0;
    if (begin == std::string::npos ||
        std::from_chars(line.data() + begin, line.data() + line.size(), value).ec != std::errc())
      return std::nullopt;
    return value;
  }
  return std::nullopt;
}

/// What one control group (version 2) leaves: its limit, less what it uses that cannot be reclaimed from files.
uint64_t leftInGroup(const std::string &folder) {
  std::optional<uint64_t> limit = readNumber(folder + "/memory.max", "");
  std::optional<uint64_t> used = readNumber(folder + "/memory.current", "");
  if (!limit || !used)
    return unlimited;
  uint64_t reclaimable = readNumber(folder + "/memory.stat", "inactive_file ").value_or(0);
  uint64_t held = *used - std::min(*used, reclaimable);
  return *limit - std::min(*limit, held);
}

/// The least that this process's control group or any above it leaves.
uint64_t leftInGroups() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::/"))
      continue;
    uint64_t left = unlimited;
    for (std::string path = line.substr(3); !path.empty(); path.resize(path.rfind('/')))
      left = std::min(left, leftInGroup("/sys/fs/cgroup" + path));
    return std::min(left, leftInGroup("/sys/fs/cgroup"));
  }
  return unlimited;
}

} // namespace

uint64_t availableMemoryBytes() {
  std::optional<uint64_t> kilobytes = readNumber("/proc/meminfo", "MemAvailable:");
  return std::min(kilobytes ? *kilobytes * 1024 : unlimited, leftInGroups());
}

} // namespace kolo::runtime
