// kolo doctor: one screen of what is found on this machine, and of what would be used for a call.
#include "tools/CommandLine.h"
#include "tools/Commands.h"
#include "tools/compile/ToolError.h"
#include "tools/compile/TuningTable.h"
#include "tools/preload/Libraries.h"

#include "kolo/runtime/Communicator.h"
#include "kolo/runtime/Door.h"
#include "kolo/runtime/Nics.h"
#include "kolo/runtime/Tuned.h"

#include <llvm/Config/llvm-config.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

namespace kolo::tools {
namespace {

struct DoctorCommand {
  std::string collective = "all_reduce", memory = "ordinary";
  int ranks = 2;
  int64_t bytes = 1024;
};

void line(const std::string &name, const std::string &text) { fmt::print("{:<13} {}\n", name, text); }

std::string found(const std::string &soname) { return findLibrary(soname).value_or("not found"); }

/// "found" for each MPI, and whether its door is there.
void showMpi() {
  for (const MpiAbi &abi : mpiAbis()) {
    std::optional<std::string> library, door = findDoor(abi);
    for (const char *soname : abi.sonames)
      if (!library)
        library = findLibrary(soname);
    line(abi.title == std::string("the standard ABI of MPI 5") ? "MPI 5 ABI" : abi.title,
         library.value_or("not found") + (door ? ", door: " + *door : ", no door in this build"));
  }
}

void showTorch() {
  std::optional<std::string> version =
      outputOf({"python3", "-c", "import importlib.metadata as m; print(m.version('torch'))"});
  line("PyTorch", version ? version->substr(0, version->find('\n')) : "not found by python3");
}

/// What KOLO_NETWORK may name here.
void showFabric() {
  std::error_code ignored;
  bool isBuilt = std::filesystem::exists(libraryFolder() + "/libkolo_fabric.so", ignored);
  line("libfabric", found("libfabric.so.1") + (isBuilt ? ", transport: " + libraryFolder() + "/libkolo_fabric.so"
                                                       : ", no transport in this build"));
}

/// Which NIC a rank that starts here takes.
void showNics() {
  const runtime::Result<std::vector<runtime::NicDescription>> nics = runtime::describeNics();
  if (!nics.isOk())
    return line("NICs", nics.status().message());
  if (nics->empty())
    return line("NICs", "none that KOLO_NETWORK may choose: ranks of several hosts use TCP");
  const char *device = std::getenv("KOLO_NETWORK_NEAR");
  const std::string near = device && *device ? fmt::format(", nearest to {}", device) : ", nearest to this process";
  for (const runtime::NicDescription &nic : *nics)
    line("NIC", fmt::format("{} of {}{}{}", nic.name, nic.provider, nic.address.empty() ? "" : " at " + nic.address,
                            nic.isNearest ? near : ""));
}

std::string text(const nlohmann::json &value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::string describe(const nlohmann::json &machine) {
  return fmt::format("{}, {} cores", text(machine.value("processor", nlohmann::json("unknown processor"))),
                     text(machine.value("cores", nlohmann::json(0))));
}

/// The shipped table beside this machine: a table for another kind of machine may choose badly.
void showShippedTable(const runtime::HostDescription &here, bool isTuned) {
  nlohmann::json table = nlohmann::json::parse(std::ifstream(tablePath("default")), nullptr, false);
  if (!table.is_object() || !table.contains("machine"))
    return line("shipped table", tablePath("default") + " is damaged");
  std::string there = describe(table["machine"]), own = fmt::format("{}, {} cores", here.processor, here.cores);
  std::string advice = isTuned ? "" : "; `kolo tune` measures this one in a minute";
  line("shipped table", fmt::format("measured on {}: {}", there,
                                    there == own ? "a machine of this kind" : "not this kind of machine" + advice));
}

/// Returns whether doors take a table of this machine.
bool showOwnTable(const runtime::Result<runtime::Door> &door) {
  std::string path = runtime::tunedPluginPath();
  std::error_code ignored;
  if (path.empty() || !std::filesystem::exists(path, ignored)) {
    line("own table", path.empty() ? "none: neither XDG_CACHE_HOME nor HOME is an absolute path"
                                   : "none: `kolo tune` makes " + path + " in a minute");
    return false;
  }
  runtime::Result<runtime::Plugin> plugin = runtime::loadTunedPlugin();
  if (!plugin.isOk()) {
    line("own table", "not used: " + plugin.status().message() + "; `kolo tune` makes a new one");
    return false;
  }
  bool isUsed = door.isOk() && std::ranges::any_of(door->plugins(), [&](const runtime::Plugin &used) {
                  return used.identity() == plugin->identity();
                });
  nlohmann::json manifest = nlohmann::json::parse(plugin->manifest());
  line("own table", fmt::format("measured on this machine on {}: {}{}", text(manifest["tuned"]["date"]), path,
                                isUsed ? "" : "; not used: KOLO_PLUGIN_PATH names others"));
  return true;
}

void showTables(const runtime::Result<runtime::Door> &door) {
  runtime::HostDescription here = runtime::describeHost();
  line("this machine",
       fmt::format("{}, {} cores, caches {}, Linux {}", here.processor, here.cores, here.caches, here.kernel));
  bool isTuned = showOwnTable(door);
  showShippedTable(here, isTuned);
}

void showPlugins(const runtime::Result<runtime::Door> &door) {
  const char *variable = std::getenv("KOLO_PLUGIN_PATH");
  line("plugin path", variable && *variable
                          ? variable
                          : "KOLO_PLUGIN_PATH is not set: this machine's own table, then the one that ships");
  if (!door.isOk())
    return line("plugin", "none: " + door.status().message());
  for (const runtime::Plugin &plugin : door->plugins()) {
    std::set<int> ranks;
    for (const runtime::SelectionEntry &entry : plugin.selection())
      ranks.insert(entry.ranks);
    line("plugin", fmt::format("{}: {} programs{}", runtime::Door::describe(plugin), plugin.programs().size(),
                               ranks.empty() ? ", selects none of them by itself: doors cannot use it"
                                             : fmt::format(", for {} ranks", fmt::join(ranks, ", "))));
  }
}

runtime::CollectiveKind readCollective(const std::string &name) {
  if (auto kind = runtime::parseCollectiveKind(name))
    return *kind;
  throw ToolError(ExitCode::Usage, "doctor: --collective '" + name + "' names no collective");
}

runtime::MemoryKind readMemory(const std::string &name) {
  if (auto memory = runtime::parseMemoryKind(name))
    return *memory;
  throw ToolError(ExitCode::Usage, "doctor: --memory '" + name + "' is neither windows nor ordinary");
}

/// What a door would do with a call, by the same selection.
void showCall(const DoctorCommand &options, const runtime::Result<runtime::Door> &door) {
  runtime::CollectiveKind kind = readCollective(options.collective);
  runtime::MemoryKind memory = readMemory(options.memory);
  runtime::Result<runtime::Mesh> mesh = runtime::Mesh::create({{"rank", options.ranks}});
  if (!mesh.isOk())
    throw ToolError(ExitCode::Usage, "doctor: --ranks: " + mesh.status().message());
  std::string call = fmt::format("{} of {} bytes on {} ranks, {} memory", options.collective, options.bytes,
                                 options.ranks, options.memory);
  if (!door.isOk())
    return line("a call", call + ": forwarded: there is no plugin");
  for (const runtime::Plugin &plugin : door->plugins())
    if (auto chosen = plugin.select({kind, *mesh, options.bytes, memory}))
      return line("a call", fmt::format("{}: {} of {}", call, chosen->info->name, plugin.path()));
  line("a call", call + ": forwarded to the library that the program uses: no plugin has a program for it");
}

void showSettings(const runtime::Result<runtime::Door> &door) {
  if (!door.isOk())
    line("to set", "KOLO_PLUGIN_PATH=FILE, a plugin that `kolo compile --table default -o FILE` makes");
  line("to run", "kolo preload -- mpirun -n 2 ./program");
  line("to see", "KOLO_STATS=1 (what was carried), KOLO_DEBUG=info or trace (why)");
}

/// Who may join a world of several processes.
void showSecret() {
  runtime::Result<bool> isSet = runtime::isSecretSet();
  line("rendezvous", !isSet.isOk() ? "none can start: " + isSet.status().message()
                     : *isSet      ? "closed: every rank proves the secret of KOLO_SECRET or KOLO_SECRET_FILE"
                                   : "open: whoever reaches rank 0's port may join, as KOLO_SECRET is not set; who "
                                     "comes first keeps a rank, and a stranger can come first");
}

/// How large a world the hard limit of descriptors allows: the runtime raises the soft one where a world needs it.
/// Strangers' connections give way to those of ranks.
void showDescriptors() {
  constexpr rlim_t ofTheProgram = 64; // about
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max == RLIM_INFINITY)
    return line("descriptors", "no limit");
  rlim_t left = limit.rlim_max - std::min(limit.rlim_max, ofTheProgram), most = runtime::maxRanks;
  line("descriptors",
       fmt::format("{} by `ulimit -Hn`: rank 0 can start a world of about {} ranks, and a rank can connect "
                   "to about {} ranks of other hosts",
                   limit.rlim_max, std::min(left, most), std::min(left / 2, most)));
}

void run(const DoctorCommand &options) {
  readCollective(options.collective);
  readMemory(options.memory);
  line("kolo", KOLO_VERSION ", libraries in " + libraryFolder());
  line("LLVM", LLVM_VERSION_STRING);
  line("CUDA", found("libcuda.so.1"));
  line("HIP", found("libamdhip64.so"));
  std::optional<std::string> ncclDoor = findNcclDoor();
  const std::string its = ncclDoor ? ", door: " + *ncclDoor : ", no door in this build";
  line("NCCL", found("libnccl.so.2") + its);
  line("RCCL", found("librccl.so.1") + its);
  showMpi();
  showFabric();
  showNics();
  showTorch();
  runtime::Result<runtime::Door> door = runtime::Door::open("doctor");
  showTables(door);
  showPlugins(door);
  showCall(options, door);
  showSecret();
  showDescriptors();
  showSettings(door);
}

} // namespace

void addDoctorCommand(CLI::App &app) {
  auto options = std::make_shared<DoctorCommand>();
  CLI::App *command = addCommand(app, "doctor", "shows what this machine has, and what would be used for a call");
  command->add_option("--collective", options->collective, "of the call")->capture_default_str();
  command->add_option("--bytes", options->bytes, "of the larger buffer of any rank")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--ranks", options->ranks, "of the call")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--memory", options->memory, "windows or ordinary")->capture_default_str();
  command->callback([options] { run(*options); });
}

} // namespace kolo::tools
