// Rank 0's side of the rendezvous.
#include "base/Error.h"
#include "bootstrap/MultiHostJoin.h"
#include "bootstrap/RendezvousAcceptor.h"
#include "network/NetworkChoice.h"
#include "peers/HostNetwork.h"

#include <fmt/ranges.h>

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>

namespace kolo::runtime {
namespace {

class Host {
public:
  Host(const RankEnvironment &ownEnvironment, const Settings &ownSettings, const OptionalKey &worldSecret)
      : environment(ownEnvironment), secret(worldSecret), timeoutMs(ownSettings.timeoutMs), start(Clock::now()),
        deadline(start + std::chrono::milliseconds(ownSettings.timeoutMs)),
        patientUntil(start + (deadline - start) / 2), settings(ownSettings),
        pids(static_cast<size_t>(ownEnvironment.worldSize), 0), hosts(pids.size()), hostNames(pids.size()) {}

  Result<Meeting> run();

private:
  Status gather();
  void answerLatecomers(const Welcome &refusal);
  bool listenOnce(Clock::time_point until);
  Status admit(AdmittedConnection &connection, const Result<Hello> &said);
  bool isThere(int rank);
  void refuseDuplicate(AdmittedConnection &connection, const Hello &hello);
  Result<Meeting> meetHere();
  Result<Meeting> meetHosts(const HostMap &map);
  Result<Meeting> refuse(const Status &status);
  Status gatherArrivals(std::vector<Arrival> &arrivals);
  Guidance guideAll(const HostMap &map, const std::vector<Arrival> &arrivals, const Status &refused);
  std::string ownAddress() const;
  Status missing() const;
  void answer(const Welcome &welcome, const HostMap &map = {});
  bool isComplete() const { return numHere == pids.size(); }

  std::vector<int> missingRanks() const;

  const RankEnvironment &environment;
  const OptionalKey &secret;
  int timeoutMs;
  Clock::time_point start, deadline, patientUntil;
  const Settings &settings;
  std::optional<RendezvousAcceptor> acceptor; // once this rank listens
  std::string listensAt;                      // for messages
  std::vector<int> pids;                      // by rank; 0: not here yet
  size_t numHere = 1;                         // ranks, with this one
  std::vector<HostId> hosts;
  std::vector<std::string> hostNames;
  Status refusal, duplicate; // duplicate: two processes have the same rank
};

Status Host::admit(AdmittedConnection &connection, const Result<Hello> &said) {
  if (!said.isOk())
    return said.status();
  const Hello &hello = *said;
  if (hello.worldSize != environment.worldSize)
    return rankError(StatusCode::Mismatch, hello.rank, "ranks disagree on WORLD_SIZE: rank 0 has {}, rank {} has {}",
                     environment.worldSize, hello.rank, hello.worldSize);
  if (hello.rank < 0 || hello.rank >= environment.worldSize)
    return error(StatusCode::Mismatch, "RANK {} is not below WORLD_SIZE {}", hello.rank, environment.worldSize);
  numHere += pids[static_cast<size_t>(hello.rank)] == 0;
  pids[static_cast<size_t>(hello.rank)] = hello.pid;
  hosts[static_cast<size_t>(hello.rank)] = hello.host;
  hostNames[static_cast<size_t>(hello.rank)] = hello.hostName;
  connection.rank = hello.rank;
  return {};
}

/// Whether the rank has said Hello and still waits. One that has ended makes room for another process.
bool Host::isThere(int rank) {
  if (pids[static_cast<size_t>(rank)] == 0)
    return false;
  std::vector<AdmittedConnection> &inside = acceptor->admitted();
  auto first = std::ranges::find(inside, rank, &AdmittedConnection::rank);
  if (first == inside.end())
    return true; // rank 0
  std::byte next;
  ssize_t got = recv(first->socket.descriptor(), &next, sizeof(next), MSG_PEEK | MSG_DONTWAIT);
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)))
    return true;
  inside.erase(first);
  return false;
}

/// The process that came first keeps the rank. The world ends only if another rank does not come: see gather.
void Host::refuseDuplicate(AdmittedConnection &connection, const Hello &hello) {
  const size_t rank = static_cast<size_t>(hello.rank);
  Status status = rankError(StatusCode::Mismatch, hello.rank,
                            "two processes have RANK={}: {} (host {}), which came first, and {} (host {}){}",
                            hello.rank, pids[rank], hostNames[rank], hello.pid, hello.hostName,
                            secret ? "" : "; one of them may be a stranger, as no secret is set");
  Welcome welcome;
  welcome.code = status.code();
  welcome.culprit = status.rank();
  welcome.message = status.message();
  WelcomeBytes bytes = write(welcome);
  (void)connection.socket.sendAll(bytes.data(), bytes.size(), Clock::now()); // fits into a new connection
  if (duplicate.isOk())
    duplicate = status;
}

