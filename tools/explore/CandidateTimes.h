// What candidates take by simulation, on few nodes and on all. Private to Explore.
#pragma once

#include "tools/explore/CandidatePrograms.h"

namespace kolo::tools {

/// All ranks, in one dimension.
cost::PlacedMesh allRanks(const ExploreRequest &request);

class CandidateTimes {
public:
  CandidateTimes(const ExploreRequest &request, CandidatePrograms &programs) : request(request), programs(programs) {}

  /// Of one candidate, each with the number of its size.
  using Choices = std::vector<std::pair<size_t, Choice *>>;
  /// Corrects the closed form by the simulation on few nodes. Why there is none; empty: there is.
  std::string onFewNodes(unsigned thread, const PlacedCandidate &candidate, const Choices &choices);
  /// Whoever cannot be simulated on all nodes keeps its times. Why; empty: all sizes could.
  std::string onAllNodes(unsigned thread, const PlacedCandidate &candidate, const Choices &choices);

private:
  const ExploreRequest &request;
  CandidatePrograms &programs;
};

} // namespace kolo::tools
