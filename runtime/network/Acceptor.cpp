#include "network/Acceptor.h"

#include <fmt/format.h>

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kolo::runtime {

bool isOwnLack(int errnoValue) {
  return isPassingLack(errnoValue) || errnoValue == EMFILE || errnoValue == ENFILE || errnoValue == EADDRNOTAVAIL;
}

SecretProof proofAt(std::span<const std::byte> bytes, size_t offset) {
  SecretProof proof = {};
  std::ranges::copy(bytes.subspan(offset, proof.size()), proof.begin());
  return proof;
}

PendingConnection::Receipt PendingConnection::receive(size_t sizeBytes) {
  size_t number = received.size();
  received.resize(sizeBytes);
  bool hasEnded = false;
  while (number < sizeBytes) {
    ssize_t got = recv(socket.descriptor(), &received[number], sizeBytes - number, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR)
      continue;
    hasEnded = got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
    if (got <= 0)
      break;
    number += static_cast<size_t>(got);
  }
  received.resize(number);
  if (number == sizeBytes)
    return Receipt::Whole;
  return hasEnded ? Receipt::Ended : Receipt::Partial;
}

/// Receives what a connection has sent, and judges it.
Admission Acceptor::hear(IncomingConnection &connection) {
  while (true) {
    const size_t wanted = options.firstBytes + (connection.wasAnswered ? options.lastBytes : 0);
    const PendingConnection::Receipt receipt = connection.receive(wanted);
    // Others may say less, and wait.
    if (Status beginning = handshake.checkBeginning(connection.received); !beginning.isOk())
      return Admission::stranger(beginning.message());
    if (receipt == PendingConnection::Receipt::Ended && connection.wasAnswered)
      handshake.noteEnd(connection);
    if (receipt == PendingConnection::Receipt::Ended)
      return Admission::stranger(fmt::format("a connection that ended after {} bytes", connection.received.size()));
    if (receipt == PendingConnection::Receipt::Partial)
      return {};
    if (connection.wasAnswered)
      return handshake.confirm(connection);
    if (Admission answered = handshake.answer(connection); answered.isOver() || !connection.wasAnswered)
      return answered;
  } // its last message may be here already
}

/// Counts strangers.
bool Acceptor::isOver(const Admission &admission) {
  if (admission.kind == Admission::Kind::Stranger) {
    ++strangers;
    last = admission.what;
  }
  return admission.isOver();
}

/// Drops the connection that has been silent for longest; if none is silent and answered ones count, the oldest one.
/// False: there is none.
bool Acceptor::dropOldest() {
  auto oldest = std::ranges::find(pending, false, &IncomingConnection::wasAnswered);
  if (oldest == pending.end() && options.boundsAnswered)
    oldest = pending.begin();
  if (oldest == pending.end())
    return false;
  (void)isOver(Admission::stranger("a connection that said nothing, among many"));
  pending.erase(oldest);
  return true;
}

void Acceptor::makeRoomFor(const IncomingConnection &next) {
  auto isCounted = [this](const IncomingConnection &one) { return counts(one); };
  auto number = static_cast<size_t>(std::ranges::count_if(pending, isCounted));
  if (number + (counts(next) ? 1 : 0) > handshake.mostPending())
    dropOldest();
}

void Acceptor::accept() {
  if (Clock::now() < acceptAgain)
    return;
  for (size_t i = 0; i < handshake.mostPending(); ++i) { // then others get their turn
    IncomingConnection next;
    next.socket = Socket(accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    lack = nullptr;
    if (!next.socket.isOpen() && isOwnLack(errno)) {
      lack = strerrordesc_np(errno);
      if (dropOldest())
        continue;
      acceptAgain = Clock::now() + restWithoutDescriptors; // the listener would be ready again and again
    }
    if (!next.socket.isOpen())
      return;
    next.until = Clock::now() + options.maxSilence;
    if (isOver(hear(next))) // a rank's first message is here already, as a rule
      continue;
    makeRoomFor(next);
    pending.push_back(std::move(next));
  }
}

void Acceptor::addTo(std::vector<pollfd> &entries, Clock::time_point &until) const {
  const bool rests = Clock::now() < acceptAgain;
  entries.push_back({rests ? -1 : listener.descriptor(), POLLIN, 0});
  until = rests ? std::min(until, acceptAgain) : until;
  for (const IncomingConnection &one : pending) {
    // From one whose first message has got no answer nothing is heard, whatever else it sends.
    bool isWithheld = !one.wasAnswered && one.received.size() == options.firstBytes;
    entries.push_back({isWithheld ? -1 : one.socket.descriptor(), POLLIN, 0});
    until = std::min(until, one.until);
  }
}

void Acceptor::hear(std::span<const pollfd> entries, Clock::time_point looked) {
  for (size_t index = pending.size(); index-- > 0;) { // backwards, because of the erasure
    IncomingConnection &one = pending[index];
    Admission admission = entries[index + 1].revents != 0 ? hear(one) : Admission();
    if (!admission.isOver() && looked >= one.until)
      admission =
          Admission::stranger(fmt::format("a connection that sent {} bytes and then nothing", one.received.size()));
    if (isOver(admission))
      pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(index));
  }
  accept();
}

void Acceptor::work(Clock::time_point until) {
  std::vector<pollfd> entries;
  addTo(entries, until);
  const Clock::time_point looked = Clock::now();
  waitForAny(entries, until);
  hear(entries, looked);
}

bool Acceptor::isDue() const {
  const Clock::time_point now = Clock::now();
  return now < acceptAgain || std::ranges::any_of(pending, [&](const auto &one) { return now >= one.until; });
}

void Acceptor::close() { shutdown(listener.descriptor(), SHUT_RDWR); }

} // namespace kolo::runtime