/// Waits until something arrives, and receives it. The first error becomes `refusal`. False when the time is over.
bool Host::listenOnce(Clock::time_point until) {
  return acceptor->listen(until, [this](AdmittedConnection &connection, const Result<Hello> &hello) {
    const bool isRank = hello.isOk() && hello->worldSize == environment.worldSize && hello->rank >= 0 &&
                        hello->rank < environment.worldSize;
    if (isRank && isThere(hello->rank)) {
      refuseDuplicate(connection, *hello);
      return false;
    }
    if (Status status = admit(connection, hello); !status.isOk() && refusal.isOk())
      refusal = status;
    return true;
  });
}

std::vector<int> Host::missingRanks() const {
  std::vector<int> missing;
  for (size_t rank = 0; rank < pids.size(); ++rank)
    if (pids[rank] == 0)
      missing.push_back(static_cast<int>(rank));
  return missing;
}

Status Host::missing() const {
  std::vector<int> missing = missingRanks();
  std::string known = acceptor->describe(missing);
  if (size_t number = acceptor->numStrangers())
    known += fmt::format("{}connections that did not speak Kolo's protocol: {}", known.empty() ? "" : "; ", number);
  if (const char *lack = acceptor->whatIsLacking())
    return rankError(StatusCode::SystemError, 0, "rank 0 waited {} ms for rank {}, and cannot accept connections: {}",
                     timeoutMs, fmt::join(missing, ", "), lack);
  return rankError(StatusCode::Timeout, missing.front(),
                   "rank 0 waited {} ms at {}:{} for rank {}: timed out; it listens at {}{}{}", timeoutMs,
                   environment.master.host, environment.master.port, fmt::join(missing, ", "), listensAt,
                   known.empty() ? "" : "; ", known);
}

Status Host::gather() {
  while (!isComplete() && refusal.isOk()) {
    bool isPatient = Clock::now() < patientUntil; // anybody may come in the name of a rank that is there
    (void)listenOnce(isPatient ? patientUntil : deadline);
    if (!isComplete() && refusal.isOk() && Clock::now() >= deadline)
      return missing();
    if (!isComplete() && refusal.isOk() && Clock::now() >= patientUntil)
      refusal = duplicate;
    if (!acceptor->mayDisagree())
      continue;
    if (Status status = acceptor->disagreement(missingRanks()); !status.isOk() && refusal.isOk())
      refusal = status;
  }
  return refusal;
}

/// Answers everybody who has said Hello. Who gets an error gets nothing else.
void Host::answer(const Welcome &welcome, const HostMap &map) {
  const HostLayout layout(map);
  for (AdmittedConnection &connection : acceptor->admitted()) { // the join notices a rank that ended meanwhile
    Welcome own = welcome;
    if (connection.rank >= 0 && map.numHosts() > 1) {
      const std::vector<int> &here = layout.ranksOf(map.hostOf[static_cast<size_t>(connection.rank)]);
      own.leader = here.front();
      own.numHere = static_cast<int>(here.size());
    }
    WelcomeBytes bytes = write(own);
    (void)connection.socket.sendAll(bytes.data(), bytes.size(), Clock::now() + std::chrono::seconds(1));
  }
  if (map.numHosts() <= 1)
    acceptor->admitted().clear();
}

/// Answers ranks that come after an error. Without an answer they would try again until their timeout.
void Host::answerLatecomers(const Welcome &welcome) {
  Clock::time_point until = std::min(deadline, Clock::now() + std::chrono::seconds(1));
  answer(welcome);
  while (!isComplete() && listenOnce(until))
    answer(welcome);
}

Result<Meeting> Host::refuse(const Status &status) {
  Welcome welcome;
  welcome.code = status.code();
  welcome.culprit = status.rank();
  welcome.message = status.message();
  answerLatecomers(welcome);
  return status;
}

/// All ranks are on this host.
Result<Meeting> Host::meetHere() {
  Result<std::shared_ptr<ControlMemory>> shared =
      createControl(RankKind::Processes, environment.worldSize, environment.worldSize);
  if (!shared.isOk())
    return refuse(shared.status());
  for (int rank = 0; rank < environment.worldSize; ++rank)
    (*shared)->control.block(rank).pid.store(pids[static_cast<size_t>(rank)]);
  Welcome welcome;
  welcome.leader = 0;
  welcome.leaderPid = getpid();
  welcome.controlFd = (*shared)->memory.fd();
  welcome.controlBytes = (*shared)->memory.sizeBytes();
  answer(welcome);
  return Meeting{*shared, nullptr};
}

/// The address of this rank by which a rank of another host reached it.
std::string Host::ownAddress() const {
  for (const AdmittedConnection &connection : acceptor->admitted())
    if (connection.rank >= 0 && hosts[static_cast<size_t>(connection.rank)] != hosts[0])
      return localAddress(connection.socket);
  return {};
}

