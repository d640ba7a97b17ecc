// Manifest: the JSON text of a plugin, read into ProgramInfo.
#pragma once

#include "kolo/runtime/Plugin.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kolo::runtime {

/// A codec of KoloPlugin::codecs.
struct CodecInfo {
  std::string text, name; // "i8 per 256 scale f32 fit", "int8(256)"
};

struct Manifest {
  std::string targetKind; // "cpu"
  std::string triple;     // "x86_64-pc-linux-gnu"
  std::string cpu;        // "x86-64-v3"
  std::string sanitizer;  // "thread": instrumented for the thread sanitizer; empty: not instrumented
  std::vector<ProgramInfo> programs;
  std::vector<CodecInfo> codecs;
  std::vector<SelectionEntry> selection;
};

/// Ignores unknown fields. BadPlugin: the text is not JSON, or a field is missing, has another type or an impossible
/// value. The message names the field, not the file.
Result<Manifest> parseManifest(std::string_view text);

/// "program P, file:line text" for a statement of the manifest, for messages; "program P" when no statement has that
/// number.
std::string describeStatement(const ProgramInfo &info, int64_t statement);

} // namespace kolo::runtime
