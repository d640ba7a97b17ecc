// ConnectionSetup: makes the connections of one rank to others, and keeps strangers out.
#pragma once

#include "network/Acceptor.h"
#include "network/tcp/Connector.h"
#include "network/tcp/Places.h"

#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace kolo::runtime::tcp {

/// The failure of a wait that ended with a trouble (see ConnectionSetup::troubleWith): Timeout, or what this rank
/// lacks.
Status withTrouble(const std::string &text, const Status &trouble, int self);

struct SetupOptions {
  Hello self; // its peer and connection are ignored
  OptionalKey key;
  int timeoutMs = 30'000;
  bool mayComeLater = false; // ranks may connect after `meetAll`, and any of two ranks may open the connections
  std::function<bool()> mustStop = {}; // not null: `meetAll` asks it; true: it returns Aborted
  std::function<void()> progress = {}; // not null: `meetAll` calls it between looks
  /// So long a connection may owe its Hello, or its last proof after that.
  std::chrono::milliseconds maxSilence{5000};
};

/// Every two ranks that talk have `numConnections` connections. One of the two opens them, and both sides send a Hello
/// with a proof; then the opener sends another one, over the nonces of both. A connection to this rank's listener is a
/// stranger if it does not do so for a place that is still missing; this rank closes it and goes on.
///
/// In `meetAll` the rank with the larger number opens. Later, both may open the same connection at once. Then the one
/// that the larger rank opened stays: the larger rank closes the other one without an answer, and the smaller rank
/// answers.
///
/// Who has answered and hears no last proof closes the connection after `maxSilence`: a stranger that repeats a Hello
/// must not keep the rank's own connection out. One stranger may follow the other. So after `maxSilence` of them in a
/// row, a rank that wants the connection opens it itself. The smaller rank does so at once. The larger one first
/// answers nobody any more until the last of them is gone, because its own connection would stay.
///
/// All functions may be called by several threads at once.
class ConnectionSetup : private Handshake {
public:
  /// So many more connections than places are missing may owe their Hello at the same time. One more ends the one that
  /// has owed it for longest.
  static constexpr size_t maxSilent = 256;
  /// So many more connections than places are missing may have greeted and owe their last proof. After that only the
  /// first one of each place may greet: who repeats a greeting comes after the rank that he heard.
  static constexpr size_t maxRepeated = 64;
  /// `meetAll` asks so often whether it must stop.
  static constexpr std::chrono::milliseconds stopInterval{50};
  /// `meetAll` calls `progress` so often.
  static constexpr std::chrono::milliseconds progressInterval{1};

  /// `endpointsByRank`: see Transport::connect.
  ConnectionSetup(const SetupOptions &given, Socket listening, std::span<const Endpoint> endpointsByRank);

  /// Blocks until all connections with these ranks stand. Others may stand then, too; after a failure, some. Timeout,
  /// PeerLost, Mismatch, InvalidArgument: with the rank. Aborted.
  Status meetAll(const std::vector<bool> &ranks, std::vector<Established> &met);

  /// Replaces the endpoints.
  void know(std::shared_ptr<const EndpointTable> endpoints);
  /// Whether there may be connections with this rank.
  bool mayMeet(int peer) const { return peer != static_cast<int>(options.self.rank) && connector.mayOpen(peer); }
  /// Asks for the connections with this rank. Never blocks.
  void want(int peer);
  /// Does what is possible now. Failures have the rank. Never blocks.
  void progress(std::vector<Established> &met, std::vector<Status> &failures);
  /// Why the last attempt to connect to this rank failed, if it is tried again; else what this rank lacks to accept
  /// connections; else Ok. SystemError: with this rank if it lacks something, else with the peer.
  Status troubleWith(int peer) const;
  /// Who comes from now on is refused, also where a forked child holds the listener, too.
  void close() { acceptor.close(); }
  /// Adds what `progress` waits for. True: `progress` must be called soon in any case.
  bool addTo(std::vector<pollfd> &entries) const;

private:
  // All below with `mutex` held:
  Status checkBeginning(std::span<const std::byte> bytes) const override { return tcp::checkBeginning(bytes); }
  Admission answer(IncomingConnection &connection) override;
  Admission confirm(IncomingConnection &connection) override;
  size_t mostPending() const override { return maxSilent + places.numMissing(); }

  std::string whyNot(const Hello &hello) const;
  bool mayGreet(size_t place) const;
  Clock::time_point answeredSince(size_t place) const;
  std::vector<bool> placesUnderWay() const;
  void wantNow(uint32_t peer, bool opens);
  void step(Clock::time_point until);
  Status findTrouble(uint32_t peer) const;
  Status missing() const;

  SetupOptions options;
  mutable std::mutex mutex; // of all below
  Places places;
  Connector connector;
  Acceptor acceptor;
};

} // namespace kolo::runtime::tcp
