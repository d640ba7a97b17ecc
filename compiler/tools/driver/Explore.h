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
  /// The mesh that `seconds` come from, where that is not `mesh`; then there is no prediction by statement.
  cost::PlacedMesh scaledFrom = {};
  std::string provedOn = {}; // a mesh; empty: not looked at by the checker
};

/// A contender at one size.
struct Choice {
  size_t contender; // by number
  double seconds;   // the closed form's, corrected by what the simulation says of it
  /// What the simulation takes longer than the closed form, on `simulatedOn`; nothing: it was not simulated.
  std::optional<double> correction = {};
};

struct SizeResult {
  cost::LowerBound bound;
  std::vector<Choice> best;      // explored or shipped, proved, of different structures, the fastest first
  std::optional<size_t> shipped; // the fastest shipped one in closed form, by number
  std::optional<size_t> rings;   // as NCCL and RCCL run them
};

struct Exploration {
  std::vector<Contender> contenders;
  std::vector<SizeResult> sizes;
  size_t numCandidates = 0, numStructures = 0, numInSpace = 0;
  std::map<std::string, size_t> leftOut;      // candidates, by reason
  std::map<std::string, size_t> notSimulated; // contenders, by reason
  int64_t simulatedNodes = 0;                 // at most so many
};

/// Costs candidates in closed form, and proves those that are among the best at some size; who is not proved is left
/// out. Simulates those that stay, on few nodes, and orders them by the closed form times what the simulation takes
/// longer than the closed form on these nodes. Throws ToolError (Usage) where nothing does the collective.
Exploration explore(const ExploreRequest &request);

/// The contender in the language, and under `comment`.
std::string sourceOf(const Contender &contender, const std::string &comment);

/// What a contender's time is made of in closed form, by size. Statements are known by their lines in
/// `sourceOf(contender, "")`. Of a contender that is scaled from fewer nodes, the time alone.
std::vector<cost::Prediction> predict(const Contender &contender, const ExploreRequest &request);

runtime::Mesh toMesh(const cost::PlacedMesh &mesh);

} // namespace kolo::tools
