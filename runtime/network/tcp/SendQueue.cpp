#include "network/tcp/SendQueue.h"

#include "base/Error.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace kolo::runtime::tcp {
namespace {

constexpr size_t mostMessagesPerCall = 32;

} // namespace

Status lost(int peer, int errnoValue) {
  const char *reason = strerrordesc_np(errnoValue);
  if (errnoValue == ETIMEDOUT)
    return rankError(StatusCode::PeerLost, peer,
                     "rank {} may live, but its host answers no more, or the network between loses all: {}", peer,
                     reason);
  return rankError(StatusCode::PeerLost, peer, "the connection to rank {} broke: {}", peer,
                   reason ? reason : "unknown error");
}

/// Counts the last one in the queue. Requires `sending`.
void SendQueue::count() {
  queuedBytes.fetch_add(queue.back().sizeBytes(), std::memory_order_relaxed);
  numWaiting.store(queue.size(), std::memory_order_release);
}

void SendQueue::push(const Message &message, const std::byte *src) {
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
  count();
}

void SendQueue::pushMail(std::span<const std::byte> text) {
  Message message;
  message.kind = MessageKind::Mail;
  message.sizeBytes = text.size();
  std::scoped_lock lock(sending);
  queue.push_back({message, nullptr});
  queue.back().own.assign(text.begin(), text.end());
  queue.back().src = queue.back().own.data();
  count();
}

uint64_t SendQueue::numQueued() const {
  std::scoped_lock lock(sending);
  return numSent.load(std::memory_order_relaxed) + queue.size();
}

/// Writes the addresses of what is not sent yet: two at most. Returns their number.
size_t SendQueue::Outgoing::addTo(iovec *parts) {
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

void SendQueue::send() {
  std::scoped_lock lock(sending);
  while (!queue.empty() && stream.isOpen() && !isBroken()) {
    std::array<iovec, 2 * mostMessagesPerCall> parts;
    size_t numParts = 0;
    for (size_t i = 0; i < std::min(queue.size(), mostMessagesPerCall); ++i)
      numParts += queue[i].addTo(&parts[numParts]);
    msghdr message = {};
    message.msg_iov = parts.data();
    message.msg_iovlen = numParts;
    numSent.fetch_add(0, std::memory_order_release); // the answer may arrive before this is over: see acquire
    ssize_t sent = sendmsg(stream.socket.descriptor(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      takeSent(static_cast<uint64_t>(sent));
      continue;
    }
    if (errno == EINTR)
      continue;
    if (isPassingLack(errno))
      sendAgain.store((Clock::now() + restWithoutMemory).time_since_epoch().count(), std::memory_order_release);
    else if (!mustComeAgain(errno))
      brokenBy.store(errno, std::memory_order_release);
    return;
  }
}

/// Removes from the queue what the kernel took.
void SendQueue::takeSent(uint64_t numBytes) {
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

uint64_t SendQueue::numUnconfirmed() const {
  int unconfirmed = 0;
  uint64_t numWithKernel =
      ioctl(stream.socket.descriptor(), SIOCOUTQ, &unconfirmed) == 0 ? static_cast<uint64_t>(unconfirmed) : 0;
  return numWithKernel + queuedBytes.load(std::memory_order_relaxed);
}

void SendQueue::sayGoodbye() {
  {
    std::scoped_lock lock(sending);
    // Without a flush the source of a put may be gone: the peer sees the end of the connection alone.
    if (std::ranges::any_of(queue, [](const Outgoing &one) { return one.message.isPut(); }))
      return end();
  }
  push(Message(), nullptr);
  finish();
}

void SendQueue::finish() {
  send();
  std::scoped_lock lock(sending);
  if (queue.empty())
    end();
}

/// Requires `sending`.
void SendQueue::end() {
  queue.clear();
  numWaiting.store(0, std::memory_order_release);
  queuedBytes.store(0, std::memory_order_relaxed);
  shutdown(stream.socket.descriptor(), SHUT_WR);
}

} // namespace kolo::runtime::tcp
