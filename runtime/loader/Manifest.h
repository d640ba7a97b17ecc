// Manifest: the JSON text of a plugin, read into ProgramInfo.
#pragma once

#include "kolo/runtime/Plugin.h"

#include <string>
#include <string_view>
#include <vector>

namespace kolo::runtime {

struct Manifest {
  std::string targetKind; // "cpu"
  std::string triple;     // "x86_64-pc-linux-gnu"
  std::string cpu;        // "x86-64-v3"
  std::string sanitizer;  // "thread": instrumented for it; empty: not instrumented
  std::vector<ProgramInfo> programs;
  std::vector<SelectionEntry> selection;
};

/// BadPlugin: not JSON, or a field is missing, has another type or an impossible value; the message names the field,
/// not the file. Unknown fields are ignored.
Result<Manifest> parseManifest(std::string_view text);

} // namespace kolo::runtime
