#include "network/tcp/Connector.h"

#include "base/Error.h"
#include "network/Acceptor.h"
#include "network/tcp/Greeting.h"
#include "network/tcp/SocketAddress.h"

#include <sys/socket.h>

#include <algorithm>

namespace kolo::runtime::tcp {

/// PeerLost: nobody listens there any more. All else may pass. What this rank lacks is no fault of the peer.
Status Connector::connectError(uint32_t peer, int errnoValue) const {
  return rankError(errnoValue == ECONNREFUSED ? StatusCode::PeerLost : StatusCode::SystemError,
                   static_cast<int>(isOwnLack(errnoValue) ? places.own().rank : peer), "connecting to rank {}: {}",
                   peer, strerrordesc_np(errnoValue));
}

/// Mismatch.
Status Connector::isNot(const OutgoingConnection &one, std::string_view why) const {
  const uint32_t peer = places.peerAt(one.place);
  return rankError(StatusCode::Mismatch, static_cast<int>(peer),
                   "the process that answers for rank {} is not that rank: {}", peer, why);
}

Status Connector::openOne(size_t place) {
  const uint32_t peer = places.peerAt(place);
  Result<HostAddress> address = parseEndpoint(endpoints->endpointOf(static_cast<int>(peer)));
  if (!address.isOk())
    return rankError(StatusCode::InvalidArgument, static_cast<int>(peer), "rank {} gave {}", peer,
                     address.status().message());
  SocketAddress target = toSocketAddress(*address);
  OutgoingConnection one;
  one.place = place;
  one.socket = Socket(socket(target.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!one.socket.isOpen())
    return connectError(peer, errno);
  places.prepareFor(place, one.socket);
  if (::connect(one.socket.descriptor(), target.get(), target.sizeBytes) != 0 && errno != EINPROGRESS)
    return connectError(peer, errno);
  one.nonce = makeNonce(key);
  one.until = Clock::now() + maxAge;
  opened.push_back(std::move(one));
  return {};
}

void Connector::open(std::vector<bool> areUnderWay, size_t from) {
  if (from >= toOpen.size() || Clock::now() < openAgain)
    return;
  for (const OutgoingConnection &one : opened)
    areUnderWay[one.place] = true;
  for (; from < toOpen.size(); ++from)
    if (size_t place = toOpen[from]; places.at(place) == Standing::Wanted && !areUnderWay[place])
      if (Status status = openOne(place); !status.isOk())
        note(status, places.peerAt(place));
}

void Connector::openMissing(std::vector<bool> areUnderWay) {
  std::erase_if(toOpen, [&](size_t place) { return places.at(place) != Standing::Wanted; });
  open(std::move(areUnderWay));
}

bool Connector::hasOpened(size_t place) const {
  return std::ranges::find(opened, place, &OutgoingConnection::place) != opened.end();
}

/// What may pass is tried again. Otherwise nobody connects to this rank any more.
void Connector::note(const Status &failure, uint32_t peer) {
  if (failure.code() != StatusCode::SystemError)
    return places.fail(failure);
  troubles.insert_or_assign(peer, failure);
  openAgain = Clock::now() + restAfterTrouble;
}

void Connector::noteMet(uint32_t peer) {
  troubles.erase(peer);
  noteLife(peer);
}

Status Connector::troubleWith(uint32_t peer) const {
  auto found = troubles.find(peer);
  return found == troubles.end() ? Status() : found->second;
}

Status Connector::finishConnecting(OutgoingConnection &one) const {
  int code = 0;
  socklen_t bytes = sizeof(code);
  getsockopt(one.socket.descriptor(), SOL_SOCKET, SO_ERROR, &code, &bytes);
  one.until = Clock::now() + maxAge;
  if (code == 0 && !one.send(writeGreeting(key, places.helloTo(one.place), one.nonce)))
    code = errno;
  one.isConnecting = code == EAGAIN; // waitForAny may say that it is ready, and it is not
  bool mayBeHeard = code == 0 || code == EAGAIN || code == ECONNRESET || code == EPIPE; // `hear` finds how it ended
  return mayBeHeard ? Status() : connectError(places.peerAt(one.place), code);
}

/// Judges the answer, and proves this rank's side.
Status Connector::believe(const OutgoingConnection &one) const {
  if (!isGreetingRight(one.received, key, one.nonce))
    return isNot(one, "it does not know the secret");
  Result<Hello> hello = parseHello(helloOf(one.received));
  if (!hello.isOk() || *hello != places.helloFrom(one.place))
    return isNot(one, hello.isOk() ? "another rank or world" : hello.status().message());
  SecretProof proof = proveLast(key, write(places.helloTo(one.place)), one.nonce, nonceOf(one.received));
  return one.send(proof) ? Status() : connectError(places.peerAt(one.place), errno);
}

/// PeerLost: too many connections to that rank ended without an answer, although this rank was not late.
Status Connector::noteUnanswered(const OutgoingConnection &one) {
  const uint32_t peer = places.peerAt(one.place);
  openAgain = Clock::now() + restAfterCrossing;
  if (!one.received.empty() || Clock::now() >= one.until || ++unanswered[peer] < maxUnanswered)
    return {};
  return rankError(StatusCode::PeerLost, static_cast<int>(peer),
                   "rank {} has ended, or another process has its port: {} connections to it ended without an answer",
                   peer, maxUnanswered);
}

Result<bool> Connector::hear(OutgoingConnection &one) {
  if (places.at(one.place) != Standing::Wanted)
    return true;
  if (one.isConnecting) {
    Status status = finishConnecting(one);
    return status.isOk() ? Result(false) : Result<bool>(status);
  }
  const PendingConnection::Receipt receipt = one.receive(greetingBytes);
  if (Status beginning = checkBeginning(one.received); !beginning.isOk())
    return isNot(one, beginning.message());
  if (receipt == PendingConnection::Receipt::Ended) { // or the peer has ended: then the next attempt tells
    Status status = noteUnanswered(one);
    return status.isOk() ? Result(true) : Result<bool>(status);
  }
  if (receipt == PendingConnection::Receipt::Partial)
    return false;
  if (Clock::now() >= one.until)
    return true; // the peer may have given up by now
  if (Status status = believe(one); !status.isOk())
    return status;
  noteMet(places.peerAt(one.place));
  places.meet(one.place, std::move(one.socket));
  return true;
}

void Connector::addTo(std::vector<pollfd> &entries, Clock::time_point &until) const {
  if (!toOpen.empty())
    until = std::min(until, std::max(openAgain, Clock::now() + restAfterCrossing));
  for (const OutgoingConnection &one : opened)
    entries.push_back({one.socket.descriptor(), static_cast<short>(one.isConnecting ? POLLOUT : POLLIN), 0});
}

void Connector::hear(std::span<const pollfd> entries, Clock::time_point looked) {
  for (size_t index = opened.size(); index-- > 0;) { // backwards, because of the erasure
    OutgoingConnection &one = opened[index];
    const bool isQuiet = entries[index].revents == 0;
    Result<bool> isOver = isQuiet ? Result(false) : hear(one);
    if (!isOver.isOk()) {
      note(isOver.status(), places.peerAt(one.place));
      isOver = true;
    }
    if (!*isOver && (isQuiet || one.received.empty()))
      one.until = looked + maxAge;
    if (*isOver)
      opened.erase(opened.begin() + static_cast<std::ptrdiff_t>(index));
  }
}

} // namespace kolo::runtime::tcp
