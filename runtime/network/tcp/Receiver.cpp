#include "network/tcp/Receiver.h"

#include "base/Error.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace kolo::runtime::tcp {
namespace {

constexpr uint64_t mostBytesPerCall = 4 << 20;

} // namespace

/// The number of bytes that arrived; 0: none now, or the peer has left. A short answer means that nothing more is
/// there.
Result<size_t> Receiver::receiveSome(std::byte *memory, uint64_t mostBytes) {
  while (true) {
    ssize_t got = recv(stream.socket.descriptor(), memory, mostBytes, MSG_DONTWAIT);
    if (got > 0) {
      mayHaveMore = static_cast<uint64_t>(got) == mostBytes;
      return static_cast<size_t>(got);
    }
    if (got < 0 && errno == EINTR)
      continue;
    mayHaveMore = false;
    if (got < 0 && mustComeAgain(errno))
      return size_t(0);
    if (got < 0 && !stream.hasPeerLeft()) // a peer that has left answers with an error what it did not wait for
      return lost(stream.peer, errno);
    if (!stream.hasPeerLeft())
      return rankError(StatusCode::PeerLost, stream.peer, "rank {} has ended: it closed its connection", stream.peer);
    stream.isConnected.store(false, std::memory_order_release);
    return size_t(0);
  }
}

/// Receives data of the current put: first what is in the buffer, then straight into its destination.
Status Receiver::receiveData(uint64_t &budget) {
  sent.acquire(); // what arrives may answer what was sent
  size_t buffered = static_cast<size_t>(std::min<uint64_t>(dataLeft, last - first));
  std::memcpy(destination, buffer.data() + first, buffered);
  first += buffered;
  destination += buffered;
  dataLeft -= buffered;
  if (dataLeft == 0 || !mayHaveMore || budget == 0)
    return {};
  Result<size_t> got = receiveSome(destination, std::min(dataLeft, budget));
  if (!got.isOk())
    return got.status();
  destination += *got;
  dataLeft -= *got;
  budget -= *got;
  return {};
}

/// Fills the buffer. Requires fewer bytes there than one message has.
Status Receiver::receiveMessages(uint64_t &budget) {
  std::memmove(buffer.data(), buffer.data() + first, last - first);
  last -= first;
  first = 0;
  Result<size_t> got = receiveSome(buffer.data() + last, std::min<uint64_t>(buffer.size() - last, budget));
  if (!got.isOk())
    return got.status();
  last += *got;
  budget -= *got;
  return {};
}

/// Checks a message before anything of it is stored.
Result<Receiver::Step> Receiver::begin(Registrations &registrations, const Message &message) {
  uint64_t generation = registrations.generation();
  if (message.isMail() != stream.isForMail() && message.kind != MessageKind::Goodbye)
    return rankError(StatusCode::Mismatch, stream.peer, "rank {} sends a message of kind {} on connection {}",
                     stream.peer, static_cast<int>(message.kind), stream.number);
  if (!stream.isForMail() && message.kind != MessageKind::Goodbye &&
      message.lane % stream.numConnections != stream.number)
    return rankError(StatusCode::Mismatch, stream.peer, "rank {} uses connection {} of {} for lane {}", stream.peer,
                     stream.number, stream.numConnections, message.lane);
  if (message.isPut()) {
    Check put = registrations.checkPut(stream.peer, message.place(), message.sizeBytes);
    Check signal = put.verdict == Verdict::Accepted && message.isSignal()
                       ? registrations.checkSignal(stream.peer, message.lane, message.signal())
                       : Check();
    if (put.verdict == Verdict::Refused || signal.verdict == Verdict::Refused)
      return put.verdict == Verdict::Refused ? put.refusal : signal.refusal;
    if (put.verdict == Verdict::Early) {
      blockedAt.store(generation, std::memory_order_release);
      return Step::Blocked;
    }
    destination = put.destination;
  }
  if (message.isMail()) {
    mail.resize(message.sizeBytes);
    destination = mail.data();
  }
  current = message;
  dataLeft = message.sizeBytes;
  hasMessage = true;
  return Step::Done;
}

/// Does what follows the data of a message.
Result<Receiver::Step> Receiver::finish(Registrations &registrations, bool &hasRaised) {
  if (current.kind == MessageKind::Goodbye)
    stream.saidGoodbye.store(true, std::memory_order_release);
  if (current.isMail()) {
    if (Status status = (*handler)(stream.peer, mail); !status.isOk())
      return status;
    hasRaised = true; // the handler may have raised a counter
  }
  if (current.isSignal()) {
    uint64_t generation = registrations.generation();
    Check check = registrations.deliver(stream.peer, current.lane, current.signal());
    if (check.verdict == Verdict::Refused)
      return check.refusal;
    if (check.verdict == Verdict::Early) {
      blockedAt.store(generation, std::memory_order_release);
      return Step::Blocked;
    }
    hasRaised = true;
  }
  hasMessage = false;
  return Step::Done;
}

Status Receiver::receive(Registrations &registrations, bool &hasRaised) {
  std::unique_lock lock(receiving, std::try_to_lock);
  if (!lock || !stream.isOpen() || isBlocked(registrations))
    return {};
  blockedAt.store(notBlocked, std::memory_order_release);
  uint64_t budget = mostBytesPerCall;
  mayHaveMore = true;
  while (stream.isOpen()) {
    if (hasMessage && dataLeft > 0)
      if (Status status = receiveData(budget); !status.isOk())
        return status;
    if (hasMessage && dataLeft == 0) {
      Result<Step> step = finish(registrations, hasRaised);
      if (!step.isOk() || *step == Step::Blocked)
        return step.status();
    }
    bool isMissing = !hasMessage && last - first < messageBytes;
    if (isMissing && mayHaveMore && budget > 0)
      if (Status status = receiveMessages(budget); !status.isOk())
        return status;
    if (!hasMessage && last - first >= messageBytes) {
      if (stream.hasPeerLeft())
        return rankError(StatusCode::Mismatch, stream.peer, "rank {} goes on after its goodbye", stream.peer);
      Result<Message> message = parseMessage(std::span<const std::byte, messageBytes>(&buffer[first], messageBytes));
      if (!message.isOk())
        return rankError(StatusCode::Mismatch, stream.peer, "rank {} sent {}", stream.peer, message.status().message());
      Result<Step> step = begin(registrations, *message);
      if (!step.isOk() || *step == Step::Blocked)
        return step.status();
      first += messageBytes;
    } else if (!mayHaveMore || budget == 0) {
      return {};
    }
  }
  return {};
}

bool Receiver::isReceiving(uint64_t agreement) {
  std::scoped_lock lock(receiving);
  return hasMessage && current.isPut() && current.agreement == agreement;
}

} // namespace kolo::runtime::tcp
