// Socket: a TCP descriptor, and the operations of the rendezvous on it, each with a deadline.
#pragma once

#include "kolo/runtime/Status.h"
#include "wait/Clock.h"

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kolo::runtime {

class Socket {
public:
  Socket() = default;
  /// Takes the descriptor. In a forked child it soon is another file: see the source.
  explicit Socket(int descriptor);
  Socket(Socket &&other) noexcept : fd(std::exchange(other.fd, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(fd, other.fd);
    return *this;
  }
  ~Socket();

  int descriptor() const { return fd; }
  bool isOpen() const { return fd >= 0; }

  /// Blocks until all bytes are sent. SystemError, Timeout.
  Status sendAll(const void *bytes, size_t sizeBytes, Clock::time_point deadline);
  /// Sends all or fails with an errno, at once: a few bytes, which fit into the buffer of a connection on which little
  /// was said.
  bool sendNow(std::span<const std::byte> bytes) const;
  /// Blocks until sizeBytes bytes have arrived or the other side has closed. Returns the number received. SystemError,
  /// Timeout.
  Result<size_t> receive(void *bytes, size_t sizeBytes, Clock::time_point deadline);

private:
  int fd = -1;
};

struct Address {
  std::string host;
  std::string port;
};

struct Listener {
  Socket socket;
  std::string where; // for people: "10.0.0.1 (eth0)", "all interfaces, because MASTER_ADDR is 127.0.1.1 here"
};

/// Makes a non-blocking listening socket: at the address, or at all interfaces if standsForLoopback. SystemError: the
/// address is not of this host, or the port is taken. InvalidArgument: the name cannot be resolved.
Result<Listener> listenAt(const Address &address);
/// Whether this is a name of this host, and not localhost, that only this host can reach, by what it stands for here:
/// Debian's own name is 127.0.1.1. Other hosts know it by another address.
bool standsForLoopback(const std::string &host);
/// "10.0.0.1"; empty: neither IPv4 nor IPv6.
std::string numeric(const sockaddr *address);
/// Tries once to connect. SystemError, Timeout, InvalidArgument as for listenAt. The message has the numeric address.
Result<Socket> connectTo(const Address &address, Clock::time_point deadline);
/// The same for a numeric address of IPv4 or IPv6, which the message does not have.
Result<Socket> connectTo(const sockaddr *address, socklen_t sizeBytes, Clock::time_point deadline);
/// Whether a send failed because the kernel lacks memory for it now. The connection is as it was.
bool isPassingLack(int errnoValue);
/// Until it may have some again.
inline constexpr std::chrono::milliseconds restWithoutMemory{5};
/// Milliseconds until the deadline, at least 0.
int millisecondsUntil(Clock::time_point deadline);

/// As ppoll. The kernel refuses to wait for more descriptors than RLIMIT_NOFILE, which a program may lower at any time.
/// Then this waits for at most 1 ms, and says that all are ready.
int waitForAny(std::vector<pollfd> &entries, const timespec *mostTime);
int waitForAny(std::vector<pollfd> &entries, Clock::time_point until);
/// The time until then, at least 0.
timespec timeUntil(Clock::time_point until);
/// Raises the soft limit, so that this process may open so many more descriptors, as far as its hard limit allows.
void allowDescriptors(size_t number);

} // namespace kolo::runtime
