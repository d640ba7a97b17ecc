#include "compiler/cost/simulation/Symmetry.h"

#include <algorithm>

namespace kolo::cost {

static void readPeers(const Workload &workload, uint32_t rank, std::vector<uint32_t> &peers) {
  peers.resize(workload.programs[workload.programOf[rank]].numChannels);
  for (uint32_t channel = 0; channel < peers.size(); ++channel)
    peers[channel] = workload.peerOf(rank, channel);
}

static bool isSymmetric(const Workload &workload, const NetworkSymmetry &symmetry) {
  std::vector<uint32_t> peers;
  for (uint32_t rank = 0; rank < symmetry.rankOf.size(); ++rank) {
    if (symmetry.rankOf[rank] != rank)
      continue;
    readPeers(workload, rank, peers);
    for (uint32_t move = 1; move < symmetry.numAlike; ++move) {
      uint32_t moved = symmetry.moved(move, rank);
      if (workload.programOf[moved] != workload.programOf[rank])
        return false;
      for (uint32_t channel = 0; channel < peers.size(); ++channel)
        if (workload.peerOf(moved, channel) != symmetry.moved(move, peers[channel]))
          return false;
    }
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
    if (isSymmetric(workload, symmetry))
      return std::move(symmetry);
  return std::nullopt;
}

void fold(const NetworkSymmetry &symmetry, std::vector<ResourceUse> &uses) {
  size_t numFolded = 0;
  bool anyMoved = false; // before that, no two uses fall together
  for (const ResourceUse &use : uses) {
    uint32_t resource = symmetry.resourceOf[use.resource];
    double share = symmetry.shareOf[use.resource], load = use.load * share, messages = use.messages * share;
    anyMoved |= resource != use.resource;
    auto end = uses.begin() + std::ptrdiff_t(numFolded);
    auto known = anyMoved ? std::ranges::find(uses.begin(), end, resource, &ResourceUse::resource) : end;
    if (known == end)
      uses[numFolded++] = {resource, load, messages};
    else
      known->load += load, known->messages += messages;
  }
  uses.resize(numFolded);
}

} // namespace kolo::cost
