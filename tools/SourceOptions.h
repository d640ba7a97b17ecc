// What `kolo compile` and `kolo check` are given to compile, and how it is understood.
#pragma once

#include "tools/Options.h"
#include "tools/compile/Compile.h"

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

namespace kolo::tools {

/// NAME=CODEC each. Throws ToolError (Usage).
std::map<std::string, dsl::Codec> parseCodecs(const std::vector<std::string> &texts);

/// Whether the name is that of a file to compile, or of IR or a foreign schedule, which name their meshes themselves.
bool isSourceFile(const std::string &name);
bool namesItsMeshes(const std::string &name);

struct SourceOptions {
  std::string what; // a shipped algorithm, FILE.cpp or FILE.mlir
  std::string program;
  std::vector<std::string> meshes, codecs;
  std::string budget; // empty: the command's own
  bool noOptimization = false;
  ScheduleOptions scheduleOptions;

  void addTo(CLI::App &command);
  /// A request without output; a file of C++ is compiled and loaded by then. Throws ToolError.
  CompileRequest makeRequest() const;
  /// Bytes, if there are some given. Throws ToolError (Usage).
  std::optional<int64_t> parseBudget() const;
};

} // namespace kolo::tools
