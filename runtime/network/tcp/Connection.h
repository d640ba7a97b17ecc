// Connection: one TCP connection to a peer, with what waits to be sent and what has arrived.
#pragma once

#include "network/Registrations.h"
#include "network/Socket.h"
#include "network/tcp/Wire.h"

#include <sys/uio.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace kolo::runtime::tcp {

/// All functions may be called by several threads at once, and none of them blocks on the network.
class Connection {
public:
  /// Without a socket: it keeps what is to be sent. `place`: what the peer's Hello will say. `mailHandler` may be null
  /// where no mail comes; not owned. `olderConnection`: the list of all connections; may be null.
  Connection(const Hello &place, const MailHandler *mailHandler, Connection *olderConnection = nullptr)
      : peer(static_cast<int>(place.rank)),
        numConnections(static_cast<uint16_t>(place.numConnections - (place.hasMail ? 1 : 0))), number(place.connection),
        handler(mailHandler), older(olderConnection) {}

  /// Called once.
  void attach(Socket connected);
  bool wasAttached() const { return isAttached.load(std::memory_order_acquire); }
  /// Instead of `attach`: the peer has left, and sends nothing here.
  void closeUnattached() { saidGoodbye.store(true, std::memory_order_release); }
  /// Of a connection for mail: whether the peer may take nothing for longer than `mailTimeoutMs`.
  void setPatience(bool isPatient, int timeoutMs);
  /// Requires isOpen().
  int descriptor() const { return socket.descriptor(); }
  int peerRank() const { return peer; }
  /// Whether it carries mail, and nothing else.
  bool isForMail() const { return number == numConnections; }
  Connection *olderOne() const { return older; }
  /// From `attach` until it ends.
  bool isOpen() const { return isConnected.load(std::memory_order_acquire); }
  bool hasPeerLeft() const { return saidGoodbye.load(std::memory_order_acquire); }

  /// Queues a message. A signal joins the lane's last put, if no byte of that is sent yet. `src`: the data of a put.
  void enqueue(const Message &message, const std::byte *src);
  /// Queues a mail, of which it keeps a copy.
  void enqueueMail(std::span<const std::byte> mail);
  uint64_t numQueued() const;
  bool hasQueuedBytes(uint64_t least) const { return queuedBytes.load(std::memory_order_relaxed) >= least; }
  bool hasToSend() const { return numWaiting.load(std::memory_order_acquire) != 0; }
  /// Whether the kernel had no memory to send just now.
  bool rests() const { return Clock::now().time_since_epoch().count() < sendAgain.load(std::memory_order_acquire); }
  static constexpr std::chrono::milliseconds restWithoutMemory{5};
  /// Whether the first `count` messages that were queued are with the kernel.
  bool hasSent(uint64_t count) const { return numSent.load(std::memory_order_acquire) >= count; }
  /// Bytes that the kernel took so far.
  uint64_t numBytesSent() const { return sentBytes.load(std::memory_order_relaxed); }

  /// Sends what the kernel takes. Ok also if the connection broke: what the peer sent before comes first, and `receive`
  /// then fails.
  Status send();
  /// Whether the kernel sends nothing more to the peer.
  bool isBroken() const { return brokenBy.load(std::memory_order_acquire) != 0; }
  /// What isBroken() means. PeerLost.
  Status whyBroken() const;

  /// Whether an early put must wait for the next registration.
  bool isBlocked(const Registrations &registrations) const {
    return blockedAt.load(std::memory_order_acquire) == registrations.generation();
  }
  /// Whether an early message waits no longer. It may be in the memory of this connection already, so that nothing more
  /// arrives.
  bool mustResume(const Registrations &registrations) const {
    uint64_t at = blockedAt.load(std::memory_order_acquire);
    return at != notBlocked && at != registrations.generation();
  }
  /// Receives what has arrived, at most 4 MiB. `hasRaised`: a cell has a new count. PeerLost, Mismatch.
  Status receive(Registrations &registrations, bool &hasRaised);
  /// When it returns, no put to this agreement is being received. True: one had begun, and the connection must end.
  bool isReceiving(uint64_t agreement);

  /// Ends the connection, in both directions.
  void end();
  /// Tells the peer that nothing more follows. What the kernel does not take now follows in `drain`.
  void sayGoodbye();
  enum class Drain : uint8_t { Goes, Done, Broken };
  /// After the goodbye: sends what the kernel takes, and throws away what still arrives. Done once the peer's kernel
  /// has everything, or the peer has ended the connection. If it were closed earlier, the kernel would throw away what
  /// is on its way to the peer. Broken: the peer cannot be reached.
  Drain drain();
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
  enum class Step : uint8_t { Done, Blocked };

  void takeSent(uint64_t numBytes);
  void endSending();
  Result<size_t> receiveSome(std::byte *memory, uint64_t mostBytes);
  Status receiveData(uint64_t &budget);
  Status receiveMessages(uint64_t &budget);
  Result<Step> begin(Registrations &registrations, const Message &message);
  Result<Step> finish(Registrations &registrations, bool &hasRaised);

  Socket socket;
  const int peer;
  const uint16_t numConnections; // for lanes
  const uint16_t number;
  const MailHandler *const handler;
  Connection *const older;
  std::atomic<bool> isAttached = false, isConnected = false, saidGoodbye = false;
  std::atomic<bool> patience = false;
  std::atomic<int> brokenBy = 0; // an errno
  std::atomic<Clock::rep> sendAgain = 0;

  mutable std::mutex sending;
  std::deque<Outgoing> queue;
  std::atomic<uint64_t> numWaiting = 0, numSent = 0, sentBytes = 0, queuedBytes = 0;

  // All below: of the thread that holds `receiving`.
  std::mutex receiving;
  static constexpr uint64_t notBlocked = UINT64_MAX;
  std::atomic<uint64_t> blockedAt = notBlocked; // the generation at which an early message came
  std::array<std::byte, 4096> buffer = {};
  size_t first = 0, last = 0; // of the bytes in `buffer` that are not used yet
  bool hasMessage = false;    // `current` is checked, and its data is being received
  Message current;
  std::vector<std::byte> mail;
  std::byte *destination = nullptr;
  uint64_t dataLeft = 0;
  bool mayHaveMore = false;
};

} // namespace kolo::runtime::tcp
