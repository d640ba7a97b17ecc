// FirstTune: what `kolo tune` does in a minute, for doors: the programs of the shipped table beside each other.
#pragma once

#include "tools/tune/Tune.h"

#include <functional>
#include <string>
#include <vector>

namespace kolo::tools {

struct FirstTuneOptions {
  std::vector<runtime::Mesh> meshes;
  std::vector<runtime::CollectiveKind> collectives;
  int64_t maxBytes = int64_t(16) << 20;
  double seconds = 50; // for compiling and measuring
};

/// Entries of one collective, mesh and kind of memory.
struct TunedGroup {
  runtime::CollectiveKind collective;
  runtime::Mesh mesh;
  runtime::MemoryKind memory;
  bool isMeasured = false; // else the shipped table's entries, because time was up; none if it has none
  std::vector<TableEntry> entries;
  std::vector<Candidate> candidates = {}; // that were measured, and what came of it
  std::vector<Cell> cells = {};
};

/// The groups in the order of tables. Candidates of a collective are all programs that `shipped` names for it, on any
/// mesh; the one that it chooses stays chosen unless another is clearly faster. `atEnd` gets the share of the groups
/// that are done. Throws as compileCandidates and tune do.
std::vector<TunedGroup> tuneFirst(const FirstTuneOptions &options, const std::vector<TableEntry> &shipped,
                                  const std::function<void(double share)> &atEnd);

} // namespace kolo::tools
