// PluginState: the implementation of Plugin.
#pragma once

#include "kolo/runtime/Plugin.h"
#include "loader/Manifest.h"

#include <compare>
#include <cstdint>
#include <memory>
#include <string>

namespace kolo::runtime {

/// The content of a plugin file, equal for two loads of one file. Memory that ranks share by program is found by it. If
/// checksums are equal, the manifests decide.
struct PluginContent {
  uint64_t checksum = 0;
  std::shared_ptr<const std::string> manifest; // never null

  bool operator==(const PluginContent &other) const { return (*this <=> other) == 0; }
  std::strong_ordering operator<=>(const PluginContent &other) const {
    if (auto order = checksum <=> other.checksum; order != 0 || manifest == other.manifest)
      return order;
    return *manifest <=> *other.manifest;
  }
};

struct PluginState {
  PluginState() = default;
  ~PluginState();
  PluginState(const PluginState &) = delete;
  PluginState &operator=(const PluginState &) = delete;

  const uint64_t load = nextLoad(); // unique among all loads of this process; an address may be used again
  std::string path;
  PluginContent content;
  Manifest manifest;
  const KoloPlugin *table = nullptr;    // table->programs is in the order of manifest.programs
  const KoloKernels *kernels = nullptr; // for this host; null when nothing reduces
  void *library = nullptr;
  // Open while the library is loaded. Its number is part of the library's name for the dynamic loader, which would take
  // another library of the same name for this one.
  int fd = -1;

private:
  static uint64_t nextLoad();
};

} // namespace kolo::runtime
