// PluginFile: the bytes of a plugin file, checked from the footer on without mapping them as code.
#pragma once

#include "kolo/runtime/Status.h"
#include "loader/TrustedFile.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace kolo::runtime {

/// A private copy of the whole file, so that later changes to the file do not matter.
struct PluginFile {
  std::string bytes;
  uint64_t elfBytes = 0;
  uint64_t manifestBytes = 0;
  uint64_t checksum = 0;

  std::string_view elf() const { return std::string_view(bytes).substr(0, elfBytes); }
  std::string_view manifest() const { return std::string_view(bytes).substr(elfBytes, manifestBytes); }
};

/// Reads the file, and checks magic, sizes, checksum and ABI version. BadPlugin, SystemError; the message begins with
/// the path.
Result<PluginFile> readPluginFile(const std::string &path);
/// The same of a file that is open; the path is for messages.
Result<PluginFile> readPluginFile(const OpenFile &opened, const std::string &path);

/// Checks that the bytes are a shared library for this architecture, with all its segments.
/// BadPlugin, UnsupportedCpu; the message does not name the file.
Status checkElf(std::string_view elf);

/// FNV-1a, 64 bits.
uint64_t fnv1a(std::string_view bytes);

} // namespace kolo::runtime
