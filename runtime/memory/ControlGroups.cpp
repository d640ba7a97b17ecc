#include "memory/ControlGroups.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
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

constexpr uint64_t noLimit = uint64_t(1) << 62; // version 1 writes about twice as much where there is none

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
std::vector<Mount> findMounts(const Version &version, std::string_view controller, const std::string &process) {
  std::vector<Mount> mounts;
  std::ifstream file(process + "/mountinfo");
  for (std::string line; std::getline(file, line);) {
    size_t end = line.find(" - ");
    if (end == std::string::npos)
      continue;
    std::istringstream words(line.substr(0, end)), more(line.substr(end + 3));
    std::string ignored, type, source, options;
    Mount mount;
    words >> ignored >> ignored >> ignored >> mount.root >> mount.folder;
    more >> type >> source >> options;
    if (type == version.fileSystem && (&version == &second || hasWord(options, controller)))
      mounts.push_back(std::move(mount));
  }
  return mounts;
}

/// Where a process is in groups that have this controller, by version.
struct Membership {
  Membership(std::string_view ofController, const std::string &process)
      : controller(ofController),
        mounts{findMounts(first, ofController, process), findMounts(second, ofController, process)} {}

  std::string_view controller;
  std::vector<Mount> mounts[2];
};

uint64_t leftInGroup(const Version &version, const std::string &folder) {
  std::optional<uint64_t> limit = readNumber(folder + "/" + version.limit, "");
  if (!limit || *limit >= noLimit) // most groups; the other files take the kernel longer
    return UINT64_MAX;
  std::optional<uint64_t> used = readNumber(folder + "/" + version.used, "");
  if (!used)
    return UINT64_MAX;
  uint64_t reclaimable = readNumber(folder + "/memory.stat", version.reclaimable).value_or(0);
  uint64_t held = *used - std::min(*used, reclaimable);
  return *limit - std::min(*limit, held);
}

/// Calls `visit` with the folder of this group and of those above it. `group`: as /proc/self/cgroup has it. A container
/// may see a part of the groups alone, or all below its own.
template <class Visit> void visitGroupsUnder(const Mount &mount, std::string group, Visit visit) {
  bool isBelow = mount.root != "/" && group.starts_with(mount.root);
  if (isBelow)
    group.erase(0, mount.root.size());
  else if (mount.root != "/")
    group.clear();
  visit(mount.folder);
  for (; group.size() > 1; group.resize(group.rfind('/')))
    visit(mount.folder + group);
}

/// Calls `visit` with a version and a folder for all groups of the process. They may change.
template <class Visit> void visitGroups(const Membership &membership, const std::string &process, Visit visit) {
  std::ifstream file(process + "/cgroup");
  for (std::string line; std::getline(file, line);) { // "HIERARCHY:CONTROLLERS:/GROUP"; version 2: "0::/GROUP"
    size_t controllers = line.find(':'), group = line.find(":/");
    if (controllers == std::string::npos || group == std::string::npos)
      continue;
    bool isSecond = group == controllers + 1 && line.starts_with("0:");
    std::string_view names = std::string_view(line).substr(controllers + 1, group - controllers - 1);
    const Version &version = isSecond ? second : first;
    if (!isSecond && !hasWord(names, membership.controller))
      continue;
    for (const Mount &mount : membership.mounts[isSecond ? 1 : 0])
      visitGroupsUnder(mount, line.substr(group + 1), [&](const std::string &folder) { visit(version, folder); });
  }
}

/// Of one group. Infinity: there is no quota, or it cannot be read.
double cpusOfGroup(const Version &version, const std::string &folder) {
  std::optional<uint64_t> quota, period;
  if (&version == &second) { // "QUOTA PERIOD" or "max PERIOD"
    const std::string path = folder + "/cpu.max";
    quota = readNumber(path, "");
    if (quota)
      period = readNumber(path, std::to_string(*quota));
  } else { // -1: none
    quota = readNumber(folder + "/cpu.cfs_quota_us", "");
    period = readNumber(folder + "/cpu.cfs_period_us", "");
  }
  bool isLimited = quota && period && *period != 0;
  return isLimited ? static_cast<double>(*quota) / static_cast<double>(*period)
                   : std::numeric_limits<double>::infinity();
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
  const std::string process = "/proc/self";
  static const Membership membership("memory", process); // a program's mounts do not change
  uint64_t left = UINT64_MAX;
  visitGroups(membership, process, [&](const Version &version, const std::string &folder) {
    left = std::min(left, leftInGroup(version, folder));
  });
  return left;
}

double cpusInControlGroups(const std::string &process) {
  double cpus = std::numeric_limits<double>::infinity();
  visitGroups(Membership("cpu", process), process, [&](const Version &version, const std::string &folder) {
    cpus = std::min(cpus, cpusOfGroup(version, folder));
  });
  return cpus;
}

} // namespace kolo::runtime
