#include "memory/ControlGroups.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <vector>

namespace kolo::runtime {
namespace {

/// The files of one version of control groups.
struct Version {
  const char *fileSystem, *limit, *used, *reclaimable; // the last: a key of memory.stat
};
constexpr Version first = {"cgroup", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};
constexpr Version second = {"cgroup2", "memory.max", "memory.current", "inactive_file "};

/// Where groups of a version are mounted: `root` is the group that the folder stands for.
struct Mount {
  std::string root, folder;
};

bool hasWord(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    size_t end = std::min(list.find(','), list.size());
    if (list.substr(0, end) == word)
      return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

/// Of /proc/self/mountinfo: "36 35 98:0 ROOT FOLDER rw,noatime master:1 - TYPE SOURCE OPTIONS". Of version 1, a mount
/// has some controllers.
std::vector<Mount> findMounts(const Version &version) {
  std::vector<Mount> mounts;
  std::ifstream file("/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    size_t end = line.find(" - ");
    if (end == std::string::npos)
      continue;
    std::istringstream words(line.substr(0, end)), more(line.substr(end + 3));
    std::string ignored, type, source, options;
    Mount mount;
    words >> ignored >> ignored >> ignored >> mount.root >> mount.folder;
    more >> type >> source >> options;
    if (type == version.fileSystem && (&version == &second || hasWord(options, "memory")))
      mounts.push_back(std::move(mount));
  }
  return mounts;
}

uint64_t leftInGroup(const Version &version, const std::string &folder) {
  std::optional<uint64_t> limit = readNumber(folder + "/" + version.limit, "");
  std::optional<uint64_t> used = readNumber(folder + "/" + version.used, "");
  if (!limit || !used)
    return UINT64_MAX;
  uint64_t reclaimable = readNumber(folder + "/memory.stat", version.reclaimable).value_or(0);
  uint64_t held = *used - std::min(*used, reclaimable);
  return *limit - std::min(*limit, held);
}

/// `group`: as /proc/self/cgroup has it. A container may see a part of the groups alone, or all below its own.
uint64_t leftUnder(const Version &version, const Mount &mount, std::string group) {
  bool isBelow = mount.root != "/" && group.starts_with(mount.root);
  if (isBelow)
    group.erase(0, mount.root.size());
  else if (mount.root != "/")
    group.clear();
  uint64_t left = leftInGroup(version, mount.folder);
  for (; group.size() > 1; group.resize(group.rfind('/')))
    left = std::min(left, leftInGroup(version, mount.folder + group));
  return left;
}

} // namespace

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

uint64_t leftInControlGroups() {
  uint64_t left = UINT64_MAX;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) { // "HIERARCHY:CONTROLLERS:/GROUP"; version 2: "0::/GROUP"
    size_t controllers = line.find(':'), group = line.find(":/");
    if (controllers == std::string::npos || group == std::string::npos)
      continue;
    bool isSecond = group == controllers + 1 && line.starts_with("0:");
    std::string_view names = std::string_view(line).substr(controllers + 1, group - controllers - 1);
    const Version &version = isSecond ? second : first;
    if (!isSecond && !hasWord(names, "memory"))
      continue;
    static const std::vector<Mount> mounts[] = {findMounts(first), findMounts(second)}; // a program's do not change
    for (const Mount &mount : mounts[isSecond ? 1 : 0])
      left = std::min(left, leftUnder(version, mount, line.substr(group + 1)));
  }
  return left;
}

} // namespace kolo::runtime
