// The plugin that is written by hand, plugin/TestPlugin.c, for tests of the runtime.
#pragma once

#include "kolo/runtime/Plugin.h"

#include <cstdint>
#include <utility>

namespace kolo::test {

/// Loaded once. Ranks that are forked later share it, if the parent has called this.
inline const runtime::Plugin &testPlugin() {
  static const auto plugin = runtime::Plugin::load(KOLO_TEST_PLUGIN);
  return *plugin;
}

/// A copy of its own, which is unloaded with its last holder. It must be there.
inline runtime::Plugin loadTestPlugin() { return std::move(runtime::Plugin::load(KOLO_TEST_PLUGIN)).value(); }

/// An element of a rank's input in one of several calls.
inline int valueAt(int rank, int64_t index, int call) {
  return 1000 * (rank + 1) + static_cast<int>(index % 977) + 7 * call;
}

} // namespace kolo::test
