// Greeter: what becomes of one connection, from its first byte to its last proof.
#include "network/tcp/Greeter.h"

#include "base/Error.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

namespace kolo::runtime::tcp {
namespace {

void set(const Socket &socket, int level, int option, int value) {
  setsockopt(socket.descriptor(), level, option, &value, sizeof(value));
}

/// An idle connection then ends about so long after the peer's host was cut off.
void keepAlive(const Socket &socket, int timeoutMs) {
  constexpr int mostProbes = 127; // of the kernel
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, std::clamp(timeoutMs / 1000, 1, mostProbes));
}

/// The few bytes of a greeting always fit into the buffer of a new connection.
bool sendAll(const Socket &socket, std::span<const std::byte> bytes) {
  return send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

/// The parts of a greeting.
std::span<const std::byte, helloBytes> helloOf(std::span<const std::byte> greeting) {
  return greeting.subspan<0, helloBytes>();
}
std::span<const std::byte> nonceOf(std::span<const std::byte> greeting) {
  return greeting.subspan(helloBytes, sizeof(Nonce));
}
SecretProof proofAt(std::span<const std::byte> bytes, size_t offset) {
  SecretProof proof = {};
  std::ranges::copy(bytes.subspan(offset, proof.size()), proof.begin());
  return proof;
}

} // namespace

bool Greeter::mayGreet(const Hello &hello) const {
  auto isSame = [&](const Guest &guest) { return guest.hasToConfirm() && guest.hello == hello; };
  return static_cast<size_t>(std::ranges::count_if(guests, &Guest::hasToConfirm)) < numMissing + maxRepeated ||
         std::ranges::none_of(guests, isSame);
}

bool Greeter::hasOpened(const Hello &hello) const {
  return std::ranges::any_of(
      guests, [&](const Guest &guest) { return guest.isOpenedHere && placeOf(guest.hello) == placeOf(hello); });
}

Status Greeter::finishConnecting(Guest &guest) {
  int code = 0;
  socklen_t bytes = sizeof(code);
  getsockopt(guest.socket.descriptor(), SOL_SOCKET, SO_ERROR, &code, &bytes);
  guest.until = Clock::now() + maxSilence / 2;
  if (code == 0 && !sendGreeting(guest, {}))
    code = errno;
  guest.isConnecting = code == EAGAIN; // waitForAny may say that it is ready, and it is not
  bool mayBeHeard = code == 0 || code == EAGAIN || code == ECONNRESET || code == EPIPE; // `receive` finds how it ended
  return mayBeHeard ? Status() : connectError(guest.hello.rank, code);
}

/// `theirNonce`: of the opener's greeting, which this one answers; empty: this one opens.
bool Greeter::sendGreeting(const Guest &guest, std::span<const std::byte> theirNonce) const {
  GreetingBytes bytes = {};
  HelloBytes hello = write(helloTo(guest.hello.rank, guest.hello.connection));
  SecretProof proof = prove(key, guest.isOpenedHere ? openingLabel : answerLabel, {hello, guest.nonce, theirNonce});
  std::ranges::copy(hello, bytes.begin());
  std::ranges::copy(guest.nonce, bytes.begin() + helloBytes);
  std::ranges::copy(proof, bytes.begin() + helloBytes + sizeof(Nonce));
  return sendAll(guest.socket, bytes);
}

/// `reason`: what the connection was, for the message about missing ranks.
Greeter::Fate Greeter::turnAway(std::string reason) {
  lastStranger = std::move(reason);
  return Fate::Stranger;
}

/// Judges the Hello of a connection that another process opened, and answers it.
Greeter::Fate Greeter::answer(Guest &guest) {
  auto bytes = helloOf(guest.bytes);
  if (key &&
      !isRight(proofAt(guest.bytes, helloBytes + sizeof(Nonce)), key, openingLabel, {bytes, nonceOf(guest.bytes)}))
    return turnAway("a connection that does not know the secret");
  Result<Hello> hello = parseHello(bytes);
  if (!hello.isOk())
    return turnAway(hello.status().message());
  if (hello->world != self.world)
    return turnAway("a rank of another world");
  if (hello->numRanks != self.numRanks || hello->numConnections != self.numConnections ||
      hello->hasMail != self.hasMail || hello->peer != self.rank || !mayMeet(static_cast<int>(hello->rank)) ||
      (!mayComeLater && hello->rank < self.rank))
    return turnAway(fmt::format("a hello from rank {} to rank {} of {}, with {} connections", hello->rank, hello->peer,
                                hello->numRanks, hello->numConnections));
  Standing place = places[placeOf(*hello)];
  if (place == Standing::Met || place == Standing::Failed)
    return turnAway(fmt::format("a second connection {} of rank {}", hello->connection, hello->rank));
  if (hello->rank < self.rank && hasOpened(*hello))
    return Fate::Crossing;
  const Clock::time_point now = Clock::now(), since = greetedSince(*hello);
  if (hello->rank < self.rank && place == Standing::Wanted && now >= since + maxSilence)
    return Fate::Waits;
  if (!mayGreet(*hello))
    return turnAway(fmt::format("one of many connections that greeted as rank {}", hello->rank));
  unanswered.erase(hello->rank); // it lives
  guest.hello = *hello;
  guest.hasGreeted = true;
  guest.since = since;
  guest.until = now + maxSilence;
  keepAlive(guest.socket, 3000); // as long as it lives, this rank does not open the connection itself
  guest.nonce = makeNonce(key);
  if (!sendGreeting(guest, nonceOf(guest.bytes)))
    return turnAway(fmt::format("a connection of rank {} that took no answer", hello->rank));
  return Fate::Waits;
}

/// Judges the last proof of a connection that another process opened. Who repeats a greeting that he has seen cannot
/// prove this rank's new nonce.
Greeter::Fate Greeter::confirm(Guest &guest) {
  if (!isRight(proofAt(guest.bytes, greetingBytes), key, confirmLabel,
               {helloOf(guest.bytes), nonceOf(guest.bytes), guest.nonce}))
    return turnAway(fmt::format("a connection that greeted as rank {} and sent {}", guest.hello.rank,
                                key ? "a wrong last proof" : "something else than a rank sends then"));
  if (places[placeOf(guest.hello)] == Standing::Met || places[placeOf(guest.hello)] == Standing::Failed)
    return turnAway(fmt::format("a second connection {} of rank {}", guest.hello.connection, guest.hello.rank));
  take(guest);
  return Fate::Met;
}

/// Mismatch of a connection that was opened here.
Status Greeter::isNot(const Guest &guest, std::string_view why) {
  return rankError(StatusCode::Mismatch, static_cast<int>(guest.hello.rank),
                   "the process that answers for rank {} is not that rank: {}", guest.hello.rank, why);
}

/// Judges the answer to a connection that was opened here, and proves this rank's side.
Status Greeter::believe(Guest &guest) const {
  auto bytes = helloOf(guest.bytes);
  if (key && !isRight(proofAt(guest.bytes, helloBytes + sizeof(Nonce)), key, answerLabel,
                      {bytes, nonceOf(guest.bytes), guest.nonce}))
    return isNot(guest, "it does not know the secret");
  Result<Hello> hello = parseHello(bytes);
  if (!hello.isOk() || *hello != guest.hello)
    return isNot(guest, hello.isOk() ? "another rank or world" : hello.status().message());
  HelloBytes own = write(helloTo(guest.hello.rank, guest.hello.connection));
  SecretProof proof = prove(key, confirmLabel, {own, guest.nonce, nonceOf(guest.bytes)});
  return sendAll(guest.socket, proof) ? Status() : connectError(guest.hello.rank, errno);
}

void Greeter::take(Guest &guest) {
  Standing &place = places[placeOf(guest.hello)];
  numMissing -= place == Standing::Wanted;
  place = Standing::Met;
  troubles.erase(guest.hello.rank);
  unanswered.erase(guest.hello.rank);
  prepare(guest.socket, guest.hello.connection);
  greeted.push_back({guest.hello, std::move(guest.socket)});
}

/// Sets what a connection needs. A connection for mail also notices that the peer's host is cut off, after
/// mailTimeoutMs. One for data does not: TCP would end it too where a living peer does not read for so long.
void Greeter::prepare(const Socket &socket, uint16_t number) const {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 0);
  if (!self.hasMail || number + 1 != self.numConnections)
    return;
  keepAlive(socket, mailTimeoutMs(timeoutMs));
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, mailTimeoutMs(timeoutMs));
  set(socket, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1); // what few packets carry is not sent ever more rarely
}

