#include "network/tcp/SocketOptions.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace kolo::runtime::tcp {
namespace {

void set(const Socket &socket, int level, int option, int value) {
  setsockopt(socket.descriptor(), level, option, &value, sizeof(value));
}

} // namespace

void keepAlive(const Socket &socket, int timeoutMs) {
  constexpr int mostProbes = 127; // of the kernel
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, std::clamp(timeoutMs / 1000, 1, mostProbes));
}

void prepare(const Socket &socket, bool isForMail, int timeoutMs) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 0);
  if (!isForMail)
    return;
  keepAlive(socket, mailTimeoutMs(timeoutMs));
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, mailTimeoutMs(timeoutMs));
  set(socket, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1); // what few packets carry is not sent ever more rarely
}

} // namespace kolo::runtime::tcp
