// Places: which connections one rank has, wants or may get: a place for each peer and number.
#pragma once

#include "network/Socket.h"
#include "network/tcp/Wire.h"

#include <string>
#include <vector>

namespace kolo::runtime::tcp {

/// A connection whose both sides have proved that they belong to the world.
struct Established {
  Hello hello; // of the peer
  Socket socket;
};

enum class Standing : uint8_t { Possible, Wanted, Met, Failed };

class Places {
public:
  /// `ownHello`: its peer and connection are ignored.
  Places(const Hello &ownHello, int ownTimeoutMs)
      : self(ownHello), timeoutMs(ownTimeoutMs),
        standings(static_cast<size_t>(self.numRanks) * self.numConnections, Standing::Possible) {}

  size_t size() const { return standings.size(); }
  size_t of(const Hello &hello) const { return first(hello.rank) + hello.connection; }
  /// The first place of a peer, whose places follow one another.
  size_t first(uint32_t peer) const { return static_cast<size_t>(peer) * self.numConnections; }
  uint32_t peerAt(size_t place) const { return static_cast<uint32_t>(place / self.numConnections); }
  Standing at(size_t place) const { return standings[place]; }
  bool isOver(size_t place) const { return at(place) == Standing::Met || at(place) == Standing::Failed; }
  /// What this rank says to the peer there, and the peer to this rank.
  Hello helloTo(size_t place) const;
  Hello helloFrom(size_t place) const;
  /// The same rank count, connections and world, from a rank that may be there.
  const Hello &own() const { return self; }

  /// How many are wanted and not met.
  size_t numMissing() const { return missing; }
  /// The peers of those.
  std::vector<uint32_t> missingPeers() const;
  /// False: it was wanted before, or is over.
  bool want(size_t place);
  /// Sets what the connection needs.
  void prepareFor(size_t place, const Socket &socket) const;
  void meet(size_t place, Socket socket);
  /// Nobody connects to the failure's rank any more.
  void fail(const Status &failure);
  std::vector<Established> takeMet() { return std::exchange(met, {}); }
  std::vector<Status> takeFailures() { return std::exchange(failures, {}); }
  bool hasNews() const { return !met.empty() || !failures.empty(); }
  const std::vector<Status> &failed() const { return failures; }

private:
  const Hello self;
  const int timeoutMs;
  std::vector<Standing> standings;
  size_t missing = 0;
  std::vector<Established> met; // that nobody has taken yet
  std::vector<Status> failures; // likewise
};

} // namespace kolo::runtime::tcp
