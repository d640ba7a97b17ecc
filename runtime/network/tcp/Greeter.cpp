#include "network/tcp/Greeter.h"

#include "Error.h"
#include "network/tcp/SocketAddress.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace kolo::runtime::tcp {
namespace {

/// What this rank lacks is no fault of the peer.
bool isOwnLack(int errnoValue) {
  return errnoValue == EMFILE || errnoValue == ENFILE || errnoValue == ENOBUFS || errnoValue == ENOMEM ||
         errnoValue == EADDRNOTAVAIL;
}

/// PeerLost: nobody listens there any more. All else may pass.
Status connectError(uint32_t self, uint32_t peer, int errnoValue) {
  return rankError(errnoValue == ECONNREFUSED ? StatusCode::PeerLost : StatusCode::SystemError,
                   static_cast<int>(isOwnLack(errnoValue) ? self : peer), "connecting to rank {}: {}", peer,
                   strerrordesc_np(errnoValue));
}

void set(const Socket &socket, int level, int option, int value) {
  setsockopt(socket.descriptor(), level, option, &value, sizeof(value));
}

/// An idle connection then ends about 3 s after the peer's host was cut off.
void keepAlive(const Socket &socket) {
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
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

Status withTrouble(const std::string &text, const Status &trouble, int self) {
  StatusCode code = trouble.rank() == self ? StatusCode::SystemError : StatusCode::Timeout;
  return rankError(code, trouble.rank(), "{}; {}", text, trouble.message());
}

Hello Greeter::helloTo(uint32_t peer, uint16_t number) const {
  Hello hello = self;
  hello.peer = peer;
  hello.connection = number;
  return hello;
}

bool Greeter::mayGreet(const Hello &hello) const {
  auto isSame = [&](const Guest &guest) { return guest.hasToConfirm() && guest.hello == hello; };
  return static_cast<size_t>(std::ranges::count_if(guests, &Guest::hasToConfirm)) < numMissing + maxRepeated ||
         std::ranges::none_of(guests, isSame);
}

/// Ends the connection that has been silent for longest. False: none is silent.
bool Greeter::endOldestSilent() {
  auto oldest = std::ranges::find_if(guests, &Guest::isSilent); // in the order in which they came
  if (oldest == guests.end())
    return false;
  ++numStrangers;
  lastStranger = "a connection that said nothing, among many";
  guests.erase(oldest);
  return true;
}

void Greeter::makeRoom() {
  if (static_cast<size_t>(std::ranges::count_if(guests, &Guest::isSilent)) > maxSilent + numMissing)
    endOldestSilent();
}

Status Greeter::open(uint32_t peer, uint16_t number) {
  Result<HostAddress> address = parseEndpoint(endpoints[peer]);
  if (!address.isOk())
    return rankError(StatusCode::InvalidArgument, static_cast<int>(peer), "rank {} gave {}", peer,
                     address.status().message());
  SocketAddress target = toSocketAddress(*address);
  Guest guest;
  guest.socket = Socket(socket(target.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!guest.socket.isOpen())
    return connectError(self.rank, peer, errno);
  prepare(guest.socket, number);
  if (::connect(guest.socket.descriptor(), target.get(), target.sizeBytes) != 0 && errno != EINPROGRESS)
    return connectError(self.rank, peer, errno);
  guest.isOpenedHere = guest.isConnecting = true;
  guest.nonce = makeNonce(key);
  guest.hello = self;
  guest.hello.rank = peer;
  guest.hello.peer = self.rank;
  guest.hello.connection = number;
  guest.until = Clock::now() + maxSilence / 2;
  guests.push_back(std::move(guest));
  return {};
}

/// By place: whether a connection may come to stand there, so that this rank opens none.
std::vector<bool> Greeter::placesUnderWay() const {
  const Clock::time_point now = Clock::now();
  std::vector<bool> are(places.size());
  for (const Guest &guest : guests)
    if (guest.isOpenedHere || (guest.hasGreeted && (guest.hello.rank < self.rank || now < guest.since + maxSilence)))
      are[placeOf(guest.hello)] = true;
  return are;
}

/// Since when there have been connections for this place that owe their last proof; now if there are none.
Clock::time_point Greeter::greetedSince(const Hello &hello) const {
  auto isSame = [&](const Guest &guest) { return guest.hasToConfirm() && placeOf(guest.hello) == placeOf(hello); };
  auto found = std::ranges::find_if(guests, isSame);
  return found == guests.end() ? Clock::now() : found->since;
}

bool Greeter::hasOpened(const Hello &hello) const {
  return std::ranges::any_of(
      guests, [&](const Guest &guest) { return guest.isOpenedHere && placeOf(guest.hello) == placeOf(hello); });
}

/// Opens what is wanted and not under way.
void Greeter::openMissing() {
  std::erase_if(toOpen, [&](const Hello &hello) { return places[placeOf(hello)] != Standing::Wanted; });
  openThose(std::vector<Hello>(toOpen.begin(), toOpen.end())); // a failure changes the queue
}

void Greeter::openThose(const std::vector<Hello> &wanted) {
  if (wanted.empty() || Clock::now() < openAgain)
    return;
  const std::vector<bool> areUnderWay = placesUnderWay();
  for (const Hello &hello : wanted)
    if (places[placeOf(hello)] == Standing::Wanted && !areUnderWay[placeOf(hello)])
      if (Status status = open(hello.rank, hello.connection); !status.isOk())
        note(hello.rank, status);
}

/// What may pass is tried again. Otherwise nobody connects to this rank any more.
void Greeter::note(uint32_t peer, const Status &failure) {
  if (failure.code() == StatusCode::SystemError) {
    troubles.insert_or_assign(peer, failure);
    openAgain = Clock::now() + restAfterTrouble;
    return;
  }
  failed.push_back(failure);
  for (uint16_t number = 0; number < self.numConnections; ++number) {
    Standing &place = places[static_cast<size_t>(peer) * self.numConnections + number];
    numMissing -= place == Standing::Wanted;
    place = Standing::Failed;
  }
}

void Greeter::wantNow(uint32_t peer) {
  for (uint16_t number = 0; number < self.numConnections; ++number) {
    Hello hello = self;
    hello.rank = peer;
    hello.connection = number;
    Standing &place = places[placeOf(hello)];
    if (place != Standing::Possible)
      continue;
    place = Standing::Wanted;
    ++numMissing;
    toOpen.push_back(hello);
  }
}

void Greeter::want(int peer) {
  std::scoped_lock lock(mutex);
  size_t numWanted = toOpen.size();
  wantNow(static_cast<uint32_t>(peer));
  std::vector<Hello> wanted(toOpen.begin() + static_cast<std::ptrdiff_t>(numWanted), toOpen.end());
  openThose(wanted); // the others are opened by `step`
}

void Greeter::accept() {
  if (Clock::now() < acceptAgain)
    return;
  for (size_t i = 0; i < maxSilent; ++i) { // then others get their turn
    Guest guest;
    guest.socket = Socket(accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!guest.socket.isOpen() && isOwnLack(errno)) {
      if (endOldestSilent())
        continue;
      acceptAgain = Clock::now() + restWithoutDescriptors; // the listener would wake `step` again and again
    }
    if (!guest.socket.isOpen())
      return;
    guest.until = Clock::now() + maxSilence;
    Result<Fate> fate = hear(guest); // a rank's Hello is here already, as a rule
    numStrangers += fate.isOk() && *fate == Fate::Stranger;
    if (!fate.isOk() || *fate != Fate::Waits) // a connection that was not opened here never fails
      continue;
    guests.push_back(std::move(guest));
    makeRoom();
  }
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
  return mayBeHeard ? Status() : connectError(self.rank, guest.hello.rank, code);
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
  keepAlive(guest.socket); // as long as it lives, this rank does not open the connection itself
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
    return turnAway(fmt::format("a connection that greeted as rank {} and sent a wrong last proof", guest.hello.rank));
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
  return sendAll(guest.socket, proof) ? Status() : connectError(self.rank, guest.hello.rank, errno);
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

/// Sets what a connection needs. A connection for mail also notices within about 3 s that the peer's host is cut off.
/// One for data does not: TCP would end it too where a living peer does not read for so long.
void Greeter::prepare(const Socket &socket, uint16_t number) const {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 0);
  if (!self.hasMail || number + 1 != self.numConnections)
    return;
  keepAlive(socket);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, userTimeoutMs);
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

/// Waits until something happens, at most until then or until a guest has been silent for too long.
void Greeter::step(Clock::time_point until) {
  openMissing();
  bool rests = Clock::now() < acceptAgain;
  std::vector<pollfd> entries{{rests ? -1 : listener.descriptor(), POLLIN, 0}};
  until = rests ? std::min(until, acceptAgain) : until;
  until = toOpen.empty() ? until : std::min(until, std::max(openAgain, Clock::now() + restAfterCrossing));
  for (const Guest &guest : guests) {
    entries.push_back(guest.entry());
    until = guest.isOpenedHere ? until : std::min(until, guest.until);
  }
  const Clock::time_point looked = Clock::now(); // what is not found came later
  int mostMs = millisecondsUntil(until);
  mostMs = mostMs == 0 ? 0 : std::min(mostMs + 1, timeoutMs);
  const timespec most = {mostMs / 1000, mostMs % 1000 * 1'000'000L};
  waitForAny(entries, &most);
  for (size_t index = guests.size(); index-- > 0;) { // backwards, because of the erasure
    Guest &guest = guests[index];
    bool isQuiet = entries[index + 1].revents == 0;
    Result<Fate> fate = isQuiet ? Result(Fate::Waits) : hear(guest);
    if (!fate.isOk()) {
      note(guest.hello.rank, fate.status());
      fate = Fate::Crossing;
    }
    if (guest.isOpenedHere && *fate == Fate::Waits && (isQuiet || guest.received == 0))
      guest.until = looked + maxSilence / 2;
    if (*fate == Fate::Waits && !guest.isOpenedHere && looked >= guest.until)
      fate = turnAway(fmt::format("a connection that sent {} bytes and then nothing", guest.received));
    numStrangers += *fate == Fate::Stranger;
    if (*fate != Fate::Waits)
      guests.erase(guests.begin() + static_cast<std::ptrdiff_t>(index));
  }
  accept();
}

Status Greeter::missing() const {
  std::string ranks;
  int first = -1;
  for (uint32_t peer = 0; peer < self.numRanks; ++peer) {
    auto begin = places.begin() + static_cast<std::ptrdiff_t>(peer) * self.numConnections;
    if (std::find(begin, begin + self.numConnections, Standing::Wanted) == begin + self.numConnections)
      continue;
    ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", peer);
    first = first < 0 ? static_cast<int>(peer) : first;
  }
  std::string strangers =
      numStrangers ? fmt::format("; strangers: {}, the last one was {}", numStrangers, lastStranger) : std::string();
  auto trouble = troubles.find(static_cast<uint32_t>(first));
  std::string text = fmt::format("rank {} waited {} ms for connections with rank {}: timed out{}", self.rank, timeoutMs,
                                 ranks, strangers);
  return trouble == troubles.end() ? rankError(StatusCode::Timeout, first, "{}", text)
                                   : withTrouble(text, trouble->second, static_cast<int>(self.rank));
}

Status Greeter::meetAll(const std::vector<bool> &ranks, std::vector<Greeted> &met) {
  std::scoped_lock lock(mutex);
  Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(timeoutMs);
  for (uint32_t peer = 0; peer < self.numRanks; ++peer)
    if (ranks[peer] && mayMeet(static_cast<int>(peer)))
      wantNow(peer);
  std::erase_if(toOpen, [&](const Hello &hello) { return hello.rank > self.rank; }); // they open
  Status status;
  while (status.isOk() && numMissing > 0) {
    step(std::min(deadline, Clock::now() + (callProgress ? progressInterval : stopInterval)));
    if (callProgress)
      callProgress();
    if (!failed.empty())
      status = failed.front();
    else if (mustStop && mustStop())
      status = error(StatusCode::Aborted, "rank {} stopped while it waited for connections", self.rank);
    else if (numMissing > 0 && millisecondsUntil(deadline) == 0)
      status = missing();
  }
  met = std::exchange(greeted, {});
  return status;
}

void Greeter::progress(std::vector<Greeted> &met, std::vector<Status> &failures) {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock)
    return;
  step(Clock::now());
  met = std::exchange(greeted, {});
  failures = std::exchange(failed, {});
}

Status Greeter::troubleWith(int peer) const {
  std::scoped_lock lock(mutex);
  auto found = troubles.find(static_cast<uint32_t>(peer));
  return found == troubles.end() ? Status() : found->second;
}

void Greeter::close() { shutdown(listener.descriptor(), SHUT_RDWR); }

bool Greeter::addTo(std::vector<pollfd> &entries) const {
  std::scoped_lock lock(mutex);
  const Clock::time_point now = Clock::now();
  bool rests = now < acceptAgain, isOver = false;
  if (!rests)
    entries.push_back({listener.descriptor(), POLLIN, 0});
  for (const Guest &guest : guests) {
    entries.push_back(guest.entry());
    isOver |= !guest.isOpenedHere && now >= guest.until;
  }
  return rests || isOver || !toOpen.empty() || !greeted.empty() || !failed.empty();
}

} // namespace kolo::runtime::tcp
