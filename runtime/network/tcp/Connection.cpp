#include "network/tcp/Connection.h"

#include "base/Error.h"
#include "network/tcp/SocketOptions.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>

namespace kolo::runtime::tcp {
namespace {

constexpr uint64_t mostBytesPerCall = 4 << 20;
constexpr size_t mostMessagesPerCall = 32;

Status lost(int peer, int errnoValue) {
  const char *reason = strerrordesc_np(errnoValue);
  if (errnoValue == ETIMEDOUT)
    return rankError(StatusCode::PeerLost, peer,
                     "rank {} may live, but its host answers no more, or the network between loses all: {}", peer,
                     reason);
  return rankError(StatusCode::PeerLost, peer, "the connection to rank {} broke: {}", peer,
                   reason ? reason : "unknown error");
}

bool mustComeAgain(int errnoValue) { return errnoValue == EAGAIN || errnoValue == EWOULDBLOCK; }

/// The kernel lacks memory for it now. The connection is as it was.
bool isPassingLack(int errnoValue) { return errnoValue == ENOBUFS || errnoValue == ENOMEM; }

} // namespace

void Connection::attach(Socket connected) {
  std::scoped_lock lock(sending, receiving);
  socket = std::move(connected);
  isAttached.store(true, std::memory_order_release);
  isConnected.store(true, std::memory_order_release);
}

void Connection::setPatience(bool isPatient, int ownTimeoutMs) {
  int timeoutMs = isPatient ? 0 : mailTimeoutMs(ownTimeoutMs);
  if (patience.exchange(isPatient, std::memory_order_relaxed) != isPatient && isOpen())
    setsockopt(descriptor(), IPPROTO_TCP, TCP_USER_TIMEOUT, &timeoutMs, sizeof(timeoutMs));
}

void Connection::enqueue(const Message &message, const std::byte *src) {
  std::scoped_lock lock(sending);
  if (message.kind == MessageKind::Signal) {
    auto ofLane = std::find_if(queue.rbegin(), queue.rend(),
                               [&](const Outgoing &queued) { return queued.message.lane == message.lane; });
    if (ofLane != queue.rend() && ofLane->sentBytes == 0 && ofLane->message.kind == MessageKind::Put) {
      ofLane->message.kind = MessageKind::PutAndSignal;
      ofLane->message.signalAgreement = message.signalAgreement;
      ofLane->message.semaphore = message.semaphore;
      ofLane->message.count = message.count;
      return;
    }
  }
  queue.push_back({message, src});
  queuedBytes.fetch_add(queue.back().sizeBytes(), std::memory_order_relaxed);
  numWaiting.store(queue.size(), std::memory_order_release);
}

void Connection::enqueueMail(std::span<const std::byte> text) {
  Message message;
  message.kind = MessageKind::Mail;
  message.sizeBytes = text.size();
  std::scoped_lock lock(sending);
  queue.push_back({message, nullptr});
  queue.back().own.assign(text.begin(), text.end());
  queue.back().src = queue.back().own.data();
  queuedBytes.fetch_add(queue.back().sizeBytes(), std::memory_order_relaxed);
  numWaiting.store(queue.size(), std::memory_order_release);
}

uint64_t Connection::numQueued() const {
  std::scoped_lock lock(sending);
  return numSent.load(std::memory_order_relaxed) + queue.size();
}

/// Writes the addresses of what is not sent yet: two at most. Returns their number.
size_t Connection::Outgoing::addTo(iovec *parts) {
  size_t numParts = 0;
  if (sentBytes == 0)
    bytes = write(message);
  if (sentBytes < messageBytes)
    parts[numParts++] = {bytes.data() + sentBytes, messageBytes - sentBytes};
  uint64_t sentData = sentBytes - std::min<uint64_t>(sentBytes, messageBytes);
  if (sentData < message.sizeBytes)
    parts[numParts++] = {const_cast<std::byte *>(src) + sentData, message.sizeBytes - sentData};
  return numParts;
}

Status Connection::send() {
  std::scoped_lock lock(sending);
  while (!queue.empty() && isOpen() && !isBroken()) {
    std::array<iovec, 2 * mostMessagesPerCall> parts;
    size_t numParts = 0;
    for (size_t i = 0; i < std::min(queue.size(), mostMessagesPerCall); ++i)
      numParts += queue[i].addTo(&parts[numParts]);
    msghdr message = {};
    message.msg_iov = parts.data();
    message.msg_iovlen = numParts;
    numSent.fetch_add(0, std::memory_order_release); // the answer may arrive before this is over: see receiveData
    ssize_t sent = sendmsg(socket.descriptor(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0 && mustComeAgain(errno))
      return {};
    if (sent < 0 && isPassingLack(errno)) {
      sendAgain.store((Clock::now() + restWithoutMemory).time_since_epoch().count(), std::memory_order_release);
      return {};
    }
    if (sent < 0) {
      brokenBy.store(errno, std::memory_order_release);
      return {};
    }
    takeSent(static_cast<uint64_t>(sent));
  }
  return {};
}

/// Removes from the queue what the kernel took.
void Connection::takeSent(uint64_t numBytes) {
  uint64_t numWhole = 0;
  sentBytes.fetch_add(numBytes, std::memory_order_relaxed);
  queuedBytes.fetch_sub(numBytes, std::memory_order_relaxed);
  while (numBytes > 0) {
    Outgoing &next = queue.front();
    uint64_t taken = std::min(numBytes, next.sizeBytes() - next.sentBytes);
    next.sentBytes += taken;
    numBytes -= taken;
    if (next.sentBytes < next.sizeBytes())
      break;
    queue.pop_front();
    ++numWhole;
  }
  numWaiting.store(queue.size(), std::memory_order_release);
  numSent.fetch_add(numWhole, std::memory_order_release);
}

/// The number of bytes that arrived; 0: none now, or the peer has left. A short answer means that nothing more is
/// there.
Result<size_t> Connection::receiveSome(std::byte *memory, uint64_t mostBytes) {
  while (true) {
    ssize_t got = recv(socket.descriptor(), memory, mostBytes, MSG_DONTWAIT);
    if (got > 0) {
      mayHaveMore = static_cast<uint64_t>(got) == mostBytes;
      return static_cast<size_t>(got);
    }
    if (got < 0 && errno == EINTR)
      continue;
    mayHaveMore = false;
    if (got < 0 && mustComeAgain(errno))
      return size_t(0);
    if (got < 0 && !hasPeerLeft()) // a peer that has left answers with an error what it did not wait for
      return lost(peer, errno);
    if (!hasPeerLeft())
      return rankError(StatusCode::PeerLost, peer, "rank {} has ended: it closed its connection", peer);
    isConnected.store(false, std::memory_order_release);
    return size_t(0);
  }
}

/// Receives data of the current put: first what is in the buffer, then straight into its destination.
Status Connection::receiveData(uint64_t &budget) {
  // What arrives may answer what was sent: all that came before that was sent comes before this is stored.
  (void)numSent.load(std::memory_order_acquire);
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
Status Connection::receiveMessages(uint64_t &budget) {
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
Result<Connection::Step> Connection::begin(Registrations &registrations, const Message &message) {
  uint64_t generation = registrations.generation();
  if (message.isMail() != isForMail() && message.kind != MessageKind::Goodbye)
    return rankError(StatusCode::Mismatch, peer, "rank {} sends a message of kind {} on connection {}", peer,
                     static_cast<int>(message.kind), number);
  if (!isForMail() && message.kind != MessageKind::Goodbye && message.lane % numConnections != number)
    return rankError(StatusCode::Mismatch, peer, "rank {} uses connection {} of {} for lane {}", peer, number,
                     numConnections, message.lane);
  if (message.isPut()) {
    Check put = registrations.checkPut(peer, message.place(), message.sizeBytes);
    Check signal = put.verdict == Verdict::Accepted && message.isSignal()
                       ? registrations.checkSignal(peer, message.lane, message.signal())
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
Result<Connection::Step> Connection::finish(Registrations &registrations, bool &hasRaised) {
  if (current.kind == MessageKind::Goodbye)
    saidGoodbye.store(true, std::memory_order_release);
  if (current.isMail())
    if (Status status = (*handler)(peer, mail); !status.isOk())
      return status;
  if (current.isSignal()) {
    uint64_t generation = registrations.generation();
    Check check = registrations.deliver(peer, current.lane, current.signal());
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

Status Connection::receive(Registrations &registrations, bool &hasRaised) {
  std::unique_lock lock(receiving, std::try_to_lock);
  if (!lock || !isOpen() || isBlocked(registrations))
    return {};
  blockedAt.store(notBlocked, std::memory_order_release);
  uint64_t budget = mostBytesPerCall;
  mayHaveMore = true;
  while (isOpen()) {
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
      if (hasPeerLeft())
        return rankError(StatusCode::Mismatch, peer, "rank {} goes on after its goodbye", peer);
      Result<Message> message = parseMessage(std::span<const std::byte, messageBytes>(&buffer[first], messageBytes));
      if (!message.isOk())
        return rankError(StatusCode::Mismatch, peer, "rank {} sent {}", peer, message.status().message());
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

bool Connection::isReceiving(uint64_t agreement) {
  std::scoped_lock lock(receiving);
  return hasMessage && current.isPut() && current.agreement == agreement;
}

void Connection::end() {
  if (isConnected.exchange(false, std::memory_order_acq_rel))
    shutdown(socket.descriptor(), SHUT_RDWR);
}

Status Connection::whyBroken() const { return lost(peer, brokenBy.load(std::memory_order_acquire)); }

uint64_t Connection::numUnconfirmed() const {
  int unconfirmed = 0;
  uint64_t numWithKernel =
      ioctl(socket.descriptor(), SIOCOUTQ, &unconfirmed) == 0 ? static_cast<uint64_t>(unconfirmed) : 0;
  return numWithKernel + queuedBytes.load(std::memory_order_relaxed);
}

void Connection::sayGoodbye() {
  {
    std::scoped_lock lock(sending);
    // Without a flush the source of a put may be gone: the peer sees the end of the connection alone.
    if (std::ranges::any_of(queue, [](const Outgoing &one) { return one.message.isPut(); }))
      return endSending();
  }
  enqueue(Message(), nullptr);
  (void)send();
  std::scoped_lock lock(sending);
  if (queue.empty())
    endSending();
}

void Connection::endSending() {
  queue.clear();
  numWaiting.store(0, std::memory_order_release);
  queuedBytes.store(0, std::memory_order_relaxed);
  shutdown(socket.descriptor(), SHUT_WR);
}

Connection::Drain Connection::drain() {
  if (hasToSend()) {
    (void)send();
    std::scoped_lock lock(sending);
    if (queue.empty())
      endSending();
  }
  std::array<std::byte, 64 << 10> ignored;
  ssize_t got = 0;
  while ((got = recv(socket.descriptor(), ignored.data(), ignored.size(), MSG_DONTWAIT)) > 0)
    continue;
  if (isBroken() || (got < 0 && !mustComeAgain(errno)))
    return Drain::Broken;
  return got == 0 || (!hasToSend() && numUnconfirmed() == 0) ? Drain::Done : Drain::Goes;
}

} // namespace kolo::runtime::tcp
