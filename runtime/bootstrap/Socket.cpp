#include "bootstrap/Socket.h"

#include "Error.h"

#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

namespace kolo::runtime {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Result<AddressList> lookUp(const Address &address, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo *found = nullptr;
  if (int code = getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found); code != 0)
    return error(StatusCode::InvalidArgument, "MASTER_ADDR='{}' cannot be resolved: {}", address.host,
                 gai_strerror(code));
  return AddressList(found, freeaddrinfo);
}

Socket openSocket(const addrinfo &entry) {
  return Socket(socket(entry.ai_family, entry.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, entry.ai_protocol));
}

/// True when the descriptor is ready for `events`, false when the deadline came first.
bool waitReady(int fd, short events, Clock::time_point deadline) {
  while (true) {
    pollfd entry = {fd, events, 0};
    int count = poll(&entry, 1, millisecondsUntil(deadline));
    if (count > 0)
      return true;
    if (count == 0 || errno != EINTR)
      return false;
  }
}

/// An attempt to connect to a free local port can connect to itself, if the kernel picks the same port for this end.
bool isConnectedToItself(int fd) {
  sockaddr_storage own = {}, other = {};
  socklen_t ownBytes = sizeof(own), otherBytes = sizeof(other);
  return getsockname(fd, reinterpret_cast<sockaddr *>(&own), &ownBytes) == 0 &&
         getpeername(fd, reinterpret_cast<sockaddr *>(&other), &otherBytes) == 0 && ownBytes == otherBytes &&
         std::memcmp(&own, &other, ownBytes) == 0;
}

int connectOnce(const Socket &opened, const addrinfo &entry, Clock::time_point deadline) {
  if (!opened.isOpen())
    return errno;
  if (connect(opened.descriptor(), entry.ai_addr, entry.ai_addrlen) == 0)
    return 0;
  if (errno != EINPROGRESS)
    return errno;
  if (!waitReady(opened.descriptor(), POLLOUT, deadline))
    return ETIMEDOUT;
  int code = 0;
  socklen_t bytes = sizeof(code);
  getsockopt(opened.descriptor(), SOL_SOCKET, SO_ERROR, &code, &bytes);
  return code;
}

} // namespace

int millisecondsUntil(Clock::time_point deadline) {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, INT_MAX));
}

int waitForAny(std::vector<pollfd> &entries, const timespec *mostTime) {
  int numReady = ppoll(entries.data(), entries.size(), mostTime, nullptr);
  if (numReady >= 0)
    return numReady;
  for (pollfd &entry : entries)
    entry.revents = 0;
  if (errno == EINTR)
    return 0;
  constexpr std::chrono::nanoseconds rest = std::chrono::milliseconds(1);
  auto most = std::chrono::seconds(mostTime->tv_sec) + std::chrono::nanoseconds(mostTime->tv_nsec);
  std::this_thread::sleep_for(std::min(rest, most));
  for (pollfd &entry : entries)
    entry.revents = entry.fd >= 0 ? entry.events : static_cast<short>(0);
  return static_cast<int>(entries.size());
}

void allowDescriptors(size_t number) {
  static std::mutex mutex; // else a thread could undo another one's raise
  std::scoped_lock lock(mutex);
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max)
    return;
  size_t numOpen = 0;
  std::error_code unknown;
  for (auto open = std::filesystem::directory_iterator("/proc/self/fd", unknown);
       !unknown && open != std::filesystem::directory_iterator(); open.increment(unknown))
    ++numOpen;
  const rlim_t needed = number + (unknown ? limit.rlim_cur : numOpen); // without a descriptor nobody can count
  limit.rlim_cur = std::min(limit.rlim_max, std::max(limit.rlim_cur, needed));
  setrlimit(RLIMIT_NOFILE, &limit);
}

Socket::~Socket() {
  if (fd >= 0)
    close(fd);
}

Status Socket::sendAll(const void *bytes, size_t sizeBytes, Clock::time_point deadline) {
  const auto *next = static_cast<const char *>(bytes);
  while (sizeBytes > 0) {
    ssize_t sent = send(fd, next, sizeBytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (!waitReady(fd, POLLOUT, deadline))
        return error(StatusCode::Timeout, "sending: timed out");
      continue;
    }
    if (sent < 0)
      return systemError("sending", errno);
    next += sent;
    sizeBytes -= static_cast<size_t>(sent);
  }
  return {};
}

Result<size_t> Socket::receive(void *bytes, size_t sizeBytes, Clock::time_point deadline) {
  size_t total = 0;
  while (total < sizeBytes) {
    ssize_t got = recv(fd, static_cast<char *>(bytes) + total, sizeBytes - total, 0);
    if (got == 0)
      break;
    if (got > 0) {
      total += static_cast<size_t>(got);
      continue;
    }
    if (errno == EINTR)
      continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK)
      return systemError("receiving", errno);
    if (!waitReady(fd, POLLIN, deadline))
      return error(StatusCode::Timeout, "receiving: timed out");
  }
  return total;
}

Result<Socket> listenAt(const Address &address) {
  Result<AddressList> list = lookUp(address, AI_PASSIVE);
  if (!list.isOk())
    return list.status();
  int code = 0;
  for (const addrinfo *entry = list->get(); entry; entry = entry->ai_next) {
    Socket opened = openSocket(*entry);
    int yes = 1;
    if (opened.isOpen() && setsockopt(opened.descriptor(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
        bind(opened.descriptor(), entry->ai_addr, entry->ai_addrlen) == 0 &&
        listen(opened.descriptor(), SOMAXCONN) == 0)
      return opened;
    code = errno;
  }
  return systemError(fmt::format("listening at MASTER_ADDR {}, MASTER_PORT {}", address.host, address.port), code);
}

Result<Socket> connectTo(const Address &address, Clock::time_point deadline) {
  Result<AddressList> list = lookUp(address, 0);
  if (!list.isOk())
    return list.status();
  int code = 0;
  for (const addrinfo *entry = list->get(); entry; entry = entry->ai_next) {
    Socket opened = openSocket(*entry);
    code = connectOnce(opened, *entry, deadline);
    if (code == 0 && isConnectedToItself(opened.descriptor()))
      code = ECONNREFUSED;
    if (code == 0)
      return opened;
  }
  return systemError(fmt::format("connecting to MASTER_ADDR {}, MASTER_PORT {}", address.host, address.port), code);
}

} // namespace kolo::runtime
