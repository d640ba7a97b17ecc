// Explore: the best schedules for a collective on a machine, by size, found by cost models and proved by the checker.
#pragma once

#include "tools/compile/Compile.h"

#include "compiler/cost/Prediction.h"
#include "compiler/cost/bounds/Bounds.h"
#include "compiler/model/BlockLaw.h"
#include "tools/explore/Search.h"

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
  int64_t mostLanes = 0;                                  // of every rank; 0: as many as it takes
  std::optional<int64_t> mostScratchBytes = std::nullopt; // of every rank
  std::optional<BlockLaw> counts = std::nullopt;          // of calls with block tables, of a collective that has blocks
  /// How data crosses the network, so that all is left out that does not run there; nothing: nothing is.
  std::optional<NetworkMemory> network = std::nullopt;
};

enum class Origin { Explored, Shipped, Rings };

/// A choreography with a schedule, on a mesh that is placed on the machine.
struct PlacedCandidate {
  Origin origin;
  dsl::Definition definition;
  std::string description; // of an explored one
  cost::PlacedMesh mesh;
  std::string placement;
  Schedule schedule;
  std::vector<double> seconds; // by size, in closed form
  bool isScaled = false;       // `seconds` are in proportion to those on `mesh`, which has fewer nodes
  std::string provedOn = {};   // a mesh; empty: not looked at by the checker
};

/// A candidate at one size.
struct Choice {
  size_t candidate; // by number
  double seconds;   // the closed form's, corrected by what the simulation says of it
  /// What the simulation takes longer than the closed form, on few nodes or on all; nothing: it was not simulated.
  std::optional<double> correction = {};
  bool wasOnAllNodes = false; // was simulated there, or cannot be
  int64_t numTransfers = 0;   // of the simulation on few nodes
};

struct SizeResult {
  std::optional<cost::LowerBound> bound; // of equal blocks
  std::vector<Choice> best;              // explored or shipped, proved, of different structures, the fastest first
  std::optional<Choice> shipped;         // the fastest shipped one, proved or not
  std::optional<Choice> rings;           // as NCCL and RCCL run them
};

/// On so many nodes, the best are simulated with all ranks.
inline constexpr int64_t mostNodesOfBest = 16;

struct Exploration {
  std::vector<PlacedCandidate> candidates;
  std::vector<SizeResult> sizes;
  size_t numCandidates = 0, numStructures = 0, numInSpace = 0;
  std::map<std::string, size_t> leftOut;      // candidates, by reason
  std::map<std::string, size_t> notSimulated; // candidates, by reason
  size_t numInferredForAll = 0;               // programs that few nodes prove and all nodes refute
  int64_t simulatedNodes = 0;                 // at most so many
};

/// Costs candidates in closed form, and simulates those that are near the best at some size, on few nodes. What the
/// simulation takes longer than the closed form there corrects the closed form on all nodes. Simulates those that are
/// the best or hardly slower then on all nodes, up to `mostNodesOfBest`. Proves those that are ranked; who is not
/// proved is left out. Where all nodes need more synchronisation than few, it infers that and simulates again. Goes on
/// until nobody takes less in closed form than the best by simulation without having been simulated. Throws ToolError
/// (Usage) where nothing does the collective.
///
/// The closed form is of equal blocks. With block tables, it only says which structures are simulated beside all
/// shipped algorithms: on all nodes, at most `mostNodesOfBest`. Who takes no block tables is left out.
Exploration explore(const ExploreRequest &request);

/// The candidate in the language, and under `comment`.
std::string sourceOf(const PlacedCandidate &candidate, const std::string &comment);

/// What a candidate's time is made of in closed form, by size. Statements are known by their lines in
/// `sourceOf(candidate, "")`. Of a candidate that is scaled from fewer nodes, the time and the bottleneck
/// alone. With block tables, by simulation.
std::vector<cost::Prediction> predict(const PlacedCandidate &candidate, const ExploreRequest &request);

runtime::Mesh toMesh(const cost::PlacedMesh &mesh);

} // namespace kolo::tools
