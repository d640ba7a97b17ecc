// Connector: opens the connections of one rank to others, and proves that this rank belongs to the world.
#pragma once

#include "network/ControlTransport.h"
#include "network/Handshake.h"
#include "network/tcp/Places.h"

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace kolo::runtime::tcp {

/// A connection that ends without an answer is opened again, until its place is met: perhaps it crossed another one, or
/// came late to its own Hello. A refused connection tells that the peer has ended, and so do `maxUnanswered` in a row
/// that end so while this rank waits: another process has the peer's port. All other errors may pass.
///
/// An answer may have lain there for half of the time after which the peer gives up. Then this rank does not prove
/// anything any more, but opens the connection again. Otherwise it would take for its peer's end what is only the end
/// of the peer's patience.
class Connector {
public:
  /// So long a rank waits before it opens a connection again that ended without an answer.
  static constexpr std::chrono::milliseconds restAfterCrossing{10};
  /// At least 1.5 s, with two connections to each peer.
  static constexpr int maxUnanswered = 300;
  /// So long it rests after this host or its network did not allow it.
  static constexpr std::chrono::milliseconds restAfterTrouble{50};

  /// `endpointsByRank`: see Transport::connect. `allPlaces` must outlive this object. `peersPatience`: so long a peer
  /// waits for the last proof.
  Connector(const OptionalKey &worldKey, std::span<const Endpoint> endpointsByRank, Places &allPlaces,
            std::chrono::milliseconds peersPatience)
      : key(worldKey), endpoints(std::make_shared<const Endpoints>(endpointsByRank)), places(allPlaces),
        maxAge(peersPatience / 2) {}

  /// Replaces the endpoints.
  void know(std::shared_ptr<const EndpointTable> all) { endpoints = std::move(all); }
  bool mayOpen(int peer) const { return endpoints->endpointOf(peer) != Endpoint(); }
  /// From now on it opens this one, if it is wanted.
  void want(size_t place) { toOpen.push_back(place); }
  size_t numToOpen() const { return toOpen.size(); }
  /// Opens those from the given one on that are wanted. `areUnderWay`: by place, what may come to stand without it.
  void open(std::vector<bool> areUnderWay, size_t from = 0);
  /// The same for all, of which those are forgotten that are not wanted any more.
  void openMissing(std::vector<bool> areUnderWay);
  bool hasOpened(size_t place) const;

  /// As of Acceptor.
  void addTo(std::vector<pollfd> &entries, Clock::time_point &until) const;
  void hear(std::span<const pollfd> entries, Clock::time_point looked);
  size_t numOpen() const { return opened.size(); }

  /// The peer lives.
  void noteLife(uint32_t peer) { unanswered.erase(peer); }
  /// A connection with the peer stands.
  void noteMet(uint32_t peer);
  /// Why the last attempt to connect to this rank failed, if it is tried again; else Ok.
  Status troubleWith(uint32_t peer) const;

private:
  class Endpoints final : public EndpointTable {
  public:
    explicit Endpoints(std::span<const Endpoint> byRank) : all(byRank.begin(), byRank.end()) {}
    Endpoint endpointOf(int rank) const override { return all[static_cast<size_t>(rank)]; }

  private:
    std::vector<Endpoint> all;
  };
  struct OutgoingConnection : PendingConnection {
    size_t place = 0;
    bool isConnecting = true;
  };

  Status openOne(size_t place);
  /// True: it is over.
  Result<bool> hear(OutgoingConnection &one);
  Status finishConnecting(OutgoingConnection &one) const;
  Status believe(const OutgoingConnection &one) const;
  Status noteUnanswered(const OutgoingConnection &one);
  void note(const Status &failure, uint32_t peer);
  Status connectError(uint32_t peer, int errnoValue) const;
  Status isNot(const OutgoingConnection &one, std::string_view why) const;

  const OptionalKey key;
  std::shared_ptr<const EndpointTable> endpoints;
  Places &places;
  const std::chrono::milliseconds maxAge; // of an answer
  std::deque<size_t> toOpen;              // places
  std::vector<OutgoingConnection> opened;
  Clock::time_point openAgain = Clock::time_point::min();
  std::map<uint32_t, Status> troubles; // by rank: see troubleWith
  std::map<uint32_t, int> unanswered;  // by rank: connections in a row that ended without an answer
};

} // namespace kolo::runtime::tcp
