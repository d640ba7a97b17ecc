// Candidates: what `kolo tune` chooses from, for one collective on one mesh.
#pragma once

#include "tools/compile/Compile.h"

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

/// Whether compileCandidates finds an algorithm to try.
bool hasCandidates(runtime::CollectiveKind collective, const runtime::Mesh &mesh);

/// All shipped algorithms for the collective over all ranks and the dimensions of a mesh, in bulk. Over several
/// dimensions they come also with pipelines, and on one host with published inputs where they send from their input. On
/// one host, what a root sends is also pulled in slices. `only`: those of these programs; empty: all. `network`: the
/// dimensions whose ranks may be on different hosts. Compiled, proved and loaded. Throws ToolError (Usage) when there
/// is none.
Candidates compileCandidates(runtime::CollectiveKind collective, const runtime::Mesh &mesh,
                             const std::set<std::string> &only = {}, const std::vector<std::string> &network = {});

} // namespace kolo::tools
