// SendQueue: what waits to be sent on one connection, and how much was sent.
#pragma once

#include "network/tcp/Stream.h"

#include <sys/uio.h>

#include <deque>
#include <mutex>
#include <span>
#include <vector>

namespace kolo::runtime::tcp {

/// All functions may be called by several threads at once, and none of them blocks on the network.
class SendQueue {
public:
  explicit SendQueue(Stream &ofConnection) : stream(ofConnection) {}

  /// Held while the socket is set.
  std::mutex &lock() { return sending; }

  /// Queues a message. A signal joins the lane's last put, if no byte of that is sent yet. `src`: the data of a put.
  void push(const Message &message, const std::byte *src);
  /// Queues a mail, of which it keeps a copy.
  void pushMail(std::span<const std::byte> mail);
  uint64_t numQueued() const;
  bool hasBytes(uint64_t least) const { return queuedBytes.load(std::memory_order_relaxed) >= least; }
  bool isEmpty() const { return numWaiting.load(std::memory_order_acquire) == 0; }
  /// Whether the kernel had no memory to send just now.
  bool rests() const { return Clock::now().time_since_epoch().count() < sendAgain.load(std::memory_order_acquire); }
  /// Whether the first `count` messages that were queued are with the kernel.
  bool hasSent(uint64_t count) const { return numSent.load(std::memory_order_acquire) >= count; }
  uint64_t numSentSoFar() const { return numSent.load(std::memory_order_acquire); }
  /// All that came before any message was sent comes before what follows.
  void acquire() const { (void)numSent.load(std::memory_order_acquire); }
  /// Bytes that the kernel took so far.
  uint64_t numBytesSent() const { return sentBytes.load(std::memory_order_relaxed); }

  /// Sends what the kernel takes. If the connection breaks, what the peer sent before comes first, and receiving then
  /// fails.
  void send();
  /// Whether the kernel sends nothing more to the peer.
  bool isBroken() const { return brokenBy.load(std::memory_order_acquire) != 0; }
  /// What isBroken() means. PeerLost.
  Status whyBroken() const { return lost(stream.peer, brokenBy.load(std::memory_order_acquire)); }
  /// Tells the peer that nothing more follows. What the kernel does not take now follows in `finish`.
  void sayGoodbye();
  /// After the goodbye: sends what the kernel takes.
  void finish();
  /// Bytes that the peer's kernel has not confirmed, with those that wait here.
  uint64_t numUnconfirmed() const;

private:
  struct Outgoing {
    Message message;
    const std::byte *src = nullptr;
    uint64_t sentBytes = 0; // of the message and the data
    MessageBytes bytes = {};
    std::vector<std::byte> own = {}; // the data of a mail
    uint64_t sizeBytes() const { return messageBytes + message.sizeBytes; }
    size_t addTo(iovec *parts);
  };

  void count();
  void takeSent(uint64_t numBytes);
  void end();

  Stream &stream;
  std::atomic<int> brokenBy = 0; // an errno
  std::atomic<Clock::rep> sendAgain = 0;
  mutable std::mutex sending;
  std::deque<Outgoing> queue;
  std::atomic<uint64_t> numWaiting = 0, numSent = 0, sentBytes = 0, queuedBytes = 0;
};

} // namespace kolo::runtime::tcp
