// The plugin that is written by hand, plugin/TestPlugin.c, for tests of the runtime.
#pragma once

#include "kolo/runtime/Plugin.h"

namespace kolo::test {

/// Loaded once. Ranks that are forked later share it, if the parent has called this.
inline const runtime::Plugin &testPlugin() {
  static const auto plugin = runtime::Plugin::load(KOLO_TEST_PLUGIN);
  return *plugin;
}

} // namespace kolo::test
