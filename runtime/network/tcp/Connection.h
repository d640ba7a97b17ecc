// Connection: one TCP connection to a peer, with what waits to be sent and what has arrived.
#pragma once

#include "network/tcp/Receiver.h"
#include "network/tcp/SendQueue.h"

namespace kolo::runtime::tcp {

/// All functions may be called by several threads at once, and none of them blocks on the network.
class Connection {
public:
  /// Without a socket: it keeps what is to be sent. `place`: what the peer's Hello will say. `mailHandler` may be null
  /// where no mail comes; not owned. `olderConnection`: the list of all connections; may be null.
  Connection(const Hello &place, const MailHandler *mailHandler, Connection *olderConnection = nullptr)
      : stream(place), queue(stream), receiver(stream, queue, mailHandler), older(olderConnection) {}

  /// Called once.
  void attach(Socket connected);
  bool wasAttached() const { return stream.isAttached.load(std::memory_order_acquire); }
  /// Instead of `attach`: the peer has left, and sends nothing here.
  void closeUnattached() { stream.saidGoodbye.store(true, std::memory_order_release); }
  /// Of a connection for mail: whether the peer may take nothing for longer than `mailTimeoutMs`.
  void setPatience(bool isPatient, int timeoutMs);
  /// Requires isOpen().
  int descriptor() const { return stream.socket.descriptor(); }
  int peerRank() const { return stream.peer; }
  bool isForMail() const { return stream.isForMail(); }
  Connection *olderOne() const { return older; }
  bool isOpen() const { return stream.isOpen(); }
  bool hasPeerLeft() const { return stream.hasPeerLeft(); }

  SendQueue &toSend() { return queue; }
  const SendQueue &toSend() const { return queue; }
  Receiver &received() { return receiver; }

  /// Receives and sends what is possible now. PeerLost, Mismatch.
  Status work(Registrations &registrations, bool &hasRaised);
  /// Ends the connection, in both directions.
  void end();
  enum class Drain : uint8_t { Goes, Done, Broken };
  /// After the goodbye: sends what the kernel takes, and throws away what still arrives. Done once the peer's kernel
  /// has everything, or the peer has ended the connection. If it were closed earlier, the kernel would throw away what
  /// is on its way to the peer. Broken: the peer cannot be reached.
  Drain drain();

private:
  Stream stream;
  SendQueue queue;
  Receiver receiver;
  Connection *const older;
  std::atomic<bool> patience = false;
};

} // namespace kolo::runtime::tcp
