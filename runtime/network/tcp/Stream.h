// Stream: one TCP connection as its two directions share it: the socket, its place, and how it stands.
#pragma once

#include "network/Socket.h"
#include "network/tcp/Wire.h"

#include <atomic>

namespace kolo::runtime::tcp {

struct Stream {
  /// `place`: what the peer's Hello will say.
  explicit Stream(const Hello &place)
      : peer(static_cast<int>(place.rank)),
        numConnections(static_cast<uint16_t>(place.numConnections - (place.hasMail ? 1 : 0))),
        number(place.connection) {}

  /// Whether it carries mail, and nothing else.
  bool isForMail() const { return number == numConnections; }
  /// From the time at which it has a socket until it ends.
  bool isOpen() const { return isConnected.load(std::memory_order_acquire); }
  bool hasPeerLeft() const { return saidGoodbye.load(std::memory_order_acquire); }

  Socket socket;
  const int peer;
  const uint16_t numConnections; // for lanes
  const uint16_t number;
  std::atomic<bool> isAttached = false, isConnected = false, saidGoodbye = false;
};

/// PeerLost: what the kernel's error means.
Status lost(int peer, int errnoValue);
inline bool mustComeAgain(int errnoValue) { return errnoValue == EAGAIN || errnoValue == EWOULDBLOCK; }

} // namespace kolo::runtime::tcp
