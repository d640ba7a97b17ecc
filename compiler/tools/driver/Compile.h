// From a choreography, wherever it comes from, to a plugin file. Used by the tools, the tests and the benchmarks.
#ifndef KOLO_TOOLS_COMPILE_H
#define KOLO_TOOLS_COMPILE_H

#include "driver/ToolError.h"

#include "kolo/dsl/Registry.h"
#include "kolo/runtime/Types.h"

#include <string>
#include <vector>

namespace kolo::tools {

struct CompileRequest {
  std::vector<dsl::Definition> definitions; // the plugin's programs, all on meshes of the same dimensions
  std::vector<runtime::Mesh> meshes;        // at least one; each with the definitions' dimensions
  std::string output;                       // path of the plugin
  bool optimize = true;                     // false: required passes only
  std::string irPath = {};                  // not empty: textual IR of either phase, instead of definitions and meshes
};

/// Writes the plugin. Gives the warnings, one line each. Throws
/// ToolError: Refused with all of the author's mistakes, one per line, each beginning with file:line:column; Usage when a
/// mesh has other dimensions than a definition, or a file cannot be read or written.
std::vector<std::string> compile(const CompileRequest &request);

/// A shipped choreography by name; throws ToolError with the nearest name when there is none.
const dsl::Definition &findShipped(const std::string &name);

/// "; did you mean X?" for the known word that is nearest, or nothing when none is near.
std::string didYouMean(const std::string &word, const std::vector<std::string> &known);

/// Compiles a C++ file of choreographies with the host's compiler ($CXX, else c++) against the headers beside this
/// program, loads it into this process, and gives what it registers. Throws ToolError: Refused with the compiler's messages.
std::vector<dsl::Definition> loadUserSource(const std::string &path);

} // namespace kolo::tools

#endif
