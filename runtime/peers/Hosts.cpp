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

Hosts::Hosts(HostMap hostMap, int ownRank) : map(std::move(hostMap)), rank(ownRank), members(map.names.size()) {
  for (int peer = 0; peer < numRanks(); ++peer) {
    std::vector<int> &there = members[static_cast<size_t>(hostOf(peer))];
    places.push_back(static_cast<int>(there.size()));
    there.push_back(peer);
    if (isRemote(peer))
      elsewhere.push_back(peer);
  }
}

Hosts Hosts::one(int numRanks, int ownRank) {
  return {HostMap{std::vector<int>(static_cast<size_t>(numRanks)), {""}}, ownRank};
}

std::vector<bool> Hosts::areOthers() const {
  std::vector<bool> ranks(map.hostOf.size());
  for (int peer : elsewhere)
    ranks[static_cast<size_t>(peer)] = true;
  return ranks;
}

std::string Hosts::describe(int peer) const {
  return areSeveral() ? fmt::format("rank {} (host {})", peer, nameOf(peer)) : fmt::format("rank {}", peer);
}

} // namespace kolo::runtime
