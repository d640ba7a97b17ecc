// PluginState: a loaded plugin, behind Plugin.
#pragma once

#include "kolo/runtime/Plugin.h"
#include "loader/Manifest.h"

#include <compare>
#include <cstdint>
#include <memory>
#include <string>

namespace kolo::runtime {

/// What a plugin file holds. Caches compare it where a plugin that is loaded again is the same to the peers. The
/// checksum comes first, and the manifest decides where checksums are equal.
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

  const uint64_t load = nextLoad(); // unique among all loads of this process, unlike the address of this
  std::string path;
  PluginContent content;
  Manifest manifest;
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
