// Explore: the best schedules for a collective on a machine, by size, found by cost models and proved by the checker.
#pragma once

#include "driver/Compile.h"

#include "compiler/cost/Bounds.h"
#include "compiler/cost/Prediction.h"
#include "compiler/explore/Search.h"

#include <optional>

namespace kolo::tools {

struct ExploreRequest {
  KoloCollective collective;
  const cost::Machine &machine;
  int64_t numNodes;
  std::vector<int64_t> sizes; // as cost::LowerBound counts
  cost::Rates rates = cost::Rates::Peak;
  explore::SearchOptions search;
  size_t numRunnersUp = 2;
};

enum class Origin { Explored, Shipped, Rings };

/// A choreography with a schedule, on a mesh that is placed on the machine.
struct Contender {
  Origin origin;
  dsl::Definition definition;
  std::string description; // of an explored one
  cost::PlacedMesh mesh;
  std::string placement;
  Schedule schedule;
  std::vector<double> seconds; // by size, in closed form
  std::string provedOn = {};   // a mesh; empty: not looked at by the checker
};

/// By number of contenders.
struct SizeResult {
  cost::LowerBound bound;
  std::vector<size_t> best;      // explored or shipped, proved, the fastest first
  std::optional<size_t> shipped; // the fastest shipped one
  std::optional<size_t> rings;   // as NCCL and RCCL run them
};

struct Exploration {
  std::vector<Contender> contenders;
  std::vector<SizeResult> sizes;
  size_t numCandidates = 0, numStructures = 0, numInSpace = 0;
  std::map<std::string, size_t> leftOut; // candidates, by reason
};

/// Costs candidates, and proves those that are among the best at some size; who is not proved is left out. Throws
/// ToolError (Usage) where nothing does the collective on this machine.
Exploration explore(const ExploreRequest &request);

/// The contender in the language, and under `comment`.
std::string sourceOf(const Contender &contender, const std::string &comment);

/// What a contender's time is made of at one size.
cost::Prediction predict(const Contender &contender, const ExploreRequest &request, int64_t bytes);

runtime::Mesh toMesh(const cost::PlacedMesh &mesh);

} // namespace kolo::tools
