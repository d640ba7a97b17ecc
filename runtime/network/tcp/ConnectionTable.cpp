#include "network/tcp/ConnectionTable.h"

namespace kolo::runtime::tcp {

void ConnectionTable::begin() {
  places = std::make_unique<std::atomic<Connection *>[]>(static_cast<size_t>(numRanks) * numPerPeer());
}

/// In the list, those for data come before the one for mail: what a peer said is read before its end is noticed.
void ConnectionTable::make(int peer) {
  std::scoped_lock lock(making);
  if (at(peer, 0))
    return;
  Hello place;
  place.rank = static_cast<uint32_t>(peer);
  place.numConnections = numPerPeer();
  place.hasMail = hasMail();
  for (uint16_t number = numPerPeer(); number-- > 0;) {
    place.connection = number;
    newestOne.store(&connections.emplace_back(place, &handler, newest()), std::memory_order_release);
    places[indexOf(peer, number)].store(newest(), std::memory_order_release);
  }
}

Connection &ConnectionTable::attach(const Hello &hello, Socket socket) {
  Connection &one = *at(static_cast<int>(hello.rank), hello.connection);
  one.attach(std::move(socket));
  attached.fetch_add(1, std::memory_order_relaxed);
  return one;
}

bool ConnectionTable::closeMissing(int peer) {
  bool isThere = false;
  for (size_t number = 0; number < numPerPeer(); ++number)
    isThere |= at(peer, number) && at(peer, number)->wasAttached();
  for (size_t number = 0; isThere && number < numPerPeer(); ++number)
    if (!at(peer, number)->wasAttached())
      at(peer, number)->closeUnattached();
  return isThere;
}

bool ConnectionTable::isWhole(int peer) const {
  return areAll(peer, [](const Connection &one) { return one.wasAttached(); });
}

bool ConnectionTable::hasLeft(int peer) const {
  return areAll(peer, [](const Connection &one) { return one.hasPeerLeft(); });
}

bool ConnectionTable::isLeaving(int peer) const {
  for (size_t number = 0; number < numPerPeer(); ++number)
    if (const Connection *one = at(peer, number); one && one->hasPeerLeft())
      return true;
  return false;
}

} // namespace kolo::runtime::tcp
