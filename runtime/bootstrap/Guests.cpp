#include "bootstrap/Guests.h"

#include "base/Error.h"

#include <sys/socket.h>

#include <algorithm>

namespace kolo::runtime {

/// Receives until so many bytes are here. False: they are not all here yet, or `hasEnded`.
bool Guests::receive(Guest &guest, size_t sizeBytes, bool &hasEnded) {
  size_t number = guest.received.size();
  guest.received.resize(sizeBytes);
  while (number < sizeBytes) {
    ssize_t got = recv(guest.socket.descriptor(), &guest.received[number], sizeBytes - number, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR)
      continue;
    hasEnded = got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
    if (got <= 0)
      break;
    number += static_cast<size_t>(got);
  }
  guest.received.resize(number);
  return number == sizeBytes;
}

/// Only of ranks that there are: so claims stay few.
void Guests::note(int rank, Trouble trouble, uint32_t version) {
  if (rank < numRanks)
    claims[rank] = {trouble, version};
}

/// Answers the Opening, and says what of it makes a Hello useless.
Guests::Fate Guests::answer(Guest &guest) {
  Result<Opening> opening = parseOpening(std::span<const std::byte, openingBytes>(guest.received));
  if (!opening.isOk())
    return Fate::Stranger;
  Challenge challenge;
  challenge.hasSecret = secret.has_value();
  challenge.nonce = guest.nonce = makeNonce(secret);
  challenge.proof = prove(secret, challengeLabel, {guest.received, challenge.nonce});
  ChallengeBytes challengeText = write(challenge);
  WelcomeBytes welcome = write(Welcome());
  std::span<const std::byte> bytes = challengeText;
  if (expectsWelcome(*opening))
    bytes = welcome;
  if (!guest.socket.sendAll(bytes.data(), bytes.size(), Clock::now()).isOk()) // fits into a new connection
    return Fate::Stranger;
  guest.hasOpened = true;
  guest.claimedRank = opening->rank;
  if (opening->version != rendezvousVersion)
    note(opening->rank, Trouble::OtherVersion, opening->version);
  else if (opening->hasSecret != secret.has_value())
    note(opening->rank, opening->hasSecret ? Trouble::HasSecret : Trouble::HasNoSecret);
  else
    return Fate::Waits;
  return Fate::Stranger;
}

Guests::Fate Guests::admit(Guest &guest, const Visitor &visit) {
  std::span<const std::byte> all = guest.received;
  auto hello = all.subspan<openingBytes, helloBytes>();
  SecretProof proof = {};
  std::ranges::copy(all.subspan(openingBytes + helloBytes), proof.begin());
  if (!isRight(proof, secret, helloLabel, {all.first(openingBytes), guest.nonce, hello})) {
    if (secret)
      note(guest.claimedRank, Trouble::OtherSecret);
    return Fate::Stranger; // without a secret, nobody who speaks the protocol says so
  }
  Result<Hello> said = parseHello(hello);
  if (said.isOk() && said->rank != guest.claimedRank)
    return Fate::Stranger;
  guest.isAdmitted = true;
  return visit(guest, said) ? Fate::Admitted : Fate::Refused;
}

Guests::Fate Guests::hear(Guest &guest, const Visitor &visit) {
  bool hasEnded = false;
  if (!guest.hasOpened) {
    bool isWhole = receive(guest, openingBytes, hasEnded);
    if (hasEnded || !beginsOpening(guest.received))
      return Fate::Stranger;
    if (!isWhole)
      return Fate::Waits;
    if (Fate fate = answer(guest); fate != Fate::Waits)
      return fate;
  }
  if (receive(guest, openingBytes + helloBytes + sizeof(SecretProof), hasEnded))
    return admit(guest, visit);
  if (hasEnded && secret) // it did not believe the Challenge, or it ended
    note(guest.claimedRank, Trouble::OtherSecret);
  return hasEnded ? Fate::Stranger : Fate::Waits;
}

/// Drops the connection that has been silent for longest; if none is silent, the oldest one. False: there is none.
bool Guests::dropOldest() {
  if (waiting.empty())
    return false;
  auto silent = std::ranges::find_if_not(waiting, &Guest::hasOpened);
  waiting.erase(silent != waiting.end() ? silent : waiting.begin());
  ++strangers;
  return true;
}

void Guests::makeRoom() {
  if (waiting.size() >= maxWaiting(numRanks))
    dropOldest();
}

void Guests::acceptAll(const Visitor &visit) {
  if (Clock::now() < acceptAgain)
    return;
  for (size_t i = 0; i < maxWaiting(numRanks); ++i) { // then others get their turn
    Guest guest;
    guest.socket = Socket(accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    lack = nullptr;
    if (!guest.socket.isOpen() && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
      lack = strerrordesc_np(errno);
      if (dropOldest())
        continue;
      acceptAgain = Clock::now() + rest; // the listener would wake `listen` again and again
    }
    if (!guest.socket.isOpen())
      return;
    guest.until = Clock::now() + maxSilence;
    Fate fate = hear(guest, visit); // an Opening is here already, as a rule
    strangers += fate == Fate::Stranger;
    if (fate == Fate::Admitted) {
      inside.push_back(std::move(guest));
    } else if (fate == Fate::Waits) {
      makeRoom();
      waiting.push_back(std::move(guest));
    }
  }
}

bool Guests::listen(Clock::time_point until, const Visitor &visit) {
  bool rests = Clock::now() < acceptAgain;
  std::vector<pollfd> entries{{rests ? -1 : listener.descriptor(), POLLIN, 0}};
  Clock::time_point next = rests ? std::min(until, acceptAgain) : until;
  for (const Guest &guest : waiting) {
    entries.push_back({guest.socket.descriptor(), POLLIN, 0});
    next = std::min(next, guest.until);
  }
  if (!claims.empty()) // whose owner looks for a disagreement
    next = std::min(next, Clock::now() + rest);
  const int mostMs = millisecondsUntil(next) + (next < until ? 1 : 0);
  const timespec most = {mostMs / 1000, mostMs % 1000 * 1'000'000L};
  waitForAny(entries, &most);
  for (size_t index = waiting.size(); index-- > 0;) { // backwards, because of the erasure
    Guest &guest = waiting[index];
    Fate fate = entries[index + 1].revents != 0 ? hear(guest, visit) : Fate::Waits;
    if (fate == Fate::Waits && Clock::now() >= guest.until)
      fate = Fate::Stranger;
    strangers += fate == Fate::Stranger;
    if (fate == Fate::Admitted)
      inside.push_back(std::move(guest));
    if (fate != Fate::Waits)
      waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(index));
  }
  acceptAll(visit);
  return Clock::now() < until;
}

std::string Guests::describe(const std::vector<int> &missing) const {
  std::map<Trouble, std::string> ranks;
  std::string text;
  for (int rank : missing) {
    auto claim = claims.find(rank);
    if (claim == claims.end())
      continue;
    if (claim->second.trouble == Trouble::OtherVersion)
      text += fmt::format("{}rank {} speaks version {} of the rendezvous, rank 0 version {}", text.empty() ? "" : "; ",
                          rank, claim->second.version, rendezvousVersion);
    else
      ranks[claim->second.trouble] += fmt::format("{} {}", ranks[claim->second.trouble].empty() ? "" : ",", rank);
  }
  constexpr const char *has[] = {"has none", "has one", "has another one or ended"};
  for (const auto &[trouble, list] : ranks)
    text += fmt::format("{}ranks disagree on KOLO_SECRET: rank 0 has {}, rank{} {}", text.empty() ? "" : "; ",
                        secret ? "one" : "none", list, has[static_cast<size_t>(trouble)]);
  return text + (secret && !text.empty() ? "; or strangers came in their name" : "");
}

Status Guests::disagreement(const std::vector<int> &missing) const {
  if (secret && Clock::now() < patientUntil) // anybody may come in the name of a rank
    return {};
  for (int rank : missing)
    if (!claims.contains(rank))
      return {};
  return missing.empty() ? Status() : rankError(StatusCode::Mismatch, missing.front(), "{}", describe(missing));
}

} // namespace kolo::runtime
