// Hosts: which ranks are on which host, as one rank sees it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kolo::runtime {

struct HostMap {
  std::vector<int> hostOf;        // by rank
  std::vector<std::string> names; // by host, for messages

  int numHosts() const { return static_cast<int>(names.size()); }
  std::vector<int> ranksOf(int host) const;
};

/// The same for all ranks of a world, which may share it.
class HostLayout {
public:
  explicit HostLayout(HostMap hostMap);

  const HostMap &hostMap() const { return map; }
  const std::vector<int> &ranksOf(int host) const { return members[static_cast<size_t>(host)]; }
  int placeOf(int peer) const { return places[static_cast<size_t>(peer)]; }

private:
  HostMap map;
  std::vector<std::vector<int>> members; // by host
  std::vector<int> places;               // by rank
};

/// The lowest rank of a host is its speaker, where there are several hosts.
class Hosts {
public:
  Hosts(HostMap hostMap, int ownRank) : Hosts(std::make_shared<const HostLayout>(std::move(hostMap)), ownRank) {}
  Hosts(std::shared_ptr<const HostLayout> ofWorld, int ownRank) : layout(std::move(ofWorld)), rank(ownRank) {}
  /// All ranks on one host.
  static Hosts one(int numRanks, int ownRank);

  int self() const { return rank; }
  int numRanks() const { return static_cast<int>(map().hostOf.size()); }
  int number() const { return map().numHosts(); }
  bool areSeveral() const { return number() > 1; }
  /// Whether each rank is alone on its host.
  bool areApart() const { return number() == numRanks(); }
  int hostOf(int peer) const { return map().hostOf[static_cast<size_t>(peer)]; }
  int ownHost() const { return hostOf(rank); }
  bool isRemote(int peer) const { return hostOf(peer) != ownHost(); }

  const std::vector<int> &ranksOf(int host) const { return layout->ranksOf(host); }
  const std::vector<int> &ranksHere() const { return ranksOf(ownHost()); }
  /// The ranks of other hosts. Looks at all ranks, as the next one does.
  std::vector<int> others() const;
  /// By rank: whether it is one of them.
  std::vector<bool> areOthers() const;
  /// The place of a rank among those of its host.
  int placeOf(int peer) const { return layout->placeOf(peer); }

  int speakerOf(int host) const { return ranksOf(host).front(); }
  int speaker() const { return speakerOf(ownHost()); }
  bool speaks() const { return areSeveral() && speaker() == rank; }

  const std::string &nameOf(int peer) const { return map().names[static_cast<size_t>(hostOf(peer))]; }
  /// "rank 3", with its host if there are several.
  std::string describe(int peer) const;

private:
  const HostMap &map() const { return layout->hostMap(); }

  std::shared_ptr<const HostLayout> layout;
  int rank;
};

} // namespace kolo::runtime
