#include "peers/Hosts.h"

#include <fmt/format.h>

#include <utility>

namespace kolo::runtime {

std::vector<int> HostMap::ranksOf(int host) const {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < hostOf.size(); ++rank)
    if (hostOf[rank] == host)
      ranks.push_back(static_cast<int>(rank));
  return ranks;
}

HostLayout::HostLayout(HostMap hostMap) : map(std::move(hostMap)), members(map.names.size()) {
  for (size_t peer = 0; peer < map.hostOf.size(); ++peer) {
    std::vector<int> &there = members[static_cast<size_t>(map.hostOf[peer])];
    places.push_back(static_cast<int>(there.size()));
    there.push_back(static_cast<int>(peer));
  }
}

Hosts Hosts::one(int numRanks, int ownRank) {
  return {HostMap{std::vector<int>(static_cast<size_t>(numRanks)), {""}}, ownRank};
}

std::vector<int> Hosts::others() const {
  std::vector<int> ranks;
  for (int peer = 0; peer < numRanks(); ++peer)
    if (isRemote(peer))
      ranks.push_back(peer);
  return ranks;
}

std::vector<bool> Hosts::areOthers() const {
  std::vector<bool> ranks(map().hostOf.size(), true);
  for (int peer : ranksHere())
    ranks[static_cast<size_t>(peer)] = false;
  return ranks;
}

std::string Hosts::describe(int peer) const {
  return areSeveral() ? fmt::format("rank {} (host {})", peer, nameOf(peer)) : fmt::format("rank {}", peer);
}

} // namespace kolo::runtime
