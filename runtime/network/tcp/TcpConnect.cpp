// How a TcpTransport is connected with its peers: at the start, and later.
#include "network/tcp/TcpTransport.h"

#include "base/Error.h"

#include <utility>

namespace kolo::runtime::tcp {

Status TcpTransport::connect(std::span<const Endpoint> endpoints) {
  return connect(endpoints, std::vector<bool>(endpoints.size(), true));
}

Status TcpTransport::connect(std::span<const Endpoint> endpoints, const std::vector<bool> &now) {
  if (endpoints.size() != static_cast<size_t>(options.numRanks) || places)
    return error(StatusCode::InvalidArgument, "{} endpoints for {} ranks, or connected already", endpoints.size(),
                 options.numRanks);
  Hello own;
  own.numConnections = numConnections();
  own.hasMail = options.receiveMail != nullptr;
  own.rank = static_cast<uint32_t>(options.rank);
  own.numRanks = static_cast<uint32_t>(options.numRanks);
  own.world = options.world;
  bool mayComeLater = false;
  for (size_t rank = 0; rank < endpoints.size(); ++rank)
    mayComeLater |= !now[rank] && endpoints[rank] != Endpoint() && static_cast<int>(rank) != options.rank;
  const int longestMs = options.connectMs ? options.connectMs : options.timeoutMs;
  auto made = std::make_unique<ConnectionSetup>(
      SetupOptions{own, key, longestMs, mayComeLater, options.mustStop, options.progress}, std::move(listener),
      endpoints);
  key.reset();
  std::vector<Established> met;
  Status status = made->meetAll(now, met);
  places = std::make_unique<std::atomic<Connection *>[]>(endpoints.size() * numConnections());
  for (Established &one : met)
    attach(std::move(one));
  hasStarted = status.isOk();
  if (hasStarted && mayComeLater)
    setup = std::move(made);
  return status;
}

/// Makes the connections with a peer, which have no sockets yet. In the list, those for data come before the one for
/// mail: what a peer said is read before its end is noticed.
void TcpTransport::makePlaces(int peer) {
  std::scoped_lock lock(making);
  size_t first = indexOf({peer, 0});
  if (at(first))
    return;
  Hello place;
  place.rank = static_cast<uint32_t>(peer);
  place.numConnections = numConnections();
  place.hasMail = options.receiveMail != nullptr;
  for (uint16_t number = numConnections(); number-- > 0;) {
    place.connection = number;
    newest.store(&connections.emplace_back(place, &options.receiveMail, newestOne()), std::memory_order_release);
    places[first + number].store(newestOne(), std::memory_order_release);
  }
}

void TcpTransport::attach(Established greeted) {
  auto peer = static_cast<int>(greeted.hello.rank);
  makePlaces(peer);
  if (hasFailedWith(peer))
    return;
  Connection &one = *at(indexOf({peer, 0}) + greeted.hello.connection);
  one.attach(std::move(greeted.socket));
  numAttached.fetch_add(1, std::memory_order_relaxed);
  if (hasFailedWith(peer)) // meanwhile
    one.end();
  (void)one.send(); // what was said before
  wakeOthers();     // sleepers do not look at this connection yet
}

/// Lets peers connect, and connects to those that were asked for.
void TcpTransport::greet() {
  std::unique_lock lock(greeting, std::try_to_lock);
  if (!lock)
    return;
  std::vector<Established> met;
  std::vector<Status> failures;
  setup->progress(met, failures);
  for (Established &one : met)
    attach(std::move(one));
  for (const Status &failed : failures)
    if (failed.code() != StatusCode::PeerLost || !closeMissing(failed.rank()))
      (void)fail(failed);
}

/// Where some connections with a peer are there, they tell how it ended, and what it said before. False: none is there.
bool TcpTransport::closeMissing(int peer) {
  bool isThere = false;
  const size_t first = indexOf({peer, 0});
  for (size_t i = first; i < first + numConnections(); ++i)
    isThere |= at(i) && at(i)->wasAttached();
  for (size_t i = first; isThere && i < first + numConnections(); ++i)
    if (!at(i)->wasAttached())
      at(i)->closeUnattached();
  return isThere;
}

bool TcpTransport::isWhole(int peer) const {
  const size_t first = indexOf({peer, 0});
  for (size_t i = first; i < first + numConnections(); ++i)
    if (const Connection *one = at(i); !one || !one->wasAttached())
      return false;
  return true;
}

void TcpTransport::ask(int peer) {
  if (!setup || !setup->mayMeet(peer))
    return;
  makePlaces(peer);
  setup->want(peer);
}

void TcpTransport::setPatience(int peer, bool isPatient) {
  if (Connection *one = forMail(peer))
    one->setPatience(isPatient, options.timeoutMs);
}

bool TcpTransport::hasSentMails(int peer) const {
  const Connection *one = forMail(peer);
  return !one || !one->hasToSend();
}

} // namespace kolo::runtime::tcp
