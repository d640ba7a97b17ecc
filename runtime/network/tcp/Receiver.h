// Receiver: what arrives on one connection: checks each message, and stores its data where it belongs.
#pragma once

#include "network/Registrations.h"
#include "network/tcp/SendQueue.h"

#include <functional>
#include <mutex>
#include <span>
#include <vector>

namespace kolo::runtime::tcp {

/// All functions may be called by several threads at once, and none of them blocks on the network.
class Receiver {
public:
  /// `mailHandler` may be null where no mail comes.
  Receiver(Stream &ofConnection, const SendQueue &itsQueue, const MailHandler *mailHandler)
      : stream(ofConnection), sent(itsQueue), handler(mailHandler) {}

  /// Held while the socket is set.
  std::mutex &lock() { return receiving; }

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

private:
  enum class Step : uint8_t { Done, Blocked };

  Result<size_t> receiveSome(std::byte *memory, uint64_t mostBytes);
  Status receiveData(uint64_t &budget);
  Status receiveMessages(uint64_t &budget);
  Result<Step> begin(Registrations &registrations, const Message &message);
  Result<Step> finish(Registrations &registrations, bool &hasRaised);

  Stream &stream;
  const SendQueue &sent;
  const MailHandler *const handler;

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
