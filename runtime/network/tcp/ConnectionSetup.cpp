#include "network/tcp/ConnectionSetup.h"

#include "base/Error.h"
#include "network/tcp/Greeting.h"
#include "network/tcp/SocketOptions.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace kolo::runtime::tcp {

Status withTrouble(const std::string &text, const Status &trouble, int self) {
  StatusCode code = trouble.rank() == self ? StatusCode::SystemError : StatusCode::Timeout;
  return rankError(code, trouble.rank(), "{}; {}", text, trouble.message());
}

ConnectionSetup::ConnectionSetup(const SetupOptions &given, Socket listening, std::span<const Endpoint> endpointsByRank)
    : options(given), places(given.self, given.timeoutMs),
      connector(given.key, endpointsByRank, places, given.maxSilence),
      acceptor(std::move(listening), *this, {greetingBytes, sizeof(SecretProof), false, given.maxSilence}) {}

/// What is wrong with a Hello; empty: nothing.
std::string ConnectionSetup::whyNot(const Hello &hello) const {
  const Hello &self = options.self;
  if (hello.world != self.world)
    return "a rank of another world";
  if (hello.numRanks != self.numRanks || hello.numConnections != self.numConnections || hello.hasMail != self.hasMail ||
      hello.peer != self.rank || !mayMeet(static_cast<int>(hello.rank)) ||
      (!options.mayComeLater && hello.rank < self.rank))
    return fmt::format("a hello from rank {} to rank {} of {}, with {} connections", hello.rank, hello.peer,
                       hello.numRanks, hello.numConnections);
  if (places.isOver(places.of(hello)))
    return fmt::format("a second connection {} of rank {}", hello.connection, hello.rank);
  return {};
}

bool ConnectionSetup::mayGreet(size_t place) const {
  size_t numAnswered = 0, numSame = 0;
  for (const IncomingConnection &one : acceptor.all()) {
    numAnswered += one.wasAnswered;
    numSame += one.wasAnswered && one.claim == place;
  }
  return numAnswered < places.numMissing() + maxRepeated || numSame == 0;
}

/// Since when there have been connections for this place that owe their last proof; now if there are none.
Clock::time_point ConnectionSetup::answeredSince(size_t place) const {
  auto isSame = [&](const IncomingConnection &one) { return one.wasAnswered && one.claim == place; };
  auto found = std::ranges::find_if(acceptor.all(), isSame);
  return found == acceptor.all().end() ? Clock::now() : found->since;
}

/// Judges the Hello of a connection that another process opened, and answers it.
Admission ConnectionSetup::answer(IncomingConnection &connection) {
  if (!isGreetingRight(connection.received, options.key))
    return Admission::stranger("a connection that does not know the secret");
  Result<Hello> hello = parseHello(helloOf(connection.received));
  if (!hello.isOk())
    return Admission::stranger(hello.status().message());
  if (std::string why = whyNot(*hello); !why.empty())
    return Admission::stranger(why);
  const size_t place = places.of(*hello);
  const bool isSmaller = hello->rank < options.self.rank;
  if (isSmaller && connector.hasOpened(place))
    return {Admission::Kind::Closed, {}}; // the other connection stays
  const Clock::time_point now = Clock::now(), since = answeredSince(place);
  if (isSmaller && places.at(place) == Standing::Wanted && now >= since + options.maxSilence)
    return {};
  if (!mayGreet(place))
    return Admission::stranger(fmt::format("one of many connections that greeted as rank {}", hello->rank));
  connector.noteLife(hello->rank);
  connection.claim = place;
  connection.wasAnswered = true;
  connection.since = since;
  connection.until = now + options.maxSilence;
  keepAlive(connection.socket, 3000); // as long as it lives, this rank does not open the connection itself
  connection.nonce = makeNonce(options.key);
  const std::span<const std::byte> theirs = nonceOf(connection.received);
  if (!connection.send(writeGreeting(options.key, places.helloTo(place), connection.nonce, theirs)))
    return Admission::stranger(fmt::format("a connection of rank {} that took no answer", hello->rank));
  return {};
}

/// Judges the last proof of a connection that another process opened. Who repeats a greeting that he has seen cannot
/// prove this rank's new nonce.
Admission ConnectionSetup::confirm(IncomingConnection &connection) {
  const Hello hello = places.helloFrom(connection.claim);
  if (!isLastRight(proofAt(connection.received, greetingBytes), options.key, connection.received, connection.nonce))
    return Admission::stranger(
        fmt::format("a connection that greeted as rank {} and sent {}", hello.rank,
                    options.key ? "a wrong last proof" : "something else than a rank sends then"));
  if (places.isOver(connection.claim))
    return Admission::stranger(fmt::format("a second connection {} of rank {}", hello.connection, hello.rank));
  connector.noteMet(hello.rank);
  places.meet(connection.claim, std::move(connection.socket));
  return {Admission::Kind::Admitted, {}};
}

