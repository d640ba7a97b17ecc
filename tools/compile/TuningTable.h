// Tuning tables: which algorithm, with which schedule, for which collective, mesh, memory and size. JSON
// files that `kolo tune` writes and `kolo compile --table` reads.
#pragma once

#include "tools/compile/Compile.h"

#include "kolo/runtime/Plugin.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace kolo::tools {

struct TableEntry {
  runtime::CollectiveKind collective;
  int ranks;
  runtime::MemoryKind memory;
  std::optional<int64_t> upToBytes; // of the larger buffer of one rank, inclusive; nothing: no end
  std::string algorithm;            // a shipped one, over one dimension or over those of the mesh
  Schedule schedule;
  runtime::Mesh mesh = {}; // that the entry is for; no dimension: any mesh of so many ranks
  std::string tag = {};    // of the communicators that it is for; empty: of all
  bool allowsLoss = false; // whether calls take it that do not ask for losses, if it has codecs
  int lanes = 0;           // of every rank on devices; 0: it does not say
};

/// Reads a table, and checks all of it. Throws ToolError (Usage) with file and field.
std::vector<TableEntry> readTable(const std::string &path);

/// A table's file: of one that ships with Kolo, beside this program, by its name; `default` is cpu. A word with a slash
/// or a dot is a file's own. Throws ToolError (Usage) where no table of a name ships.
std::string tablePath(const std::string &word);

/// Where and how the entries of a table were measured.
struct Provenance {
  std::string koloVersion, processor, kernel, date, command;
  int cores = 0;
};

/// This machine, today (UTC).
Provenance describeMachine(const std::string &koloVersion, const std::string &command);

std::string writeTable(const Provenance &provenance, const std::vector<TableEntry> &entries);
/// With other fields before `entries`, of which Kolo reads none.
std::string writeTable(const nlohmann::ordered_json &fields, const std::vector<TableEntry> &entries);

/// A request for the programs that the entries name, each on the meshes that name it, and for their selection.
CompileRequest requestFor(const std::vector<TableEntry> &entries);

} // namespace kolo::tools
