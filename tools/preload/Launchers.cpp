#include "tools/preload/Launchers.h"

#include "tools/preload/Libraries.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>

namespace kolo::tools {

namespace fs = std::filesystem;

namespace {

enum class Launcher : uint8_t { None, OpenMpi, Hydra, Slurm };

using Words = std::vector<std::string>;

constexpr const char *preloadName = "LD_PRELOAD";

/// By the libraries and texts in the file; its names are the same for all: mpirun, mpiexec.
Launcher findLauncher(const std::string &word) {
  const std::string name = fs::path(word).filename().string();
  if (name == "srun")
    return Launcher::Slurm;
  if (!name.starts_with("mpirun") && !name.starts_with("mpiexec") && name != "orterun" && name != "prterun")
    return Launcher::None;
  std::optional<std::string> path = findExecutable(word);
  const std::string text = contentOf(path.value_or(""));
  auto has = [&](std::string_view part) {
    return memmem(text.data(), text.size(), part.data(), part.size()) != nullptr;
  };
  if (has("libopen-rte") || has("libprrte") || has("prterun"))
    return Launcher::OpenMpi;
  return has("HYDRA") || has("mpiexec.hydra") ? Launcher::Hydra : Launcher::None;
}

Launcher launcherOf(const std::string &word) {
  static std::map<std::string, Launcher> known;
  auto [entry, isNew] = known.try_emplace(word, Launcher::None);
  if (isNew)
    entry->second = findLauncher(word);
  return entry->second;
}

std::string join(const Words &names, const char *separator) { return fmt::format("{}", fmt::join(names, separator)); }

/// Whether the words from `begin` to the next ':' have `-x NAME` or `-x NAME=VALUE`.
bool isExported(const Words &words, size_t begin, const std::string &name) {
  for (size_t at = begin; at + 1 < words.size() && words[at] != ":"; ++at)
    if ((words[at] == "-x" || words[at] == "--x") && (words[at + 1] == name || words[at + 1].starts_with(name + "=")))
      return true;
  return false;
}

/// Open MPI takes `-x NAME` for each program of a line, or one list of names for all; not both.
Forwarding forwardByOpenMpi(const Words &command, size_t launcher, const std::string &preload, const Words &variables) {
  constexpr const char *parameter = "mca_base_env_list", *environment = "OMPI_MCA_mca_base_env_list";
  Words all = variables;
  all.insert(all.begin(), preloadName);
  const std::string names = join(all, ";");
  Forwarding result = {command, {{preloadName, preload}}};
  for (size_t at = launcher + 2; at < command.size(); ++at)
    if (command[at - 1] == parameter) {
      result.command[at] += ";" + names;
      return result;
    }
  if (const char *list = std::getenv(environment); list && *list) {
    result.environment.push_back({environment, std::string(list) + ";" + names});
    return result;
  }
  result = {};
  const std::string assignment = fmt::format("{}={}", preloadName, preload);
  for (size_t at = 0; at < command.size(); ++at) {
    const bool isExport = at > launcher && (command[at - 1] == "-x" || command[at - 1] == "--x");
    result.command.push_back(isExport && command[at] == preloadName ? assignment : command[at]);
    if (at != launcher && (at < launcher || command[at] != ":"))
      continue;
    if (!isExported(command, at + 1, preloadName))
      result.command.insert(result.command.end(), {"-x", assignment});
    for (const std::string &name : variables)
      if (!isExported(command, at + 1, name))
        result.command.insert(result.command.end(), {"-x", name});
  }
  return result;
}

/// Hydra passes everything on unless it is told otherwise, for all programs (-genv...) or for one (-env...).
Forwarding forwardByHydra(const Words &command, size_t launcher, const std::string &preload, const Words &variables) {
  const std::string names = join(variables, ",");
  Forwarding result = {Words(command.begin(), command.begin() + static_cast<std::ptrdiff_t>(launcher) + 1), {}};
  const Words given = {"-genv", preloadName};
  if (std::ranges::search(command, given).empty())
    result.command.insert(result.command.end(), {"-genv", preloadName, preload});
  for (size_t at = launcher + 1; at < command.size(); ++at) {
    const std::string &word = command[at], &before = command[at - 1];
    bool isNone = !variables.empty() && (word == "-genvnone" || word == "-envnone"),
         isList = !variables.empty() && (before == "-genvlist" || before == "-envlist");
    if (isNone)
      result.command.insert(result.command.end(), {word == "-genvnone" ? "-genvlist" : "-envlist", names});
    else
      result.command.push_back(isList ? word + "," + names : word);
    // Of such a list, Hydra 4.0 leaves out what comes last in its own environment; so something else does.
    if (result.environment.empty() && (isNone || isList))
      result.environment.push_back({"KOLO_LAST_VARIABLE", "1"});
  }
  return result;
}

/// What srun is told to pass on, with the door and the variables too. A value that it is told for LD_PRELOAD goes
/// behind the door: it would replace the launcher's own.
std::string exportsOfSlurm(const std::string &exported, const std::string &door, Words variables) {
  const bool isNone = exported == "NONE" || exported == "NIL",
             isAll = exported == "ALL" || exported.starts_with("ALL,");
  const std::string assigned = std::string(preloadName) + "=";
  Words words;
  bool isAssigned = false;
  for (std::string_view rest = isNone ? std::string_view() : exported; !rest.empty();) {
    std::string word(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    if (word.starts_with(assigned)) {
      isAssigned = true;
      if (word.find(door) == std::string::npos) // see addToPreload
        word.insert(assigned.size(), door + ":");
    }
    words.push_back(std::move(word));
  }
  if (isAll)
    variables.clear();
  else if (!isAssigned)
    variables.insert(variables.begin(), preloadName);
  words.insert(words.end(), variables.begin(), variables.end());
  return join(words, ",");
}

Forwarding forwardBySlurm(const Words &command, size_t launcher, const std::string &preload, const Words &variables) {
  constexpr std::string_view option = "--export=";
  Forwarding result = {command, {{preloadName, preload}}};
  bool isTold = false;
  for (size_t at = launcher + 1; at < command.size(); ++at) {
    bool isOneWord = command[at].starts_with(option);
    if (!isOneWord && command[at - 1] != "--export")
      continue;
    isTold = true;
    std::string exported = isOneWord ? command[at].substr(option.size()) : command[at];
    result.command[at] = (isOneWord ? std::string(option) : "") + exportsOfSlurm(exported, preload, variables);
  }
  const char *exported = std::getenv("SLURM_EXPORT_ENV");
  const std::string changed = !isTold && exported && *exported ? exportsOfSlurm(exported, preload, variables) : "";
  if (!changed.empty() && changed != exported)
    result.environment.push_back({"SLURM_EXPORT_ENV", changed});
  return result;
}

} // namespace

bool isLauncher(const std::string &word) { return launcherOf(word) != Launcher::None; }

Forwarding forwardVariables(const Words &command, const std::string &preload, const Words &variables) {
  for (size_t at = 0; at < command.size(); ++at)
    switch (launcherOf(command[at])) {
    case Launcher::OpenMpi:
      return forwardByOpenMpi(command, at, preload, variables);
    case Launcher::Hydra:
      return forwardByHydra(command, at, preload, variables);
    case Launcher::Slurm:
      return forwardBySlurm(command, at, preload, variables);
    case Launcher::None:
      break;
    }
  return {command, {{preloadName, preload}}};
}

void addToPreload(Words &command, const std::string &preload) {
  constexpr std::string_view assignment = "LD_PRELOAD=";
  for (size_t at = 0; at < command.size(); ++at) {
    if (command[at].starts_with(assignment))
      command[at].insert(assignment.size(), preload + ":");
    bool isHydras =
        at >= 2 && command[at - 1] == preloadName && (command[at - 2] == "-genv" || command[at - 2] == "-env");
    if (isHydras)
      command[at].insert(0, preload + ":");
  }
}

} // namespace kolo::tools