Status Host::gatherArrivals(std::vector<Arrival> &arrivals) {
  Status first;
  for (AdmittedConnection &connection : acceptor->admitted()) {
    if (connection.rank < 0)
      continue;
    ArrivalBytes bytes = {};
    Result<size_t> got = connection.socket.receive(bytes.data(), bytes.size(), deadline);
    Result<Arrival> place = got.isOk() && *got == bytes.size() ? parseArrival(bytes) : Result<Arrival>(Arrival());
    Status status = place.isOk() ? place->refusal : place.status();
    if (!got.isOk() || *got != bytes.size())
      status = rankError(got.isOk() ? StatusCode::PeerLost : got.status().code(), connection.rank,
                         "rank {} (host {}) said Hello, and then not where it listens: {}", connection.rank,
                         hostNames[static_cast<size_t>(connection.rank)],
                         got.isOk() ? "its connection ended" : got.status().message());
    if (!status.isOk() && first.isOk())
      first = rankError(status.code(), connection.rank, "rank {}: {}", connection.rank, status.message());
    if (status.isOk())
      arrivals[static_cast<size_t>(connection.rank)] = *place;
  }
  return first;
}

/// Ranks are on several hosts.
Result<Meeting> Host::meetHosts(const HostMap &map) {
  Welcome welcome;
  welcome.numHosts = map.numHosts();
  welcome.world = randomWorld();
  answer(welcome, map);
  deadline = Clock::now() + std::chrono::milliseconds(timeoutMs); // as for the others, however late the last one came
  MultiHostJoin join({environment.rank, environment.worldSize, 0, static_cast<int>(map.ranksOf(0).size())},
                     {welcome.world, secret}, settings);
  std::vector<Arrival> arrivals(pids.size());
  arrivals[0] = join.listen(ownAddress());
  const Status status = gatherArrivals(arrivals);
  const Status refused = arrivals[0].refusal.isOk() ? status : arrivals[0].refusal;
  return join.meetBy(guideAll(map, arrivals, refused));
}

/// Tells each other rank what it must know, or why there is no world. Returns what this rank must know.
Guidance Host::guideAll(const HostMap &map, const std::vector<Arrival> &arrivals, const Status &refused) {
  std::vector<Endpoint> endpoints;
  for (const Arrival &each : arrivals)
    endpoints.push_back(each.endpoint);
  Guidance guidance;
  Result<std::string> provider = refused.isOk() ? HostNetwork::choose(endpoints) : Result<std::string>(refused);
  guidance.refusal = provider.status();
  std::vector<std::vector<int>> ranksOf(static_cast<size_t>(map.numHosts()));
  for (size_t rank = 0; rank < pids.size(); ++rank) {
    ranksOf[static_cast<size_t>(map.hostOf[rank])].push_back(static_cast<int>(rank));
    if (guidance.refusal.isOk())
      (void)takeOffer(endpoints[rank]);
  }
  const GuideBook book(ranksOf, map.names, pids, std::move(endpoints), provider.isOk() ? *provider : "");
  auto guide = [&](int rank) {
    const Arrival &leader =
        arrivals[static_cast<size_t>(ranksOf[static_cast<size_t>(map.hostOf[static_cast<size_t>(rank)])].front())];
    guidance.control = {leader.pid, leader.controlFd, leader.controlBytes};
    if (guidance.refusal.isOk())
      guidance.guide = book.guideFor(rank);
  };
  for (AdmittedConnection &connection : acceptor->admitted()) {
    if (connection.rank < 0)
      continue;
    guide(connection.rank);
    std::vector<std::byte> bytes = write(guidance);
    (void)connection.socket.sendAll(bytes.data(), bytes.size(), deadline);
  }
  acceptor->admitted().clear();
  guide(0);
  return guidance;
}

Result<Meeting> Host::run() {
  Result<HostId> own = currentHost();
  if (!own.isOk())
    return own.status();
  pids[0] = getpid();
  hosts[0] = *own;
  hostNames[0] = hostName();
  allowDescriptors(pids.size() + RendezvousAcceptor::maxPending(environment.worldSize));
  Result<Listener> listening = listenAt(environment.master);
  if (!listening.isOk())
    return listening.status();
  listensAt = listening->where;
  acceptor.emplace(std::move(listening->socket), secret, environment.worldSize, patientUntil);
  if (Status status = gather(); !status.isOk())
    return refuse(status);
  HostMap map = mapHosts(hosts, hostNames);
  return map.numHosts() == 1 ? meetHere() : meetHosts(map);
}

} // namespace

Result<Meeting> hostRendezvous(const RankEnvironment &environment, const Settings &settings,
                               const OptionalKey &secret) {
  return Host(environment, settings, secret).run();
}

} // namespace kolo::runtime
