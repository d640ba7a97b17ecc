// The rendezvous for every rank but rank 0.
#include "base/Error.h"
#include "base/Variable.h"
#include "bootstrap/MultiHostJoin.h"
#include "kolo/runtime/Door.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <thread>

namespace kolo::runtime {
namespace {

/// A rank's side of the rendezvous until it hears the Welcome.
class RendezvousClient {
public:
  RendezvousClient(const RankEnvironment &ownEnvironment, const OptionalKey &worldSecret, Clock::time_point latest)
      : environment(ownEnvironment), secret(worldSecret), deadline(latest) {}

  /// The connection stays open for the Arrival and the Guidance.
  Result<Welcome> greet(const HostId &host, Socket &socket);

private:
  /// So long rank 0 may take to answer the Opening. Then the rank connects again.
  static constexpr std::chrono::milliseconds maxSilence{5000};

  Status believe(const OpeningBytes &opening, const Challenge &challenge) const;
  Status receive(Socket &socket, std::span<std::byte> bytes, bool isFirst, Clock::time_point until) const;

  const RankEnvironment &environment;
  const OptionalKey &secret;
  Clock::time_point deadline;
};

/// Receives the magic alone first: another program may send a few bytes and then wait for an answer.
Status RendezvousClient::receive(Socket &socket, std::span<std::byte> bytes, bool isFirst,
                                 Clock::time_point until) const {
  Result<size_t> magic = socket.receive(bytes.data(), magicBytes, until);
  if (!magic.isOk())
    return magic.status();
  if (*magic == 0)
    return error(StatusCode::SystemError, "the other side closed the connection without an answer");
  if (isFirst && !beginsChallenge(bytes.first(*magic)))
    return error(StatusCode::Mismatch,
                 "the process that answers at {}:{} does not speak Kolo's protocol: is MASTER_PORT right?",
                 environment.master.host, environment.master.port);
  Result<size_t> rest = socket.receive(bytes.data() + magicBytes, bytes.size() - magicBytes, until);
  if (!rest.isOk())
    return rest.status();
  if (*magic != magicBytes || *rest != bytes.size() - magicBytes)
    return error(StatusCode::SystemError, "rank 0 ended in the middle of its answer");
  return {};
}

/// Whether the process that answers is rank 0 of this world.
Status RendezvousClient::believe(const OpeningBytes &opening, const Challenge &challenge) const {
  if (challenge.version != rendezvousVersion)
    return rankError(StatusCode::Mismatch, 0, "rank {} speaks version {} of the rendezvous, rank 0 version {}",
                     environment.rank, rendezvousVersion, challenge.version);
  if (challenge.hasSecret != secret.has_value())
    return rankError(StatusCode::Mismatch, 0, "ranks disagree on KOLO_SECRET: rank 0 has {}, rank {} has {}",
                     challenge.hasSecret ? "one" : "none", environment.rank, secret ? "one" : "none");
  if (!isRight(challenge.proof, secret, challengeLabel, {opening, challenge.nonce}) && !secret)
    return error(StatusCode::Mismatch, "the process that answers at {}:{} is no rank 0: it answers as none does",
                 environment.master.host, environment.master.port);
  if (!isRight(challenge.proof, secret, challengeLabel, {opening, challenge.nonce}))
    return rankError(StatusCode::Mismatch, 0, "ranks disagree on KOLO_SECRET: rank {} has another one than rank 0",
                     environment.rank);
  return {};
}

Result<Welcome> RendezvousClient::greet(const HostId &host, Socket &socket) {
  Result<Socket> connected = connectTo(environment.master, deadline);
  if (!connected.isOk())
    return connected.status();
  socket = std::move(connected).value();
  OpeningBytes opening = write(Opening{rendezvousVersion, environment.rank, secret.has_value(), makeNonce(secret)});
  ChallengeBytes challengeText = {};
  if (Status status = socket.sendAll(opening.data(), opening.size(), deadline); !status.isOk())
    return status;
  Clock::time_point until = std::min(deadline, Clock::now() + maxSilence);
  Status heard = receive(socket, challengeText, true, until);
  if (heard.code() == StatusCode::Timeout) // another process may have held the port before rank 0
    return error(StatusCode::SystemError, "the process at the port said nothing for {} ms", maxSilence.count());
  if (!heard.isOk())
    return heard;
  Result<Challenge> challenge = parseChallenge(challengeText);
  if (!challenge.isOk())
    return challenge.status();
  if (Status status = believe(opening, *challenge); !status.isOk())
    return status;
  HelloBytes hello = write(Hello{environment.rank, environment.worldSize, getpid(), host, hostName()});
  SecretProof proof = prove(secret, helloLabel, {opening, challenge->nonce, hello});
  std::vector<std::byte> both(hello.begin(), hello.end());
  both.insert(both.end(), proof.begin(), proof.end());
  if (Status status = socket.sendAll(both.data(), both.size(), deadline); !status.isOk())
    return status;
  WelcomeBytes bytes = {};
  if (Status status = receive(socket, bytes, false, deadline); !status.isOk())
    return status;
  return parseWelcome(bytes);
}

/// Receives the Guidance: its head first, which says how long it is.
Result<Guidance> receiveGuidance(const RankEnvironment &environment, Socket &socket, Clock::time_point deadline) {
  std::vector<std::byte> bytes(guidanceHeadBytes);
  auto receive = [&](size_t from) -> Status {
    Result<size_t> got = socket.receive(bytes.data() + from, bytes.size() - from, deadline);
    if (!got.isOk())
      return rankError(got.status().code(), 0, "rank {} waited for rank 0 to say where others are: {}",
                       environment.rank, got.status().message());
    return *got == bytes.size() - from
               ? Status()
               : rankError(StatusCode::PeerLost, 0, "rank 0 ended before it said where others are");
  };
  if (Status status = receive(0); !status.isOk())
    return status;
  Result<size_t> restBytes = guidanceRestBytes(bytes, environment.worldSize);
  if (!restBytes.isOk())
    return restBytes.status();
  bytes.resize(guidanceHeadBytes + *restBytes);
  if (Status status = receive(guidanceHeadBytes); !status.isOk())
    return status;
  return parseGuidance(bytes, environment.worldSize);
}

/// Ranks are on several hosts.
Result<Meeting> meetHosts(const RankEnvironment &environment, const Settings &settings, const WorldKey &world,
                          const Welcome &welcome, Socket &socket) {
  Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(settings.timeoutMs);
  MultiHostJoin join({environment.rank, environment.worldSize, welcome.leader, welcome.numHere}, world, settings);
  // Rank 0's own host may reach it by an address that no other host can reach.
  bool isHereAlone = standsForLoopback(environment.master.host);
  ArrivalBytes place = write(join.listen(isHereAlone ? likelyAddress() : localAddress(socket)));
  if (Status status = socket.sendAll(place.data(), place.size(), deadline); !status.isOk())
    return rankError(status.code(), 0, "rank {} cannot tell rank 0 where it listens: {}", environment.rank,
                     status.message());
  Result<Guidance> guidance = receiveGuidance(environment, socket, deadline);
  return guidance.isOk() ? join.meetBy(*guidance) : Result<Meeting>(guidance.status());
}

/// Whether another attempt may succeed, because rank 0 may not listen yet.
bool isWorthRetrying(const Status &status) { return status.code() == StatusCode::SystemError; }

} // namespace

Result<std::shared_ptr<ControlMemory>> openControl(const ControlPlace &place, int numRanks, int numHere) {
  if (place.sizeBytes != Control::sizeBytes(numRanks, numHere))
    return error(StatusCode::Mismatch, "the rank that made the control segment runs another version of this runtime");
  Result<Memory> memory = Memory::openPeer(place.pid, place.fd, place.sizeBytes, numHere < numRanks);
  if (!memory.isOk())
    return memory.status();
  auto shared = std::make_shared<ControlMemory>();
  shared->memory = std::move(memory).value();
  shared->control = Control(shared->memory.data(), numRanks, numHere);
  return shared;
}

Result<Meeting> joinRendezvous(const RankEnvironment &environment, const Settings &settings,
                               const OptionalKey &secret) {
  Result<HostId> host = currentHost();
  if (!host.isOk())
    return host.status();
  Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(settings.timeoutMs);
  while (true) {
    Socket socket;
    Result<Welcome> welcome = RendezvousClient(environment, secret, deadline).greet(*host, socket);
    if (welcome.isOk()) {
      if (welcome->code != StatusCode::Ok)
        return Status(welcome->code, welcome->message, welcome->culprit);
      if (welcome->numHosts > 1)
        return meetHosts(environment, settings, {welcome->world, secret}, *welcome, socket);
      Result<std::shared_ptr<ControlMemory>> control =
          openControl({welcome->leaderPid, welcome->controlFd, welcome->controlBytes}, environment.worldSize,
                      environment.worldSize);
      return control.isOk() ? Result(Meeting{*control, nullptr}) : control.status();
    }
    bool isOver = millisecondsUntil(deadline) == 0;
    if (!isOver && !isWorthRetrying(welcome.status()))
      return welcome.status();
    if (isOver)
      return rankError(StatusCode::Timeout, 0, "rank {} waited {} ms for rank 0 at {}:{}: timed out; last attempt: {}",
                       environment.rank, settings.timeoutMs, environment.master.host, environment.master.port,
                       welcome.status().message());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Result<RankEnvironment> readRankEnvironment() {
  RankEnvironment environment;
  std::string problems;
  auto read = [&](const char *name) -> std::string_view {
    const char *text = variable(name);
    if (!text)
      problems += fmt::format("{}{} is not set", problems.empty() ? "" : "; ", name);
    return text ? text : "";
  };
  auto readNumber = [&](const char *name, int least, int most, const char *what) {
    std::string_view text = read(name);
    std::optional<int> value = parseInt(text, least, most);
    if (!value && !text.empty())
      problems += fmt::format("{}{}='{}' is not {}", problems.empty() ? "" : "; ", name, text, what);
    return value.value_or(least);
  };
  Result<LaunchedRank> place = readLaunchedRank();
  if (place.isOk()) {
    environment.worldSize = place->size;
    environment.rank = place->rank;
  } else {
    problems = place.status().message();
  }
  environment.master.host = read("MASTER_ADDR");
  environment.master.port = std::to_string(readNumber("MASTER_PORT", 1, 65535, "a port from 1 to 65535"));
  if (!problems.empty() && place.isOk())
    problems += fmt::format(" (rank {} of {} by {})", place->rank, place->size, place->variables);
  if (!problems.empty())
    return Status(StatusCode::InvalidArgument, problems);
  return environment;
}

Result<Meeting> meetByEnvironment(const RankEnvironment &environment, const Settings &settings) {
  Result<OptionalKey> secret = readSecret();
  if (!secret.isOk())
    return secret.status();
  return environment.rank == 0 ? hostRendezvous(environment, settings, *secret)
                               : joinRendezvous(environment, settings, *secret);
}

} // namespace kolo::runtime
