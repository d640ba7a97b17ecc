#include "bootstrap/RendezvousAcceptor.h"

#include "base/Error.h"

#include <algorithm>

namespace kolo::runtime {

RendezvousAcceptor::RendezvousAcceptor(Socket listening, const OptionalKey &worldSecret, int ranks,
                                       Clock::time_point patienceUntil)
    : secret(worldSecret), numRanks(ranks), patientUntil(patienceUntil),
      acceptor(std::move(listening), *this, {openingBytes, helloBytes + sizeof(SecretProof), true}) {}

/// Only of ranks that there are: so claims stay few.
void RendezvousAcceptor::note(size_t rank, Trouble trouble, uint32_t version) {
  if (rank < static_cast<size_t>(numRanks))
    claims[static_cast<int>(rank)] = {trouble, version};
}

Status RendezvousAcceptor::checkBeginning(std::span<const std::byte> bytes) const {
  return beginsOpening(bytes) ? Status() : error(StatusCode::Mismatch, "a connection that does not open");
}

/// Answers the Opening, and says what of it makes a Hello useless.
Admission RendezvousAcceptor::answer(IncomingConnection &connection) {
  Result<Opening> opening = parseOpening(std::span<const std::byte, openingBytes>(connection.received));
  if (!opening.isOk())
    return Admission::stranger(opening.status().message());
  Challenge challenge;
  challenge.hasSecret = secret.has_value();
  challenge.nonce = connection.nonce = makeNonce(secret);
  challenge.proof = prove(secret, challengeLabel, {connection.received, challenge.nonce});
  ChallengeBytes challengeText = write(challenge);
  WelcomeBytes welcome = write(Welcome());
  std::span<const std::byte> bytes = challengeText;
  if (expectsWelcome(*opening))
    bytes = welcome;
  if (!connection.send(bytes))
    return Admission::stranger("a connection that took no answer");
  connection.wasAnswered = true;
  connection.claim = static_cast<size_t>(opening->rank);
  if (opening->version != rendezvousVersion)
    note(connection.claim, Trouble::OtherVersion, opening->version);
  else if (opening->hasSecret != secret.has_value())
    note(connection.claim, opening->hasSecret ? Trouble::HasSecret : Trouble::HasNoSecret);
  else
    return {};
  return Admission::stranger("a rank that cannot join");
}

Admission RendezvousAcceptor::confirm(IncomingConnection &connection) {
  std::span<const std::byte> all = connection.received;
  auto hello = all.subspan<openingBytes, helloBytes>();
  if (!isRight(proofAt(all, openingBytes + helloBytes), secret, helloLabel,
               {all.first(openingBytes), connection.nonce, hello})) {
    if (secret)
      note(connection.claim, Trouble::OtherSecret);
    return Admission::stranger("a wrong proof"); // without a secret, nobody who speaks the protocol says so
  }
  Result<Hello> said = parseHello(hello);
  if (said.isOk() && said->rank != static_cast<int>(connection.claim))
    return Admission::stranger("another rank than it said at first");
  AdmittedConnection admitted{std::move(connection.socket)};
  if (!(*visitor)(admitted, said))
    return {Admission::Kind::Closed, {}};
  inside.push_back(std::move(admitted));
  return {Admission::Kind::Admitted, {}};
}

/// It did not believe the Challenge, or its process has ended.
void RendezvousAcceptor::noteEnd(const IncomingConnection &connection) {
  if (secret)
    note(connection.claim, Trouble::OtherSecret);
}

bool RendezvousAcceptor::listen(Clock::time_point until, const Visitor &visit) {
  visitor = &visit;
  acceptor.work(claims.empty() ? until : std::min(until, Clock::now() + disagreementInterval));
  return Clock::now() < until;
}

std::string RendezvousAcceptor::describe(const std::vector<int> &missing) const {
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

Status RendezvousAcceptor::disagreement(const std::vector<int> &missing) const {
  if (secret && Clock::now() < patientUntil) // anybody may come in the name of a rank
    return {};
  for (int rank : missing)
    if (!claims.contains(rank))
      return {};
  return missing.empty() ? Status() : rankError(StatusCode::Mismatch, missing.front(), "{}", describe(missing));
}

} // namespace kolo::runtime
