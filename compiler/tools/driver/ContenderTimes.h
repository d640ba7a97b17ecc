// What contenders take by simulation, on few nodes and on all. Private to Explore.
#pragma once

#include "driver/ContenderPrograms.h"

namespace kolo::tools {

/// All ranks, in one dimension.
cost::PlacedMesh allRanks(const ExploreRequest &request);

class ContenderTimes {
public:
  ContenderTimes(const ExploreRequest &request, ContenderPrograms &programs) : request(request), programs(programs) {}

  /// Of one contender, each with the number of its size.
  using Choices = std::vector<std::pair<size_t, Choice *>>;
  /// Corrects the closed form by the simulation on few nodes. Why there is none; empty: there is.
  std::string onFewNodes(unsigned thread, const Contender &contender, const Choices &choices);
  /// Whoever cannot be simulated on all nodes keeps what few nodes say.
  void onAllNodes(unsigned thread, const Contender &contender, const Choices &choices);

private:
  const ExploreRequest &request;
  ContenderPrograms &programs;
};

} // namespace kolo::tools
