#include "network/tcp/Greeter.h"

#include "base/Error.h"
#include "network/tcp/SocketAddress.h"

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

} // namespace

/// PeerLost: nobody listens there any more. All else may pass.
Status Greeter::connectError(uint32_t peer, int errnoValue) const {
  return rankError(errnoValue == ECONNREFUSED ? StatusCode::PeerLost : StatusCode::SystemError,
                   static_cast<int>(isOwnLack(errnoValue) ? self.rank : peer), "connecting to rank {}: {}", peer,
                   strerrordesc_np(errnoValue));
}

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
    return connectError(peer, errno);
  prepare(guest.socket, number);
  if (::connect(guest.socket.descriptor(), target.get(), target.sizeBytes) != 0 && errno != EINPROGRESS)
    return connectError(peer, errno);
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
    lack = {};
    if (!guest.socket.isOpen() && isOwnLack(errno)) {
      lack = rankError(StatusCode::SystemError, static_cast<int>(self.rank), "rank {} cannot accept connections: {}",
                       self.rank, strerrordesc_np(errno));
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
  Status trouble = findTrouble(static_cast<uint32_t>(first));
  std::string text = fmt::format("rank {} waited {} ms for connections with rank {}: timed out{}", self.rank, timeoutMs,
                                 ranks, strangers);
  return trouble.isOk() ? rankError(StatusCode::Timeout, first, "{}", text)
                        : withTrouble(text, trouble, static_cast<int>(self.rank));
}

/// What this rank lacks for those that connect to it is the cause, if nothing nearer is known.
Status Greeter::findTrouble(uint32_t peer) const {
  auto found = troubles.find(peer);
  return found == troubles.end() ? lack : found->second;
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
  return findTrouble(static_cast<uint32_t>(peer));
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
