// MultiHostJoin: what every rank of several hosts does between the Welcome and the first exchange.
#pragma once

#include "bootstrap/RendezvousWire.h"

#include <memory>
#include <span>
#include <string>

namespace kolo::runtime {

/// A rank, the lowest rank of its host, and the number of ranks there.
struct RankPlace {
  int rank = 0;
  int numRanks = 0;
  int leader = 0;
  int numHere = 1;
};

/// A world of several hosts. Without a secret, its number is all that keeps others out.
struct WorldKey {
  WorldKey(const WorldNumber &worldNumber, const OptionalKey &secret)
      : number(worldNumber), key(secret ? OptionalKey(secret->derive(worldLabel, number)) : OptionalKey()) {}
  WorldNumber number;
  OptionalKey key; // of this world alone
};

/// Where all ranks of several hosts are, for those that the caller connects.
struct Roster {
  HostMap map;
  std::vector<Arrival> arrivals; // by rank
};

class MultiHostJoin {
public:
  MultiHostJoin(const RankPlace &ownPlace, const WorldKey &itsWorld, const Settings &ownSettings)
      : place(ownPlace), world(itsWorld), settings(ownSettings) {}

  /// Listens by KOLO_NETWORK_INTERFACE, or else at the numeric address. A leader makes its host's control segment. A
  /// failure is in the Arrival.
  Arrival listen(const std::string &address);
  /// Opens its host's control segment. Requires an Arrival without failure.
  Status open(const Roster &roster);
  /// After `open`: blocks until this rank is connected to its neighbours.
  Result<Meeting> connect(const Roster &roster);
  /// Both, and blocks until this rank knows where all others are. Returns the refusal in it.
  Result<Meeting> meetBy(const Guidance &guidance);

private:
  Status openSegment(const ControlPlace &leadersPlace);

  RankPlace place;
  WorldKey world;
  const Settings &settings;
  std::shared_ptr<ControlMemory> control;
  std::shared_ptr<HostLinks> links;
};

/// Numbers the hosts in the order of their first ranks. By rank: its host, and what messages call it.
HostMap mapHosts(std::span<const HostId> hosts, std::span<const std::string> names);
/// The numeric address of this host by which it reaches that one. InvalidArgument, SystemError.
Result<std::string> addressTowards(const std::string &address);
/// The numeric address by which other hosts are likely to reach this one. It is that of KOLO_NETWORK_INTERFACE, or else
/// of the default route. If there is none, it is that of an interface that is up, at worst of the loopback interface.
std::string likelyAddress();
/// A random number.
WorldNumber randomWorld();
/// The numeric address of this end of a connection; empty if there is none.
std::string localAddress(const Socket &socket);
/// The numeric address of the interface with this name, or else of the first whose name begins so. InvalidArgument:
/// there is none, or it has no address.
Result<std::string> addressOfInterface(const std::string &name);

} // namespace kolo::runtime
