// Candidates: what `kolo tune` chooses from, for one collective on one mesh.
#pragma once

#include "driver/Compile.h"

#include "kolo/runtime/Plugin.h"

#include <set>
#include <string>
#include <vector>

namespace kolo::tools {

struct Candidate {
  std::string algorithm;
  Schedule schedule;
  std::string program() const;
};

struct LeftOut {
  std::string program, reason;
};

struct Candidates {
  runtime::Plugin plugin; // all of them, in one file
  std::vector<Candidate> all;
  std::vector<LeftOut> leftOut; // what the compiler refuses on this mesh, and its words
};

/// All shipped algorithms for the collective over all ranks of a mesh of one dimension: in bulk, and with published
/// inputs where they send from their input. `only`: those of these programs; empty: all. Compiled, proved and loaded.
/// Throws ToolError (Usage) when there is none.
Candidates compileCandidates(runtime::CollectiveKind collective, const runtime::Mesh &mesh,
                             const std::set<std::string> &only = {});

} // namespace kolo::tools
