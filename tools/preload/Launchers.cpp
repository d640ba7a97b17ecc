#include "tools/preload/Launchers.h"

#include "tools/preload/Libraries.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

namespace kolo::tools {

namespace fs = std::filesystem;

namespace {

enum class Launcher : uint8_t { None, OpenMpi, Hydra, Slurm };

using Words = std::vector<std::string>;

/// By the libraries and texts in the file; its names are the same for all: mpirun, mpiexec.
Launcher launcherOf(const std::string &word) {
  const std::string name = fs::path(word).filename().string();
  if (name == "srun")
    return Launcher::Slurm;
  if (!name.starts_with("mpirun") && !name.starts_with("mpiexec") && name != "orterun" && name != "prterun")
    return Launcher::None;
  std::optional<std::string> path = findExecutable(word);
  std::ifstream file(path.value_or(""), std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto has = [&](const char *part) { return text.find(part) != std::string::npos; };
  if (has("libopen-rte") || has("libprrte") || has("prterun"))
    return Launcher::OpenMpi;
  return has("HYDRA") || has("mpiexec.hydra") ? Launcher::Hydra : Launcher::None;
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
Forwarding forwardByOpenMpi(const Words &command, size_t launcher, const Words &variables) {
  constexpr const char *parameter = "mca_base_env_list", *environment = "OMPI_MCA_mca_base_env_list";
  Forwarding result = {command, {}};
  for (size_t at = launcher + 2; at < command.size(); ++at)
    if (command[at - 1] == parameter) {
      result.command[at] += ";" + join(variables, ";");
      return result;
    }
  if (const char *list = std::getenv(environment); list && *list) {
    result.environment.push_back({environment, std::string(list) + ";" + join(variables, ";")});
    return result;
  }
  result.command.clear();
  for (size_t at = 0; at < command.size(); ++at) {
    result.command.push_back(command[at]);
    if (at != launcher && (at < launcher || command[at] != ":"))
      continue;
    for (const std::string &name : variables)
      if (!isExported(command, at + 1, name))
        result.command.insert(result.command.end(), {"-x", name});
  }
  return result;
}

/// Hydra passes everything on unless it is told otherwise, for all programs (-genv...) or for one (-env...).
Forwarding forwardByHydra(const Words &command, size_t launcher, const Words &variables) {
  const std::string names = join(variables, ",");
  Forwarding result = {Words(command.begin(), command.begin() + static_cast<std::ptrdiff_t>(launcher) + 1), {}};
  for (size_t at = launcher + 1; at < command.size(); ++at) {
    const std::string &word = command[at], &before = command[at - 1];
    bool isNone = word == "-genvnone" || word == "-envnone", isList = before == "-genvlist" || before == "-envlist";
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

/// What srun is told to pass on, with the variables too. Nothing to change: it passes on everything.
std::optional<std::string> exportsOfSlurm(const std::string &exported, const Words &variables) {
  if (exported == "ALL" || exported.starts_with("ALL,"))
    return std::nullopt;
  bool isNone = exported == "NONE" || exported == "NIL";
  return (isNone ? "" : exported + ",") + join(variables, ",");
}

Forwarding forwardBySlurm(const Words &command, size_t launcher, const Words &variables) {
  constexpr std::string_view option = "--export=";
  Forwarding result = {command, {}};
  bool isTold = false;
  for (size_t at = launcher + 1; at < command.size(); ++at) {
    bool isOneWord = command[at].starts_with(option);
    if (!isOneWord && command[at - 1] != "--export")
      continue;
    isTold = true;
    std::string exported = isOneWord ? command[at].substr(option.size()) : command[at];
    if (std::optional<std::string> changed = exportsOfSlurm(exported, variables))
      result.command[at] = (isOneWord ? std::string(option) : "") + *changed;
  }
  const char *exported = std::getenv("SLURM_EXPORT_ENV");
  if (!isTold && exported && *exported)
    if (std::optional<std::string> changed = exportsOfSlurm(exported, variables))
      result.environment.push_back({"SLURM_EXPORT_ENV", *changed});
  return result;
}

} // namespace

Forwarding forwardVariables(const Words &command, const Words &variables) {
  for (size_t at = 0; at < command.size(); ++at)
    switch (launcherOf(command[at])) {
    case Launcher::OpenMpi:
      return forwardByOpenMpi(command, at, variables);
    case Launcher::Hydra:
      return forwardByHydra(command, at, variables);
    case Launcher::Slurm:
      return forwardBySlurm(command, at, variables);
    case Launcher::None:
      break;
    }
  return {command, {}};
}

void addToPreload(Words &command, const std::string &preload) {
  constexpr std::string_view name = "LD_PRELOAD", assignment = "LD_PRELOAD=";
  for (size_t at = 0; at < command.size(); ++at) {
    if (command[at].starts_with(assignment))
      command[at].insert(assignment.size(), preload + ":");
    bool isHydras = at >= 2 && command[at - 1] == name && (command[at - 2] == "-genv" || command[at - 2] == "-env");
    if (isHydras)
      command[at].insert(0, preload + ":");
  }
}

} // namespace kolo::tools
