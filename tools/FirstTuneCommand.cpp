#include "tools/FirstTuneCommand.h"
#include "tools/Options.h"
#include "tools/TuneJson.h"

#include "kolo/runtime/Communicator.h"
#include "kolo/runtime/Tuned.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace kolo::tools {

namespace {

namespace fs = std::filesystem;

/// On a terminal, one line that is written over again; elsewhere nothing.
class ProgressBar {
public:
  explicit ProgressBar(double totalSeconds) : totalSeconds(totalSeconds), isShown(isatty(STDERR_FILENO)) { show(0); }
  ~ProgressBar() {
    if (isShown)
      fmt::print(stderr, "\r{:{}}\r", "", width + 40);
  }
  ProgressBar(const ProgressBar &) = delete;
  ProgressBar &operator=(const ProgressBar &) = delete;

  void show(double share) const {
    if (!isShown)
      return;
    auto filled = int(share * width);
    fmt::print(stderr, "\rmeasuring [{:#<{}}{:{}}] {:3.0f} %, {:.0f} s at most", "", filled, "", width - filled,
               share * 100, totalSeconds);
    std::fflush(stderr);
  }

private:
  static constexpr int width = 40;
  double totalSeconds;
  bool isShown;
};

/// The plugin's path, in a folder that is there and can be written.
std::string preparePath() {
  std::string path = runtime::tunedPluginPath();
  if (path.empty())
    throw ToolError(ExitCode::Usage,
                    "tune: neither XDG_CACHE_HOME nor HOME is an absolute path: set one, or give -o FILE");
  std::error_code problem;
  fs::path folder = fs::path(path).parent_path();
  fs::create_directories(folder, problem);
  if (problem)
    throw ToolError(ExitCode::Usage, fmt::format("tune: cannot make {}: {}; XDG_CACHE_HOME names another directory, "
                                                 "and -o FILE writes a table only",
                                                 folder.string(), problem.message()));
  checkWritable(path, "tune");
  checkRegular(path, "tune");
  return path;
}

std::vector<std::pair<std::string, std::string>> describeOrigin(const std::string &date) {
  runtime::HostDescription host = runtime::describeHost();
  return {{"processor", host.processor},
          {"cores", std::to_string(host.cores)},
          {"caches", host.caches},
          {"kernel", host.kernel},
          {"date", date}};
}

std::string tablePathBeside(const std::string &plugin) {
  return plugin.substr(0, plugin.size() - std::string_view(".kolo.so").size()) + ".json";
}

/// Writes the table, then the plugin, which alone is what doors look for.
void keep(const std::string &path, const std::vector<TableEntry> &entries, const std::string &command) {
  Provenance provenance = describeMachine(KOLO_VERSION, command);
  writeWhole(tablePathBeside(path), writeTable(provenance, entries), "tune");
  CompileRequest request = requestFor(entries);
  request.output = path;
  request.tuned = describeOrigin(provenance.date);
  compile(request);
}

void printJson(const std::vector<TunedGroup> &groups, const std::string &path) {
  nlohmann::ordered_json schedules = nlohmann::ordered_json::array();
  for (const TunedGroup &group : groups)
    if (group.isMeasured)
      addSchedules({group.collective, group.mesh, group.memory, group.candidates, group.cells}, {}, schedules);
  fmt::print("{}\n", nlohmann::ordered_json{{"output", path}, {"schedules", std::move(schedules)}}.dump(2));
}

void report(const std::vector<TunedGroup> &groups, const std::string &path) {
  auto numMeasured = std::ranges::count_if(groups, &TunedGroup::isMeasured);
  std::set<int> ranks;
  for (const TunedGroup &group : groups)
    ranks.insert(group.mesh.numRanks());
  fmt::print("measured {} of {} groups of a collective, a number of ranks and a kind of memory, for {} ranks\n",
             numMeasured, groups.size(), fmt::join(ranks, ", "));
  if (size_t(numMeasured) < groups.size())
    fmt::print("time was up: the other {} are as in the table that ships; --seconds gives more time\n",
               groups.size() - size_t(numMeasured));
  fmt::print("{}: doors take it from now on; KOLO_PLUGIN_PATH names another\n", path);
}

} // namespace

std::vector<std::string> defaultMeshes() {
  std::set<int> ranks = {2, 4, 8, std::clamp(runtime::describeHost().cores, 2, runtime::maxRanksOfHost)};
  std::vector<std::string> meshes;
  for (int number : ranks)
    meshes.push_back(fmt::format("rank={}", number));
  return meshes;
}

void tuneForDoors(const FirstTuneOptions &options, const std::string &command, bool asJson) {
  std::string path = preparePath();
  std::vector<TunedGroup> groups;
  {
    ProgressBar bar(options.seconds);
    groups = tuneFirst(options, readTable(tablePath("default")), [&](double share) { bar.show(share); });
  }
  std::vector<TableEntry> entries;
  for (const TunedGroup &group : groups)
    std::ranges::copy(group.entries, std::back_inserter(entries));
  if (entries.empty())
    throw ToolError(ExitCode::Usage, "--seconds: nothing was measured in time, and the table that ships has nothing");
  keep(path, entries, command);
  asJson ? printJson(groups, path) : report(groups, path);
}

} // namespace kolo::tools