/// PeerLost: too many connections to that rank ended without an answer, although this rank was not late.
Status Greeter::noteUnanswered(const Guest &guest) {
  uint32_t peer = guest.hello.rank;
  if (guest.received != 0 || Clock::now() >= guest.until || ++unanswered[peer] < maxUnanswered)
    return {};
  return rankError(StatusCode::PeerLost, static_cast<int>(peer),
                   "rank {} has ended, or another process has its port: {} connections to it ended without an answer",
                   peer, maxUnanswered);
}

/// Receives what is wanted of a guest now. `fate`: Met if all of it is here.
Status Greeter::receive(Guest &guest, Fate &fate) {
  size_t wanted = guest.numWanted();
  fate = Fate::Waits;
  while (guest.received < wanted) {
    ssize_t got = recv(guest.socket.descriptor(), &guest.bytes[guest.received], wanted - guest.received, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      return {};
    if (got <= 0 && guest.isOpenedHere) {
      fate = Fate::Crossing; // or this rank was silent for long, or the peer has ended: then the next attempt tells
      openAgain = Clock::now() + restAfterCrossing;
      return noteUnanswered(guest);
    }
    if (got <= 0) {
      fate = turnAway(fmt::format("a connection that ended after {} bytes", guest.received));
      return {};
    }
    guest.received += static_cast<size_t>(got);
    Status beginning = checkBeginning(std::span(guest.bytes).first(guest.received)); // others may say less, and wait
    if (!beginning.isOk() && guest.isOpenedHere)
      return isNot(guest, beginning.message());
    if (!beginning.isOk()) {
      fate = turnAway(beginning.message());
      return {};
    }
  }
  fate = Fate::Met;
  return {};
}

/// Receives what a guest has sent, and judges it.
Result<Greeter::Fate> Greeter::hear(Guest &guest) {
  if (guest.isOpenedHere && places[placeOf(guest.hello)] != Standing::Wanted)
    return Fate::Crossing;
  if (guest.isConnecting) {
    Status status = finishConnecting(guest);
    return status.isOk() ? Result(Fate::Waits) : Result<Fate>(status);
  }
  while (true) {
    Fate fate = Fate::Waits;
    if (Status status = receive(guest, fate); !status.isOk())
      return status;
    if (fate != Fate::Met)
      return fate;
    if (guest.isOpenedHere && Clock::now() >= guest.until)
      return Fate::Crossing; // the peer may have given up by now
    if (!guest.isOpenedHere && guest.hasGreeted)
      return confirm(guest);
    if (!guest.isOpenedHere) {
      if (Fate answered = answer(guest); answered != Fate::Waits || !guest.hasGreeted)
        return answered;
      continue; // its last proof may be here already
    }
    if (Status status = believe(guest); !status.isOk())
      return status;
    take(guest);
    return Fate::Met;
  }
}

} // namespace kolo::runtime::tcp
