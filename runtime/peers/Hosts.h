// Hosts: which ranks are on which host, as one rank sees it.
#pragma once

#include <string>
#include <vector>

namespace kolo::runtime {

struct HostMap {
  std::vector<int> hostOf;        // by rank
  std::vector<std::string> names; // by host, for messages

  int numHosts() const { return static_cast<int>(names.size()); }
  std::vector<int> ranksOf(int host) const;
};

/// The lowest rank of a host is its speaker, where there are several hosts.
class Hosts {
public:
  Hosts(HostMap hostMap, int ownRank);
  /// All ranks on one host.
  static Hosts one(int numRanks, int ownRank);

  int self() const { return rank; }
  int numRanks() const { return static_cast<int>(map.hostOf.size()); }
  int number() const { return map.numHosts(); }
  bool areSeveral() const { return number() > 1; }
  /// Whether each rank is alone on its host.
  bool areApart() const { return number() == numRanks(); }
  int hostOf(int peer) const { return map.hostOf[static_cast<size_t>(peer)]; }
  int ownHost() const { return hostOf(rank); }
  bool isRemote(int peer) const { return hostOf(peer) != ownHost(); }

  const std::vector<int> &ranksOf(int host) const { return members[static_cast<size_t>(host)]; }
  const std::vector<int> &ranksHere() const { return ranksOf(ownHost()); }
  /// The ranks of other hosts.
  const std::vector<int> &others() const { return elsewhere; }
  /// By rank: whether it is one of them.
  std::vector<bool> areOthers() const;
  /// The place of a rank among those of its host.
  int placeOf(int peer) const { return places[static_cast<size_t>(peer)]; }

  int speakerOf(int host) const { return ranksOf(host).front(); }
  int speaker() const { return speakerOf(ownHost()); }
  bool speaks() const { return areSeveral() && speaker() == rank; }

  const std::string &nameOf(int peer) const { return map.names[static_cast<size_t>(hostOf(peer))]; }
  /// "rank 3", with its host if there are several.
  std::string describe(int peer) const;

private:
  HostMap map;
  int rank;
  std::vector<std::vector<int>> members; // by host
  std::vector<int> places;               // by rank
  std::vector<int> elsewhere;
};

} // namespace kolo::runtime
