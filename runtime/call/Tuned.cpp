#include "kolo/runtime/Tuned.h"

#include "base/Error.h"
#include "base/Variable.h"

#include <nlohmann/json.hpp>

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

namespace kolo::runtime {
namespace {

std::string readProcessor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (size_t colon = line.find(": "); line.starts_with("model name") && colon != std::string::npos)
      return line.substr(colon + 2);
  return "unknown";
}

std::string readCaches() {
  std::string sizes;
  for (int index = 0;; ++index) {
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));
    std::string size;
    if (!std::getline(file, size))
      return sizes.empty() ? "unknown" : sizes;
    sizes += (sizes.empty() ? "" : " ") + size;
  }
}

/// FNV-1a of 64 bits.
uint64_t hashOf(const std::string &text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : text)
    hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

Status compare(const std::string &path, const std::string &what, const std::string &there, const std::string &here) {
  if (there == here)
    return {};
  return error(StatusCode::InvalidArgument, "{}: measured with {} '{}'; here it is '{}'", path, what, there, here);
}

/// Against the manifest's `tuned`, which `kolo tune` writes.
Status checkOrigin(const Plugin &plugin) {
  auto manifest = nlohmann::json::parse(plugin.manifest(), nullptr, false);
  nlohmann::json tuned = manifest.value("tuned", nlohmann::json::object());
  auto text = [](const nlohmann::json &object, const char *name) {
    auto found = object.is_object() ? object.find(name) : object.end();
    return found == object.end() ? "" : found->is_string() ? found->get<std::string>() : found->dump();
  };
  HostDescription here = describeHost();
  Status status = compare(plugin.path(), "Kolo", text(manifest, "kolo"), KOLO_VERSION);
  if (status.isOk())
    status = compare(plugin.path(), "processor", text(tuned, "processor"), here.processor);
  if (status.isOk())
    status = compare(plugin.path(), "cores", text(tuned, "cores"), std::to_string(here.cores));
  if (status.isOk())
    status = compare(plugin.path(), "caches", text(tuned, "caches"), here.caches);
  return status.isOk() ? compare(plugin.path(), "kernel", text(tuned, "kernel"), here.kernel) : status;
}

} // namespace

HostDescription describeHost() {
  HostDescription host{readProcessor(), static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), readCaches(), "unknown"};
  if (utsname names; uname(&names) == 0)
    host.kernel = names.release;
  return host;
}

std::string tunedFolder() {
  const char *cache = variable("XDG_CACHE_HOME"), *home = variable("HOME");
  if (cache && *cache == '/')
    return std::string(cache) + "/kolo";
  return home && *home == '/' ? std::string(home) + "/.cache/kolo" : "";
}

std::string tunedPluginPath() {
  std::string folder = tunedFolder();
  if (folder.empty())
    return "";
  HostDescription host = describeHost();
  return fmt::format("{}/tuned-{:016x}.kolo.so", folder,
                     hashOf(fmt::format("{}|{}|{}", host.processor, host.cores, host.caches)));
}

Result<Plugin> loadTunedPlugin() {
  return guarded([&]() -> Result<Plugin> {
    Result<Plugin> plugin = Plugin::loadTrusted(tunedPluginPath());
    if (!plugin.isOk())
      return plugin;
    Status status = checkOrigin(*plugin);
    return status.isOk() ? plugin : Result<Plugin>(status);
  });
}

} // namespace kolo::runtime
