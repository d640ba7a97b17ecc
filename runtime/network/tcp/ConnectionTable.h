// ConnectionTable: all connections of one rank, by peer and number.
#pragma once

#include "network/Transport.h"
#include "network/tcp/Connection.h"

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>

namespace kolo::runtime::tcp {

/// Lane n of a path uses connection n % connectionsPerPeer. All functions may be called by several threads at once.
class ConnectionTable {
public:
  /// `mailHandler`: not null where every two ranks have one more connection, for mail. Must outlive this object.
  ConnectionTable(int ranks, uint16_t connectionsPerPeer, const MailHandler &mailHandler)
      : numRanks(ranks), numForData(connectionsPerPeer), handler(mailHandler) {}

  /// Between each two ranks, with the one for mail.
  uint16_t numPerPeer() const { return static_cast<uint16_t>(numForData + (hasMail() ? 1 : 0)); }
  bool hasMail() const { return handler != nullptr; }
  /// From now on there may be connections.
  void begin();
  bool hasBegun() const { return places != nullptr; }

  /// Null: nobody has asked for it. Connections live as long as this object.
  Connection *find(Path path) const { return at(path.peer, path.lane % numForData); }
  Connection *forMail(int peer) const { return hasMail() ? at(peer, numForData) : nullptr; }
  /// The list of all: see Connection::olderOne.
  Connection *newest() const { return newestOne.load(std::memory_order_acquire); }

  /// Makes the connections with a peer, which have no sockets yet.
  void make(int peer);
  Connection &attach(const Hello &hello, Socket socket);
  /// Connections that there are or were.
  size_t numAttached() const { return attached.load(std::memory_order_relaxed); }
  /// Where some connections with a peer are there, they tell how it ended, and what it said before: the others end.
  /// False: none is there.
  bool closeMissing(int peer);
  /// Whether all connections with the peer are there, or were.
  bool isWhole(int peer) const;
  /// Whether the peer has said goodbye on all of them; on some.
  bool hasLeft(int peer) const;
  bool isLeaving(int peer) const;

private:
  size_t indexOf(int peer, size_t number) const { return static_cast<size_t>(peer) * numPerPeer() + number; }
  Connection *at(int peer, size_t number) const {
    return places ? places[indexOf(peer, number)].load(std::memory_order_acquire) : nullptr;
  }
  template <class Condition> bool areAll(int peer, const Condition &isSo) const {
    for (size_t number = 0; number < numPerPeer(); ++number)
      if (const Connection *one = at(peer, number); !one || !isSo(*one))
        return false;
    return true;
  }

  const int numRanks;
  const uint16_t numForData;
  const MailHandler &handler;
  std::unique_ptr<std::atomic<Connection *>[]> places; // by peer and number
  std::atomic<Connection *> newestOne = nullptr;
  std::atomic<size_t> attached = 0;
  std::mutex making; // of the list below
  std::deque<Connection> connections;
};

} // namespace kolo::runtime::tcp
