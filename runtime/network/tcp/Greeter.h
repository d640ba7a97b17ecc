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

/// Who greets, and how.
struct GreeterOptions {
  Hello self; // its peer and connection are ignored
  OptionalKey key;
  int timeoutMs = 30'000;
  const MailHandler *mailHandler = nullptr;
};

/// Every two ranks have `numConnections` connections. The rank with the larger number opens them, and both sides send a
/// Hello with a proof; then the opener sends another one, over the nonces of both. A connection to this rank's listener
/// is a stranger if it does not do so for a place that is still missing; the greeter closes it and goes on.
class Greeter {
public:
  /// So many more connections than places are missing may owe their Hello at the same time. One more ends the one that
  /// has owed it for longest.
  static constexpr size_t maxSilent = 256;
  /// So long a connection may owe its Hello. Who has greeted has time until the world's deadline.
  static constexpr std::chrono::milliseconds maxSilence{5000};
  /// So many more connections than places are missing may have greeted and owe their last proof. After that only the
  /// first one of each place may greet: who repeats a greeting comes after the rank that he heard.
  static constexpr size_t maxRepeated = 64;
  /// So long the listener rests when no descriptor is left.
  static constexpr std::chrono::milliseconds restWithoutDescriptors{100};

  /// `endpointsByRank`: see Transport::connect.
  Greeter(const GreeterOptions &options, Socket &listeningSocket, std::span<const Endpoint> endpointsByRank)
      : self(options.self), key(options.key), listener(listeningSocket), endpoints(endpointsByRank),
        timeoutMs(options.timeoutMs), handler(options.mailHandler) {}

  /// Blocks. By peer and number; those of this rank itself, and of ranks without endpoint, are null. Timeout, PeerLost,
  /// Mismatch, SystemError, InvalidArgument: with the rank.
  Result<std::vector<std::unique_ptr<Connection>>> meetAll();

private:
  /// A connection that has not proved that it belongs to the world.
  struct Guest {
    Socket socket;
    bool isOpenedHere = false;
    bool isConnecting = false;
    bool hasGreeted = false; // opened by a peer: its Hello was answered
    Hello hello;             // expected of a connection that was opened here; received by one that was not
    Nonce nonce = {};        // of this rank
    std::array<std::byte, greetingBytes + sizeof(SecretProof)> bytes = {};
    size_t received = 0;
    size_t numWanted() const { return greetingBytes + (hasGreeted ? sizeof(SecretProof) : 0); }
    Clock::time_point until;
    bool isSilent() const { return !isOpenedHere && !hasGreeted; }
    bool hasToConfirm() const { return !isOpenedHere && hasGreeted; }
  };
  /// What became of a guest after it was heard.
  enum class Fate : uint8_t { Waits, Met, Stranger };

  Status openAll();
  Status open(int peer, uint16_t number);
  Status step();
  void accept();
  Result<Fate> hear(Guest &guest);
  Status receive(Guest &guest, Fate &fate);
  Status finishConnecting(Guest &guest);
  Status believe(Guest &guest) const;
  Fate answer(Guest &guest);
  Fate confirm(Guest &guest);
  bool sendGreeting(const Guest &guest, std::span<const std::byte> theirNonce) const;
  void take(Guest &guest);
  Status missing() const;
  std::unique_ptr<Connection> &place(const Hello &hello) {
    return met[static_cast<size_t>(hello.rank) * self.numConnections + hello.connection];
  }
  bool isWanted(uint32_t peer) const { return peer != self.rank && endpoints[peer] != Endpoint(); }
  void prepare(const Guest &guest, uint16_t number) const;
  Hello helloTo(uint32_t peer, uint16_t number) const;
  size_t numMissing() const;
  bool mayGreet(const Hello &hello) const;
  bool endOldestSilent();
  void makeRoom();

  const Hello self;
  const OptionalKey key;
  Socket &listener;
  std::span<const Endpoint> endpoints;
  const int timeoutMs;
  const MailHandler *const handler;
  Clock::time_point deadline;
  Clock::time_point acceptAgain = Clock::time_point::min();
  std::vector<Guest> guests;
  std::vector<std::unique_ptr<Connection>> met;
  size_t numStrangers = 0;
  std::string lastStranger; // why the last one was closed
};

} // namespace kolo::runtime::tcp
