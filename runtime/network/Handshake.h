// Handshake: how the two ends of a connection prove to each other that they have the same secret. The opener's first
// message has a nonce; the answer has a nonce and a proof; the opener's last message has a proof over both nonces.
#pragma once

#include "network/SecretProof.h"
#include "network/Socket.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace kolo::runtime {

/// A connection whose other end has not proved yet that it belongs to the world.
struct PendingConnection {
  Socket socket;
  Nonce nonce = {}; // of this end
  std::vector<std::byte> received;
  Clock::time_point until; // when it is dropped; opened here: an answer that is found later may be too old

  enum class Receipt : uint8_t { Partial, Whole, Ended };
  /// Receives what is here, until there are so many bytes in all. Never blocks.
  Receipt receive(size_t sizeBytes);
  /// As Socket::sendNow.
  bool send(std::span<const std::byte> bytes) const { return socket.sendNow(bytes); }
};

/// One that an acceptor has.
struct IncomingConnection : PendingConnection {
  bool wasAnswered = false; // its first message
  size_t claim = 0;         // then: which end it says it is, by the handshake's own numbers
  Clock::time_point since;  // then: when the first in an unbroken series with this claim was answered
};

/// What becomes of a connection after a message.
struct Admission {
  enum class Kind : uint8_t { Waits, Admitted, Closed, Stranger } kind = Kind::Waits;
  std::string what; // of a stranger: what the connection was, for messages

  static Admission stranger(std::string what) { return {Kind::Stranger, std::move(what)}; }
  bool isOver() const { return kind != Kind::Waits; }
};

/// The acceptor's side of a handshake: it judges both messages of an opener.
class Handshake {
public:
  virtual ~Handshake() = default;
  /// Whether a first message may begin so. Mismatch: what else the bytes are.
  virtual Status checkBeginning(std::span<const std::byte> bytes) const = 0;
  /// Judges the first message, and answers it: sets `wasAnswered` and `claim`. A connection that waits without an
  /// answer is not heard any more.
  virtual Admission answer(IncomingConnection &connection) = 0;
  /// Judges the last message. Takes the socket of who is admitted.
  virtual Admission confirm(IncomingConnection &connection) = 0;
  /// One that was answered has ended instead.
  virtual void noteEnd(const IncomingConnection &connection) { (void)connection; }
  /// So many connections may be pending.
  virtual size_t mostPending() const = 0;
};

/// The proof at this place of a message.
SecretProof proofAt(std::span<const std::byte> bytes, size_t offset);

} // namespace kolo::runtime
