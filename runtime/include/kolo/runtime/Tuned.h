// Tuned: the plugin that `kolo tune` made for this user on this machine. Doors take it where KOLO_PLUGIN_PATH is not
// set.
#pragma once

#include "kolo/runtime/Export.h"
#include "kolo/runtime/Plugin.h"
#include "kolo/runtime/Status.h"

#include <string>

namespace kolo::runtime {

/// What measurements depend on. Text that the kernel does not tell is "unknown".
struct HostDescription {
  std::string processor; // "AMD EPYC"
  int cores = 0;         // that the kernel runs programs on, whatever this process may use
  std::string caches;    // of core 0, by level: "32K 32K 1024K 32768K"
  std::string kernel;    // "6.1.0-18-amd64"
  bool operator==(const HostDescription &) const = default;
};

KOLO_RUNTIME_API HostDescription describeHost();

/// Where `kolo tune` keeps plugins and tables: kolo in $XDG_CACHE_HOME, by default ~/.cache. Empty: neither
/// XDG_CACHE_HOME nor HOME is an absolute path.
KOLO_RUNTIME_API std::string tunedFolder();
/// The file of tunedFolder() for this machine. Processor, cores and caches are in its name. Empty as tunedFolder().
KOLO_RUNTIME_API std::string tunedPluginPath();

/// Loads the plugin of tunedPluginPath(). The plugin is right on any machine; choices measured elsewhere may be slow.
///   InvalidArgument  its table was measured on another machine or kernel, or by another version of Kolo
///   BadPlugin        as for Plugin::loadTrusted
///   UnsupportedCpu, SystemError, OutOfMemory, as for Plugin::load
KOLO_RUNTIME_API Result<Plugin> loadTunedPlugin();

} // namespace kolo::runtime
