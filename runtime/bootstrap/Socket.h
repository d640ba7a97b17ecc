// Socket: a TCP descriptor, and the few operations of the rendezvous, each with a deadline.
#pragma once

#include "kolo/runtime/Status.h"
#include "transport/Peers.h"

#include <string>
#include <utility>

namespace kolo::runtime {

class Socket {
public:
  Socket() = default;
  explicit Socket(int descriptor) : fd(descriptor) {}
  Socket(Socket &&other) noexcept : fd(std::exchange(other.fd, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(fd, other.fd);
    return *this;
  }
  ~Socket();

  int descriptor() const { return fd; }
  bool isOpen() const { return fd >= 0; }

  /// Sends all of it. SystemError, Timeout.
  Status sendAll(const void *bytes, size_t sizeBytes, Clock::time_point deadline);
  /// Receives exactly sizeBytes, or fewer when the other side closes; returns how many. SystemError, Timeout.
  Result<size_t> receive(void *bytes, size_t sizeBytes, Clock::time_point deadline);

private:
  int fd = -1;
};

struct Address {
  std::string host;
  std::string port;
};

/// Listens, non-blocking. SystemError: the address is not this host's, or the port is taken. InvalidArgument: no such
/// name.
Result<Socket> listenAt(const Address &address);
/// One attempt. SystemError, Timeout, InvalidArgument as above.
Result<Socket> connectTo(const Address &address, Clock::time_point deadline);
/// Milliseconds until the deadline, at least 0.
int millisecondsUntil(Clock::time_point deadline);

} // namespace kolo::runtime
