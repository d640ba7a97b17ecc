#include "network/tcp/Connection.h"

#include "network/tcp/SocketOptions.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace kolo::runtime::tcp {

void Connection::attach(Socket connected) {
  std::scoped_lock lock(queue.lock(), receiver.lock());
  stream.socket = std::move(connected);
  stream.isAttached.store(true, std::memory_order_release);
  stream.isConnected.store(true, std::memory_order_release);
}

void Connection::setPatience(bool isPatient, int ownTimeoutMs) {
  int timeoutMs = isPatient ? 0 : mailTimeoutMs(ownTimeoutMs);
  if (patience.exchange(isPatient, std::memory_order_relaxed) != isPatient && isOpen())
    setsockopt(descriptor(), IPPROTO_TCP, TCP_USER_TIMEOUT, &timeoutMs, sizeof(timeoutMs));
}

Status Connection::work(Registrations &registrations, bool &hasRaised) {
  Status status = receiver.receive(registrations, hasRaised);
  if (status.isOk() && !queue.isEmpty())
    queue.send();
  return status;
}

void Connection::end() {
  if (stream.isConnected.exchange(false, std::memory_order_acq_rel))
    shutdown(descriptor(), SHUT_RDWR);
}

Connection::Drain Connection::drain() {
  if (!queue.isEmpty())
    queue.finish();
  std::array<std::byte, 64 << 10> ignored;
  ssize_t got = 0;
  while ((got = recv(descriptor(), ignored.data(), ignored.size(), MSG_DONTWAIT)) > 0)
    continue;
  if (queue.isBroken() || (got < 0 && !mustComeAgain(errno)))
    return Drain::Broken;
  return got == 0 || (queue.isEmpty() && queue.numUnconfirmed() == 0) ? Drain::Done : Drain::Goes;
}

} // namespace kolo::runtime::tcp
