// Acceptor: accepts connections, and keeps each until its handshake is over. The rendezvous and the data connections
// use it.
#pragma once

#include "network/Handshake.h"

namespace kolo::runtime {

/// What this process lacks, so that a later attempt may succeed: descriptors, memory, ports.
bool isOwnLack(int errnoValue);

struct AcceptorOptions {
  size_t firstBytes = 0, lastBytes = 0; // of the messages of an opener
  bool boundsAnswered = false;          // connections that were answered count among the pending ones, too
  /// So long a connection may be pending.
  std::chrono::milliseconds maxSilence{5000};
};

/// A stranger costs a descriptor and less than 400 bytes. It is dropped when it says something that no rank says, after
/// maxSilence, or when too many others have not proved anything either: the one that was silent for longest goes first.
class Acceptor {
public:
  /// So long the listener rests when no descriptor is left.
  static constexpr std::chrono::milliseconds restWithoutDescriptors{100};

  /// `itsHandshake` must outlive this object.
  Acceptor(Socket listening, Handshake &itsHandshake, const AcceptorOptions &given)
      : listener(std::move(listening)), handshake(itsHandshake), options(given) {}

  /// Adds what `hear` waits for, in its order. `until` becomes the time at which `hear` has to do something, if that is
  /// earlier.
  void addTo(std::vector<pollfd> &entries, Clock::time_point &until) const;
  /// Hears those of the entries that are ready, drops who was silent for too long, and accepts. `looked`: before the
  /// entries were looked at; what is not found came later.
  void hear(std::span<const pollfd> entries, Clock::time_point looked);
  /// All of that: waits until something arrives, at most until then.
  void work(Clock::time_point until);
  /// Whether it rests, or must drop somebody.
  bool isDue() const;

  /// In the order in which they came.
  const std::vector<IncomingConnection> &all() const { return pending; }
  size_t numStrangers() const { return strangers; }
  /// What the last stranger was.
  const std::string &lastStranger() const { return last; }
  /// What this process lacks to accept connections, since the last one was not accepted; else null.
  const char *whatIsLacking() const { return lack; }
  /// Who comes from now on is refused, also where a forked child holds the listener, too.
  void close();

private:
  Admission hear(IncomingConnection &connection);
  bool isOver(const Admission &admission);
  void accept();
  bool counts(const IncomingConnection &connection) const { return options.boundsAnswered || !connection.wasAnswered; }
  bool dropOldest();
  void makeRoomFor(const IncomingConnection &next);

  Socket listener;
  Handshake &handshake;
  const AcceptorOptions options;
  Clock::time_point acceptAgain = Clock::time_point::min();
  std::vector<IncomingConnection> pending;
  size_t strangers = 0;
  std::string last;
  const char *lack = nullptr;
};

} // namespace kolo::runtime
