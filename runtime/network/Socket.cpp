#include "network/Socket.h"

#include "base/Error.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

namespace kolo::runtime {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Result<AddressList> lookUp(const Address &address, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo *found = nullptr;
  const char *host = address.host.empty() ? nullptr : address.host.c_str(); // null: all interfaces
  if (int code = getaddrinfo(host, address.port.c_str(), &hints, &found); code != 0)
    return error(StatusCode::InvalidArgument, "MASTER_ADDR='{}' cannot be resolved: {}", address.host,
                 gai_strerror(code));
  return AddressList(found, freeaddrinfo);
}

bool isLoopback(const sockaddr *address) {
  if (address->sa_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in *>(address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  const in6_addr &number = reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&number) || (IN6_IS_ADDR_V4MAPPED(&number) && number.s6_addr[12] == IN_LOOPBACKNET);
}

/// "127.0.1.1": all that a name stands for here.
std::string numbers(const std::string &host) {
  std::string text;
  Result<AddressList> list = lookUp({host, "0"}, 0);
  for (const addrinfo *entry = list.isOk() ? list->get() : nullptr; entry; entry = entry->ai_next)
    text += (text.empty() ? "" : ", ") + numeric(entry->ai_addr);
  return text;
}

/// "10.0.0.1 (eth0)".
std::string placeOf(const sockaddr *address) {
  std::string number = numeric(address), interface;
  ifaddrs *all = nullptr;
  if (getifaddrs(&all) != 0)
    return number;
  std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, freeifaddrs);
  for (const ifaddrs *entry = all; entry && interface.empty(); entry = entry->ifa_next) {
    bool hasNumber =
        entry->ifa_addr && (entry->ifa_addr->sa_family == AF_INET || entry->ifa_addr->sa_family == AF_INET6);
    if (hasNumber && numeric(entry->ifa_addr) == number)
      interface = entry->ifa_name;
  }
  if (number == "0.0.0.0" || number == "::")
    return "all interfaces";
  return interface.empty() ? number : fmt::format("{} ({})", number, interface);
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

int connectOnce(const Socket &opened, const sockaddr *address, socklen_t sizeBytes, Clock::time_point deadline) {
  if (!opened.isOpen())
    return errno;
  if (connect(opened.descriptor(), address, sizeBytes) == 0)
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

/// The sockets of this process. A forked child would keep them open when this process has ended, and no peer would
/// learn of its end. So every child puts /dev/null in their places, which its copies of this process's objects may
/// close.
struct OpenSockets {
  std::mutex mutex;
  std::set<int> descriptors;
};

OpenSockets &openSockets() {
  static OpenSockets *const only = [] {
    static auto *made = new OpenSockets;
    pthread_atfork([] { made->mutex.lock(); }, [] { made->mutex.unlock(); },
                   [] {
                     int nothing = made->descriptors.empty() ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC);
                     for (int each : made->descriptors)
                       if (nothing < 0)
                         close(each);
                       else
                         dup3(nothing, each, O_CLOEXEC);
                     if (nothing >= 0)
                       close(nothing);
                     made->descriptors.clear();
                     made->mutex.unlock();
                   });
    return made;
  }();
  return *only;
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

timespec timeUntil(Clock::time_point until) {
  auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(until - Clock::now()).count();
  left = std::max<int64_t>(left, 0);
  return {left / 1'000'000'000, left % 1'000'000'000};
}

int waitForAny(std::vector<pollfd> &entries, Clock::time_point until) {
  const timespec most = timeUntil(until);
  return waitForAny(entries, &most);
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

Socket::Socket(int descriptor) : fd(descriptor) {
  if (fd < 0)
    return;
  OpenSockets &open = openSockets();
  std::scoped_lock lock(open.mutex);
  open.descriptors.insert(fd);
}

Socket::~Socket() {
  if (fd < 0)
    return;
  OpenSockets &open = openSockets();
  std::scoped_lock lock(open.mutex);
  open.descriptors.erase(fd);
  close(fd);
}

bool isPassingLack(int errnoValue) { return errnoValue == ENOBUFS || errnoValue == ENOMEM; }

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
    if (sent < 0 && isPassingLack(errno) && Clock::now() < deadline) {
      std::this_thread::sleep_for(restWithoutMemory);
      continue;
    }
    if (sent < 0)
      return systemError("sending", errno);
    next += sent;
    sizeBytes -= static_cast<size_t>(sent);
  }
  return {};
}

bool Socket::sendNow(std::span<const std::byte> bytes) const {
  constexpr int mostAttempts = 20; // others wait meanwhile
  ssize_t sent = -1;
  for (int attempt = 0; sent < 0 && attempt < mostAttempts; ++attempt) {
    sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && !isPassingLack(errno))
      return false;
    if (sent < 0)
      std::this_thread::sleep_for(restWithoutMemory);
  }
  return sent == static_cast<ssize_t>(bytes.size());
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

std::string numeric(const sockaddr *address) {
  char host[NI_MAXHOST] = {};
  socklen_t bytes = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (getnameinfo(address, bytes, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  std::string_view number = host;
  constexpr std::string_view mapped = "::ffff:"; // IPv4 at a socket for IPv6
  bool isMapped = number.starts_with(mapped) && number.find('.') != std::string_view::npos;
  return std::string(isMapped ? number.substr(mapped.size()) : number);
}

bool standsForLoopback(const std::string &host) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) == 0) {
    freeaddrinfo(found);
    return false; // a number is what it is
  }
  Result<AddressList> list = lookUp({host, "0"}, 0);
  if (host.starts_with("localhost") || host.ends_with("localhost") || !list.isOk())
    return false;
  for (const addrinfo *entry = list->get(); entry; entry = entry->ai_next)
    if (!isLoopback(entry->ai_addr))
      return false;
  return true;
}

Result<Listener> listenAt(const Address &address) {
  const bool isEverywhere = standsForLoopback(address.host);
  Result<AddressList> list = lookUp(isEverywhere ? Address{"", address.port} : address, AI_PASSIVE);
  if (!list.isOk())
    return list.status();
  std::vector<const addrinfo *> entries;
  for (const addrinfo *entry = list->get(); entry; entry = entry->ai_next)
    entries.push_back(entry);
  // A socket of all interfaces for IPv6 serves IPv4, too.
  if (isEverywhere)
    std::ranges::sort(entries, std::greater<>(), [](const addrinfo *entry) { return entry->ai_family == AF_INET6; });
  int code = 0;
  for (const addrinfo *entry : entries) {
    Socket opened = openSocket(*entry);
    int yes = 1, no = 0;
    if (opened.isOpen() && isEverywhere && entry->ai_family == AF_INET6)
      setsockopt(opened.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
    if (opened.isOpen() && setsockopt(opened.descriptor(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
        bind(opened.descriptor(), entry->ai_addr, entry->ai_addrlen) == 0 &&
        listen(opened.descriptor(), SOMAXCONN) == 0)
      return Listener{std::move(opened),
                      isEverywhere ? "all interfaces, because MASTER_ADDR is " + numbers(address.host) + " here"
                                   : placeOf(entry->ai_addr)};
    code = errno;
  }
  return systemError(fmt::format("listening at MASTER_ADDR {}, MASTER_PORT {}", address.host, address.port), code);
}

Result<Socket> connectTo(const Address &address, Clock::time_point deadline) {
  Result<AddressList> list = lookUp(address, 0);
  if (!list.isOk())
    return list.status();
  int code = 0;
  std::string tried;
  for (const addrinfo *entry = list->get(); entry; entry = entry->ai_next) {
    if (std::string number = numeric(entry->ai_addr); number != address.host)
      tried = fmt::format(" ({})", number);
    Socket opened = openSocket(*entry);
    code = connectOnce(opened, entry->ai_addr, entry->ai_addrlen, deadline);
    if (code == 0 && isConnectedToItself(opened.descriptor()))
      code = ECONNREFUSED;
    if (code == 0)
      return opened;
  }
  return systemError(fmt::format("connecting to MASTER_ADDR {}{}, MASTER_PORT {}", address.host, tried, address.port),
                     code);
}

Result<Socket> connectTo(const sockaddr *address, socklen_t sizeBytes, Clock::time_point deadline) {
  Socket opened(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int code = connectOnce(opened, address, sizeBytes, deadline);
  if (code == 0 && isConnectedToItself(opened.descriptor()))
    code = ECONNREFUSED;
  return code == 0 ? std::move(opened) : Result<Socket>(systemError("connecting", code));
}

} // namespace kolo::runtime
