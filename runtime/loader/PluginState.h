// PluginState: a loaded plugin, behind Plugin.
#pragma once

#include "kolo/runtime/Plugin.h"
#include "loader/Manifest.h"

namespace kolo::runtime {

struct PluginState {
  PluginState() = default;
  ~PluginState();
  PluginState(const PluginState &) = delete;
  PluginState &operator=(const PluginState &) = delete;

  const uint64_t load = nextLoad(); // unique among all loads of this process, unlike the address of this
  std::string path;
  std::string manifestText;
  Manifest manifest;
  uint64_t identity = 0;
  const KoloPlugin *table = nullptr;    // table->programs is in the order of manifest.programs
  const KoloKernels *kernels = nullptr; // for this host; null when nothing reduces
  void *library = nullptr;
  // Stays open while the library is loaded: its number is in the name that the dynamic loader knows the library by, and
  // another library under the same name would be taken for this one.
  int fd = -1;

private:
  static uint64_t nextLoad();
};

} // namespace kolo::runtime
