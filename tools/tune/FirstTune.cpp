#include "tools/tune/FirstTune.h"

#include "tools/compile/Schedules.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <tuple>

namespace kolo::tools {

namespace {

using runtime::MemoryKind;

constexpr double mostSecondsPerCell = 0.2;

std::string programOf(const TableEntry &entry) { return entry.algorithm + suffixFor(entry.schedule); }

class FirstTuner {
public:
  FirstTuner(const FirstTuneOptions &options, const std::vector<TableEntry> &shipped,
             const std::function<void(double)> &atEnd)
      : options(options), shipped(shipped), atEnd(atEnd),
        numGroups(options.meshes.size() * options.collectives.size() * 2) {}

  std::vector<TunedGroup> run() {
    for (const runtime::Mesh &mesh : options.meshes)
      for (runtime::CollectiveKind collective : options.collectives)
        tuneBoth(collective, mesh);
    std::ranges::sort(groups, {}, [](const TunedGroup &group) {
      return std::tuple(group.collective, group.mesh.numRanks(), group.memory);
    });
    return std::move(groups);
  }

private:
  double secondsLeft() const {
    return options.seconds - std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  void tuneBoth(runtime::CollectiveKind collective, const runtime::Mesh &mesh) {
    std::optional<Candidates> candidates;
    for (MemoryKind memory : {MemoryKind::Ordinary, MemoryKind::Windows}) {
      TunedGroup group{collective, mesh, memory, secondsLeft() > 0, entriesOf(collective, mesh, memory)};
      if (group.isMeasured) {
        if (!candidates)
          candidates = compileCandidates(collective, mesh, programsFor(collective));
        group.candidates = candidates->all;
        group.cells = tune(*candidates, mesh, memory, optionsFor(collective, mesh, group.entries));
        group.entries = entriesFor(*candidates, group.cells, collective, mesh, memory);
      }
      groups.push_back(std::move(group));
      atEnd(double(groups.size()) / double(numGroups));
    }
  }

  TuneOptions optionsFor(runtime::CollectiveKind collective, const runtime::Mesh &mesh,
                         std::vector<TableEntry> incumbents) const {
    TuneOptions result{options.maxBytes};
    result.isQuick = true;
    double share = std::max(0.0, secondsLeft()) / double(numGroups - groups.size());
    size_t numSizes = sizesToTune(collective, mesh, options.maxBytes, true).size();
    // The other half of the share: starting ranks, filling memory, checks.
    result.secondsPerCell = std::min(mostSecondsPerCell, share / 2 / double(numSizes));
    result.incumbent = [incumbents = std::move(incumbents)](int64_t bytes) {
      for (const TableEntry &entry : incumbents)
        if (!entry.upToBytes || bytes <= *entry.upToBytes)
          return programOf(entry);
      return std::string();
    };
    return result;
  }

  std::vector<TableEntry> entriesOf(runtime::CollectiveKind collective, const runtime::Mesh &mesh,
                                    MemoryKind memory) const {
    std::vector<TableEntry> found;
    for (const TableEntry &entry : shipped)
      if (entry.collective == collective && entry.ranks == mesh.numRanks() && entry.memory == memory &&
          entry.mesh.dims().empty())
        found.push_back(entry);
    return found;
  }

  std::set<std::string> programsFor(runtime::CollectiveKind collective) const {
    std::set<std::string> programs;
    for (const TableEntry &entry : shipped)
      if (entry.collective == collective)
        programs.insert(programOf(entry));
    return programs;
  }

  const FirstTuneOptions &options;
  const std::vector<TableEntry> &shipped;
  const std::function<void(double)> &atEnd;
  size_t numGroups;
  std::vector<TunedGroup> groups;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

} // namespace

std::vector<TunedGroup> tuneFirst(const FirstTuneOptions &options, const std::vector<TableEntry> &shipped,
                                  const std::function<void(double)> &atEnd) {
  return FirstTuner(options, shipped, atEnd).run();
}

} // namespace kolo::tools
