// kolo preload: runs an unchanged program with the doors for its MPI and for NCCL, or says what to set.
#include "tools/CommandLine.h"
#include "tools/Commands.h"
#include "tools/compile/ToolError.h"
#include "tools/preload/Launchers.h"
#include "tools/preload/Libraries.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace kolo::tools {
namespace {

using Words = std::vector<std::string>;

struct PreloadCommand {
  Words command;
  bool mustPrint = false, isNccl = false;
};

/// The words that may be programs of MPI or NCCL, as paths.
Words findPrograms(const Words &command) {
  Words programs;
  for (const std::string &word : command)
    if (std::optional<std::string> path = isLauncher(word) ? std::nullopt : findExecutable(word))
      programs.push_back(*path);
  return programs;
}

/// The first program that loads an MPI decides; a script's interpreter loads it later, so then the launcher does. Null:
/// no MPI is known.
const MpiAbi *findMpi(const Words &command, const Words &programs) {
  for (const std::string &program : programs)
    if (const MpiAbi *abi = mpiOf(program))
      return abi;
  if (std::optional<std::string> launcher = findExecutable(command.front()))
    if (const MpiAbi *abi = mpiOfLauncher(*launcher))
      return abi;
  return nullptr;
}

[[noreturn]] void refuse(const Words &command) {
  throw ToolError(
      ExitCode::Usage,
      fmt::format("preload: no word of '{}' loads an MPI library that Kolo knows, and '{}' is no launcher of "
                  "one: set LD_PRELOAD to {}/libkolo_mpi_openmpi.so or libkolo_mpi_mpich.so. No word loads NCCL "
                  "either: a program that loads it while it runs needs --nccl",
                  fmt::join(command, " "), command.front(), libraryFolder()));
}

std::string findNccl() {
  std::optional<std::string> door = findNcclDoor();
  if (!door)
    throw ToolError(ExitCode::Usage, fmt::format("preload: the program loads NCCL, for which this Kolo was not built: "
                                                 "there is no {}/libkolo_nccl.so",
                                                 libraryFolder()));
  return *door;
}

std::string findMpiDoor(const MpiAbi &abi) {
  std::optional<std::string> door = findDoor(abi);
  if (!door)
    throw ToolError(ExitCode::Usage, fmt::format("preload: the program loads {}, for which this Kolo was not built: "
                                                 "there is no {}/libkolo_mpi_{}.so",
                                                 abi.title, libraryFolder(), abi.name));
  return *door;
}

/// The doors for all libraries that the command loads, with ':' between them.
std::string findDoors(const PreloadCommand &options) {
  Words doors;
  const Words programs = options.isNccl ? Words() : findPrograms(options.command);
  const MpiAbi *abi = options.isNccl ? nullptr : findMpi(options.command, programs);
  bool hasNccl = options.isNccl || std::ranges::any_of(programs, &loadsNccl);
  if (hasNccl && (!abi || findNcclDoor())) // a program of both may do without the door for NCCL
    doors.push_back(findNccl());
  if (abi)
    doors.push_back(findMpiDoor(*abi));
  if (doors.empty())
    refuse(options.command);
  return fmt::format("{}", fmt::join(doors, ":"));
}

/// The settings that the user gave, which ranks need on every host.
Words givenSettings() {
  Words names;
  for (char **entry = environ; *entry; ++entry)
    if (std::string_view text = *entry; text.starts_with("KOLO_"))
      names.emplace_back(text.substr(0, text.find('=')));
  std::ranges::sort(names);
  return names;
}

/// As a shell reads it back.
std::string quoted(const std::string &word) {
  constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos)
    return word;
  std::string text = "'";
  for (char letter : word)
    text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

void run(const PreloadCommand &options) {
  std::string doors = findDoors(options), preload = doors;
  if (const char *others = std::getenv("LD_PRELOAD"); others && *others)
    preload += std::string(":") + others;
  Words command = options.command;
  addToPreload(command, doors);
  const Forwarding forwarding = forwardVariables(command, preload, givenSettings());
  if (options.mustPrint) {
    for (const Variable &variable : forwarding.environment)
      fmt::print("{}={}\n", variable.name, quoted(variable.value));
    if (forwarding.command == options.command)
      return;
    Words words;
    std::ranges::transform(forwarding.command, std::back_inserter(words), quoted);
    fmt::print("{}\n", fmt::join(words, " "));
    return;
  }
  for (const Variable &variable : forwarding.environment)
    setenv(variable.name.c_str(), variable.value.c_str(), 1);
  std::vector<char *> words;
  for (const std::string &word : forwarding.command)
    words.push_back(const_cast<char *>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  throw ToolError(ExitCode::Usage,
                  fmt::format("preload: cannot run '{}': {}", options.command.front(), std::strerror(errno)));
}

} // namespace

void addPreloadCommand(CLI::App &app) {
  auto options = std::make_shared<PreloadCommand>();
  CLI::App *command = addCommand(app, "preload", "runs an unchanged program of MPI or NCCL with Kolo's collectives");
  command->add_flag("--print", options->mustPrint, "prints what to set and how to call the launcher, and runs nothing");
  command->add_flag("--nccl", options->isNccl,
                    "preloads the door for NCCL alone: for programs that load NCCL while they run");
  command->add_option("command", options->command, "after --: for example mpirun -n 4 ./app")
      ->required()
      ->type_name("COMMAND...");
  command->footer("KOLO_STATS=1 prints at exit what was carried; docs/loading.md has the other variables.");
  command->callback([options] { run(*options); });
}

} // namespace kolo::tools
