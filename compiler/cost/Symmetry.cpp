#include "compiler/cost/Symmetry.h"

#include <algorithm>

namespace kolo::cost {

static bool isSymmetric(const Workload &workload, const std::vector<uint32_t> &move) {
  for (uint32_t rank = 0; rank < move.size(); ++rank)
    if (workload.programOf[rank] != workload.programOf[move[rank]])
      return false;
  for (uint32_t rank = 0; rank < move.size(); ++rank) {
    uint32_t numChannels = workload.programs[workload.programOf[rank]].numChannels;
    for (uint32_t channel = 0; channel < numChannels; ++channel)
      if (workload.peerOf(move[rank], channel) != move[workload.peerOf(rank, channel)])
        return false;
  }
  return true;
}

/// Moves of whole nodes leave no rank where it is: a program that only one rank has is moved to no rank that has it.
static bool allAreShared(const Workload &workload) {
  std::vector<uint32_t> numRanks(workload.programs.size());
  for (uint32_t program : workload.programOf)
    ++numRanks[program];
  return std::ranges::find(numRanks, 1u) == numRanks.end();
}

std::optional<NetworkSymmetry> findSymmetry(const Workload &workload, const SimulatedNetwork &network) {
  if (!allAreShared(workload))
    return std::nullopt;
  for (NetworkSymmetry &symmetry : network.symmetries())
    if (std::ranges::all_of(symmetry.moves, [&](const auto &move) { return isSymmetric(workload, move); }))
      return std::move(symmetry);
  return std::nullopt;
}

void fold(const NetworkSymmetry &symmetry, std::vector<ResourceUse> &uses) {
  size_t numFolded = 0;
  for (const ResourceUse &use : uses) {
    uint32_t resource = symmetry.resourceOf[use.resource];
    double share = symmetry.shareOf[use.resource], load = use.load * share, messages = use.messages * share;
    auto end = uses.begin() + std::ptrdiff_t(numFolded);
    auto known = std::find_if(uses.begin(), end, [&](const ResourceUse &other) { return other.resource == resource; });
    if (known == end)
      uses[numFolded++] = {resource, load, messages};
    else
      known->load += load, known->messages += messages;
  }
  uses.resize(numFolded);
}

} // namespace kolo::cost
