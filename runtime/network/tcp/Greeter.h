// Greeter: makes the connections of one rank to all others, and keeps strangers out.
#pragma once

#include "bootstrap/Socket.h"
#include "network/tcp/Connection.h"
#include "network/tcp/Wire.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kolo::runtime::tcp {

/// Makes a non-blocking listening socket at a numeric address, and tells where it is. InvalidArgument: not a numeric
/// address. SystemError: not an address of this host, or no port is left.
Result<Socket> listenAtHost(const std::string &host, HostAddress &address);

/// Every two ranks have `numConnections` connections. The rank with the larger number opens them, and both sides send a
/// Hello. A connection to this rank's listener is a stranger if its first bytes are no Hello of this world that is
/// still missing; the greeter closes it and goes on.
class Greeter {
public:
  /// So many connections may owe their Hello at the same time. One more ends the one that has owed it for longest.
  static constexpr size_t maxSilent = 256;
  /// So long a stranger may say nothing.
  static constexpr std::chrono::milliseconds maxSilence{5000};

  /// `own`: the Hello of this rank; its peer and connection are ignored. `endpointsByRank`: see Transport::connect.
  Greeter(const Hello &own, Socket &listeningSocket, std::span<const Endpoint> endpointsByRank, int mostMs,
          const MailHandler *mailHandler)
      : self(own), listener(listeningSocket), endpoints(endpointsByRank), timeoutMs(mostMs), handler(mailHandler) {}

  /// Blocks. By peer and number; those of this rank itself, and of ranks without endpoint, are null. Timeout, PeerLost,
  /// Mismatch, SystemError, InvalidArgument: with the rank.
  Result<std::vector<std::unique_ptr<Connection>>> meetAll();

private:
  /// A connection that has not said its Hello.
  struct Guest {
    Socket socket;
    bool isOpenedHere = false;
    bool isConnecting = false;
    Hello expected; // opened here
    HelloBytes bytes = {};
    size_t received = 0;
    Clock::time_point until;
  };
  /// What became of a guest after it was heard.
  enum class Fate : uint8_t { Waits, Met, Stranger };

  Status openAll();
  Status open(int peer, uint16_t number);
  Status step();
  void accept();
  Result<Fate> hear(Guest &guest);
  Status finishConnecting(Guest &guest);
  Fate admit(Guest &guest, const Result<Hello> &hello);
  Status missing() const;
  std::unique_ptr<Connection> &place(const Hello &hello) {
    return met[static_cast<size_t>(hello.rank) * self.numConnections + hello.connection];
  }
  bool isWanted(uint32_t peer) const { return peer != self.rank && endpoints[peer] != Endpoint(); }
  void prepare(const Guest &guest, uint16_t number) const;
  Hello helloTo(uint32_t peer, uint16_t number) const;
  size_t numMissing() const;
  void makeRoom();

  const Hello self;
  Socket &listener;
  std::span<const Endpoint> endpoints;
  const int timeoutMs;
  const MailHandler *const handler;
  Clock::time_point deadline;
  std::vector<Guest> guests;
  std::vector<std::unique_ptr<Connection>> met;
  size_t numStrangers = 0;
  std::string lastStranger; // why the last one was closed
};

} // namespace kolo::runtime::tcp
