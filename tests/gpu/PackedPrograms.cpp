// Algorithms from the folder KOLO_GPU_PLUGINS, in files that `first_light pack` names ALGORITHM.PROTOCOL.so.
#include "Programs.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace kolo::test {

namespace {

std::filesystem::path folder() {
  const char *path = std::getenv("KOLO_GPU_PLUGINS");
  return path ? path : "";
}

} // namespace

std::vector<std::string> algorithmNames(const std::string &protocol) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto &entry : std::filesystem::directory_iterator(folder(), none)) {
    std::string file = entry.path().filename().string(), end = "." + protocol + ".so";
    if (file.ends_with(end))
      names.push_back(file.substr(0, file.size() - end.size()));
  }
  std::ranges::sort(names);
  return names;
}

runtime::Plugin loadAlgorithm(const std::string &name, const std::string &protocol, const std::string &) {
  auto plugin = runtime::Plugin::load((folder() / (name + "." + protocol + ".so")).string());
  if (!plugin.isOk())
    throw std::runtime_error("KOLO_GPU_PLUGINS: " + plugin.status().message());
  return *plugin;
}

} // namespace kolo::test