/// By place: whether a connection of a peer may come to stand there, so that this rank opens none.
std::vector<bool> ConnectionSetup::placesUnderWay() const {
  const Clock::time_point now = Clock::now();
  std::vector<bool> are(places.size());
  for (const IncomingConnection &one : acceptor.all())
    if (one.wasAnswered && (places.peerAt(one.claim) < options.self.rank || now < one.since + options.maxSilence))
      are[one.claim] = true;
  return are;
}

/// `opens`: this rank does, and does not wait for the peer alone.
void ConnectionSetup::wantNow(uint32_t peer, bool opens) {
  const size_t first = places.first(peer);
  for (size_t place = first; place < first + options.self.numConnections; ++place)
    if (places.want(place) && opens)
      connector.want(place);
}

void ConnectionSetup::know(std::shared_ptr<const EndpointTable> endpoints) {
  std::scoped_lock lock(mutex);
  connector.know(std::move(endpoints));
}

void ConnectionSetup::want(int peer) {
  std::scoped_lock lock(mutex);
  const size_t numBefore = connector.numToOpen();
  wantNow(static_cast<uint32_t>(peer), true);
  connector.open(placesUnderWay(), numBefore); // `step` opens the others
}

/// Waits until something happens, at most until then or until a connection has been silent for too long.
void ConnectionSetup::step(Clock::time_point until) {
  connector.openMissing(placesUnderWay());
  std::vector<pollfd> entries;
  connector.addTo(entries, until);
  const size_t numOpened = entries.size();
  acceptor.addTo(entries, until);
  const Clock::time_point looked = Clock::now();
  waitForAny(entries, until);
  connector.hear(std::span(entries).first(numOpened), looked);
  acceptor.hear(std::span(entries).subspan(numOpened), looked);
}

/// What this rank lacks for those that connect to it is the cause, if nothing nearer is known.
Status ConnectionSetup::findTrouble(uint32_t peer) const {
  Status trouble = connector.troubleWith(peer);
  if (!trouble.isOk() || !acceptor.whatIsLacking())
    return trouble;
  return rankError(StatusCode::SystemError, static_cast<int>(options.self.rank),
                   "rank {} cannot accept connections: {}", options.self.rank, acceptor.whatIsLacking());
}

Status ConnectionSetup::missing() const {
  const std::vector<uint32_t> peers = places.missingPeers();
  const uint32_t self = options.self.rank;
  std::string text = fmt::format("rank {} waited {} ms for connections with rank {}: timed out", self,
                                 options.timeoutMs, fmt::join(peers, ", "));
  if (size_t number = acceptor.numStrangers())
    text += fmt::format("; strangers: {}, the last one was {}", number, acceptor.lastStranger());
  Status trouble = findTrouble(peers.front());
  return trouble.isOk() ? rankError(StatusCode::Timeout, static_cast<int>(peers.front()), "{}", text)
                        : withTrouble(text, trouble, static_cast<int>(self));
}

Status ConnectionSetup::meetAll(const std::vector<bool> &ranks, std::vector<Established> &met) {
  std::scoped_lock lock(mutex);
  Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(options.timeoutMs);
  for (uint32_t peer = 0; peer < options.self.numRanks; ++peer)
    if (ranks[peer] && mayMeet(static_cast<int>(peer)))
      wantNow(peer, peer < options.self.rank);
  Status status;
  while (status.isOk() && places.numMissing() > 0) {
    step(std::min(deadline, Clock::now() + (options.progress ? progressInterval : stopInterval)));
    if (options.progress)
      options.progress();
    if (!places.failed().empty())
      status = places.failed().front();
    else if (options.mustStop && options.mustStop())
      status = error(StatusCode::Aborted, "rank {} stopped while it waited for connections", options.self.rank);
    else if (places.numMissing() > 0 && millisecondsUntil(deadline) == 0)
      status = missing();
  }
  met = places.takeMet();
  return status;
}

void ConnectionSetup::progress(std::vector<Established> &met, std::vector<Status> &failures) {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock)
    return;
  step(Clock::now());
  met = places.takeMet();
  failures = places.takeFailures();
}

Status ConnectionSetup::troubleWith(int peer) const {
  std::scoped_lock lock(mutex);
  return findTrouble(static_cast<uint32_t>(peer));
}

bool ConnectionSetup::addTo(std::vector<pollfd> &entries) const {
  std::scoped_lock lock(mutex);
  Clock::time_point ignored = Clock::time_point::max();
  connector.addTo(entries, ignored);
  acceptor.addTo(entries, ignored);
  return acceptor.isDue() || connector.numToOpen() > 0 || places.hasNews();
}

} // namespace kolo::runtime::tcp
