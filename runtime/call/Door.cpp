#include "kolo/runtime/Door.h"

#include "base/Error.h"
#include "base/Variable.h"
#include "kolo/runtime/Tuned.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>

namespace kolo::runtime {

struct DoorState {
  std::string name;
  std::vector<Plugin> plugins;
  std::string notice;
  LogLevel level = LogLevel::Off;
  bool wantsStatistics = false;
  std::atomic<int64_t> numCarried = 0, carriedBytes = 0;
  mutable std::mutex mutex;
  std::map<std::string_view, int64_t> forwarded; // by reason
};

namespace {

namespace fs = std::filesystem;

constexpr const char *pathVariable = "KOLO_PLUGIN_PATH";
constexpr std::string_view pluginSuffix = ".kolo.so";

Status add(const Result<Plugin> &plugin, std::vector<Plugin> &plugins) {
  if (plugin.isOk())
    plugins.push_back(*plugin);
  return plugin.status();
}

Status loadFolder(const std::string &folder, std::vector<Plugin> &plugins) {
  std::vector<std::string> paths;
  std::error_code problem;
  for (fs::directory_iterator at(folder, problem), end; !problem && at != end; at.increment(problem))
    if (at->path().string().ends_with(pluginSuffix))
      paths.push_back(at->path().string());
  if (problem)
    return limitError(fmt::format("{}: this folder cannot be read", folder), problem.value());
  if (paths.empty())
    return error(StatusCode::BadPlugin, "{}: this folder holds no *{}", folder, pluginSuffix);
  std::sort(paths.begin(), paths.end());
  for (const std::string &path : paths)
    if (Status status = add(Plugin::loadTrusted(path), plugins); !status.isOk())
      return status;
  return {};
}

/// The shipped table, compiled, beside this library: who could replace it could replace the library, too.
std::string defaultPlugin() {
  Dl_info info = {};
  if (!dladdr(reinterpret_cast<const void *>(&readLaunchedRank), &info) || !info.dli_fname)
    return {};
  return (fs::canonical(info.dli_fname).parent_path() / "kolo" / "default.kolo.so").string();
}

/// The plugin for this machine, if there is one, and then the one that ships, for what the first has no program for.
Status loadDefaults(std::vector<Plugin> &plugins, std::string &notice) {
  std::string tuned = tunedPluginPath(), shipped = defaultPlugin();
  std::error_code ignored;
  if (!tuned.empty() && fs::exists(tuned, ignored)) {
    Result<Plugin> plugin = loadTunedPlugin();
    if (plugin.status().code() == StatusCode::OutOfMemory)
      return plugin.status();
    if (plugin.isOk())
      plugins.push_back(*plugin);
    else
      notice = fmt::format("{}; the table that ships is used instead: `kolo tune` measures this machine again",
                           plugin.status().message());
  }
  if (fs::exists(shipped))
    return add(Plugin::load(shipped), plugins);
  if (!plugins.empty())
    return {};
  return error(StatusCode::InvalidArgument, "{} is not set, and the plugin that ships is not there: {}", pathVariable,
               shipped);
}

Status loadPath(std::vector<Plugin> &plugins, std::string &notice) {
  const char *text = variable(pathVariable);
  if (!text)
    return loadDefaults(plugins, notice);
  std::string_view rest = text;
  while (true) {
    size_t end = std::min(rest.find(':'), rest.size());
    std::string path(rest.substr(0, end));
    if (path.empty())
      return error(StatusCode::InvalidArgument, "{}='{}' has an empty part", pathVariable, text);
    Status status = fs::is_directory(path) ? loadFolder(path, plugins) : add(Plugin::loadTrusted(path), plugins);
    if (!status.isOk())
      return error(status.code(), "{}: {}", pathVariable, status.message());
    if (end == rest.size())
      return {};
    rest.remove_prefix(end + 1);
  }
}

Status readLevel(LogLevel &level) {
  const char *text = variable("KOLO_DEBUG");
  if (!text)
    return {};
  std::string_view word = text;
  if (word != "info" && word != "trace")
    return error(StatusCode::InvalidArgument, "KOLO_DEBUG='{}' is not one of info, trace", word);
  level = word == "info" ? LogLevel::Info : LogLevel::Trace;
  return {};
}

Status readStatistics(bool &wants) {
  const char *text = variable("KOLO_STATS");
  std::string_view word = text ? text : "0";
  if (word != "0" && word != "1")
    return error(StatusCode::InvalidArgument, "KOLO_STATS='{}' is not one of 0, 1", word);
  wants = word == "1";
  return {};
}

} // namespace

Door::Door(std::unique_ptr<DoorState> opened) : state(std::move(opened)) {}
Door::Door(Door &&) noexcept = default;
Door &Door::operator=(Door &&) noexcept = default;
Door::~Door() = default;

int64_t CallShape::largestBytes(int numRanks) const {
  CollectiveFacts facts = factsOf(kind);
  const bool hasBlocks = isPerRank(facts.input) || isPerRank(facts.output);
  return count * elementBytes() * (hasBlocks ? numRanks : 1);
}

void CallShape::enter(CallArguments &arguments) const {
  arguments.collective = kind;
  arguments.type = type;
  arguments.reduction = reduction;
  arguments.count = count;
  arguments.root = root;
  arguments.custom = custom;
}

Result<Door> Door::openEmpty(const std::string &name) {
  return guarded([&]() -> Result<Door> {
    auto opened = std::make_unique<DoorState>();
    opened->name = name;
    if (Status status = readLevel(opened->level); !status.isOk())
      return status;
    if (Status status = readStatistics(opened->wantsStatistics); !status.isOk())
      return status;
    return Door(std::move(opened));
  });
}

Result<Door> Door::open(const std::string &name) {
  Result<Door> opened = openEmpty(name);
  if (!opened.isOk())
    return opened;
  DoorState &state = *opened->state;
  if (Status status = guarded([&] { return loadPath(state.plugins, state.notice); }); !status.isOk())
    return status;
  return opened;
}

const std::vector<Plugin> &Door::plugins() const { return state->plugins; }

std::string Door::describe(const Plugin &plugin) {
  int number = plugin.numRepresented();
  if (number == 0)
    return plugin.path();
  return plugin.path() + " (" + std::to_string(number) + " of its programs " + (number == 1 ? "is" : "are") +
         " represented on some mesh, not proved)";
}

const std::string &Door::notice() const { return state->notice; }

uint64_t Door::identity() const {
  uint64_t hash = 0xcbf29ce484222325;
  for (const Plugin &plugin : state->plugins)
    hash = (hash ^ plugin.identity()) * 0x100000001b3;
  return hash;
}

bool Door::hasNetworkPrograms() const {
  return std::ranges::any_of(state->plugins, [](const Plugin &plugin) {
    return std::ranges::any_of(plugin.programs(), [](const ProgramInfo &info) { return !info.networkDims.empty(); });
  });
}

const Plugin *Door::find(const Communicator &communicator, CallArguments &arguments, std::string &why) const {
  const std::vector<Mesh> meshes = communicator.meshes();
  for (const Plugin &plugin : state->plugins)
    for (const Mesh &mesh : meshes) {
      arguments.mesh = mesh;
      Status status = communicator.carries(plugin, arguments);
      if (status.isOk())
        return &plugin;
      if (&plugin == &state->plugins.front())
        why = status.message();
    }
  return nullptr;
}

LogLevel Door::logLevel() const { return state->level; }
bool Door::wantsStatistics() const { return state->wantsStatistics; }

void Door::countCarried(int64_t numBytes) {
  state->numCarried.fetch_add(1, std::memory_order_relaxed);
  state->carriedBytes.fetch_add(numBytes, std::memory_order_relaxed);
}

void Door::countForwarded(const char *reason) {
  std::scoped_lock lock(state->mutex);
  ++state->forwarded[reason];
}

int64_t Door::numCarried() const { return state->numCarried.load(std::memory_order_relaxed); }

std::string Door::statistics() const {
  std::scoped_lock lock(state->mutex);
  std::vector<std::pair<int64_t, std::string_view>> reasons;
  int64_t numForwarded = 0;
  for (const auto &[reason, number] : state->forwarded) {
    reasons.emplace_back(-number, reason);
    numForwarded += number;
  }
  std::sort(reasons.begin(), reasons.end());
  std::string text;
  for (const auto &[number, reason] : reasons)
    text += fmt::format("{}{} {}", text.empty() ? " (" : ", ", -number, reason);
  return fmt::format("kolo {}: {} calls: {} carried ({} bytes), {} forwarded{}{}", state->name,
                     numCarried() + numForwarded, numCarried(), state->carriedBytes.load(std::memory_order_relaxed),
                     numForwarded, text, text.empty() ? "" : ")");
}

} // namespace kolo::runtime
