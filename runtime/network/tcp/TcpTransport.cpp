#include "network/tcp/TcpTransport.h"

#include "base/Error.h"
#include "network/tcp/Leave.h"
#include "network/tcp/SocketAddress.h"

#include <unistd.h>

#include <utility>

namespace kolo::runtime::tcp {
namespace {

/// From so many queued bytes on, a put starts sending before its signal comes.
constexpr uint64_t manyQueuedBytes = 256 << 10;
/// A flush looks for failures and for the timeout this often.
constexpr std::chrono::milliseconds flushInterval{50};

TcpOptions withoutKey(TcpOptions options) {
  options.key.reset();
  return options;
}

Status notConnected(int rank) { return error(StatusCode::InvalidArgument, "rank {} is not connected", rank); }

Status stateIn(const ConnectionTable &connections, const TcpProgress &work, int peer) {
  Status failed = work.failures().of(peer);
  return failed.isOk() && connections.isLeaving(peer) ? rankError(StatusCode::PeerLost, peer, "rank {} has left", peer)
                                                      : failed;
}

/// Asks for the connection of the path, if there is none.
Status checkPath(Path path, ConnectionTable &connections, TcpProgress &work, const TcpOptions &options) {
  if (path.peer < 0 || path.peer >= options.numRanks || path.peer == options.rank)
    return error(StatusCode::InvalidArgument, "rank {} is not a peer of rank {} of {}", path.peer, options.rank,
                 options.numRanks);
  if (!connections.hasBegun())
    return notConnected(options.rank);
  if (!connections.find(path))
    work.ask(path.peer);
  if (!connections.find(path))
    return error(StatusCode::InvalidArgument, "rank {} is not connected to rank {}", options.rank, path.peer);
  return stateIn(connections, work, path.peer);
}

/// Blocks until all that is queued for the path is with the kernel.
Status flushPath(Path path, ConnectionTable &connections, TcpProgress &work, const TcpOptions &options) {
  const Counter none = {};
  Connection &one = *connections.find(path);
  SendQueue &queue = one.toSend();
  const uint64_t goal = queue.numQueued();
  uint64_t numTaken = queue.numBytesSent();
  Clock::time_point lastTaken = Clock::now();
  while (true) {
    if (Status status = stateIn(connections, work, path.peer); !status.isOk())
      return status;
    queue.send();
    if (queue.hasSent(goal) &&
        connections.isWhole(path.peer)) // who leaves afterwards must be able to say goodbye on all
      return {};
    // Nothing more is received there before the next registration.
    if (queue.isBroken() && one.received().isBlocked(work.registrations()))
      return work.fail(queue.whyBroken());
    if (options.mustStop && options.mustStop())
      return rankError(StatusCode::Aborted, path.peer, "rank {} stopped while rank {} took no data", options.rank,
                       path.peer);
    (void)work.idle(none, 1, Clock::now() + flushInterval); // another peer's failure does not end this
    if (uint64_t now = queue.numBytesSent(); std::exchange(numTaken, now) != now)
      lastTaken = Clock::now();
    if (Clock::now() - lastTaken < std::chrono::milliseconds(options.timeoutMs))
      continue;
    std::string text = fmt::format("rank {} waited {} ms for rank {} to take data: timed out", options.rank,
                                   options.timeoutMs, path.peer);
    Status trouble = work.troubleWith(path.peer);
    return trouble.isOk() ? rankError(StatusCode::Timeout, path.peer, "{}", text)
                          : withTrouble(text, trouble, options.rank);
  }
}

} // namespace

TcpTransport::TcpTransport(const TcpOptions &given)
    : options(withoutKey(given)), key(given.key), creatorPid(getpid()),
      connections(given.numRanks, given.connectionsPerPeer, options.receiveMail), work(given.numRanks, connections) {}

TcpTransport::~TcpTransport() {
  if (getpid() != creatorPid)
    return;
  work.refuseOthers();
  leave(connections, options.mustStop, std::chrono::milliseconds(options.timeoutMs));
}

Result<std::unique_ptr<TcpTransport>> TcpTransport::create(const TcpOptions &options) {
  if (options.numRanks < 1 || options.rank < 0 || options.rank >= options.numRanks)
    return error(StatusCode::InvalidArgument, "rank {} of {}", options.rank, options.numRanks);
  if (options.connectionsPerPeer < 1 || options.connectionsPerPeer > 64)
    return error(StatusCode::InvalidArgument, "between 1 and 64 connections to each peer, not {}",
                 options.connectionsPerPeer);
  std::unique_ptr<TcpTransport> made(new TcpTransport(options));
  allowDescriptors(static_cast<size_t>(options.numRanks) * made->connections.numPerPeer() + ConnectionSetup::maxSilent);
  Result<Socket> listening = listenAtHost(options.listenAt, made->address);
  if (!listening.isOk())
    return listening.status();
  made->listener = std::move(listening).value();
  return made;
}

/// `now`: whom this rank connects to at once.
Status TcpTransport::connect(std::span<const Endpoint> endpoints, const std::vector<bool> &now, bool othersFollow) {
  if (endpoints.size() != static_cast<size_t>(options.numRanks) || connections.hasBegun())
    return error(StatusCode::InvalidArgument, "{} endpoints for {} ranks, or connected already", endpoints.size(),
                 options.numRanks);
  Hello own;
  own.numConnections = connections.numPerPeer();
  own.hasMail = connections.hasMail();
  own.rank = static_cast<uint32_t>(options.rank);
  own.numRanks = static_cast<uint32_t>(options.numRanks);
  own.world = options.world;
  bool mayComeLater = othersFollow;
  for (size_t rank = 0; rank < endpoints.size(); ++rank)
    mayComeLater |= !now[rank] && endpoints[rank] != Endpoint() && static_cast<int>(rank) != options.rank;
  const int longestMs = options.connectMs ? options.connectMs : options.timeoutMs;
  auto setup = std::make_unique<ConnectionSetup>(
      SetupOptions{own, key, longestMs, mayComeLater, options.mustStop, options.progress}, std::move(listener),
      endpoints);
  key.reset();
  std::vector<Established> met;
  Status status = setup->meetAll(now, met);
  connections.begin();
  work.attach(std::move(met));
  hasStarted = status.isOk();
  if (hasStarted && mayComeLater)
    work.setUpLater(std::move(setup));
  return status;
}

Status TcpTransport::connect(std::span<const Endpoint> endpoints) {
  return connect(endpoints, std::vector<bool>(endpoints.size(), true), false);
}

/// The kernel stores what arrives: in memory of the host alone.
Status TcpTransport::registerMemory(const Registration &registration) {
  for (const Region &region : registration.regions)
    if (region.owner.kind != RegionOwner::Kind::Host)
      return tryMemory(region);
  if (registration.makeVisible)
    return tryMemory({});
  Status status = work.registrations().add(registration);
  work.wakeAll();
  return status.code() == StatusCode::Mismatch ? work.fail(status) : status;
}

void TcpTransport::release(uint64_t agreement) {
  work.registrations().remove(agreement);
  work.endReceiving(agreement);
}

Status TcpTransport::renew(uint64_t agreement, uint64_t next, std::span<const Region> regions) {
  Status status = work.registrations().renew(agreement, next, regions);
  work.endReceiving(agreement);
  work.wakeAll();
  return status;
}

Status TcpTransport::put(Path path, RemotePlace place, const void *src, uint64_t sizeBytes) {
  Status status = hasStarted ? checkPath(path, connections, work, options) : notConnected(options.rank);
  if (!status.isOk() || sizeBytes == 0)
    return status;
  if (sizeBytes > maxPutBytes)
    return error(StatusCode::InvalidArgument, "a put of {} bytes, more than {}", sizeBytes, maxPutBytes);
  Message message;
  message.kind = MessageKind::Put;
  message.role = place.role;
  message.agreement = place.agreement;
  message.offsetBytes = place.offsetBytes;
  message.sizeBytes = sizeBytes;
  message.lane = path.lane;
  SendQueue &queue = connections.find(path)->toSend();
  if (queue.hasBytes(manyQueuedBytes)) // what is queued goes first; this put then waits for its signal
    queue.send();
  queue.push(message, static_cast<const std::byte *>(src));
  return {};
}

Status TcpTransport::signal(Path path, RemoteSignal signal) {
  Status status = hasStarted ? checkPath(path, connections, work, options) : notConnected(options.rank);
  if (!status.isOk())
    return status;
  if (signal.count == 0 || signal.count >= endOfCounts)
    return error(StatusCode::InvalidArgument, "a signal with count {}", signal.count);
  Message message;
  message.kind = MessageKind::Signal;
  message.signalAgreement = signal.agreement;
  message.lane = path.lane;
  message.semaphore = signal.semaphore;
  message.count = signal.count;
  SendQueue &queue = connections.find(path)->toSend();
  queue.push(message, nullptr);
  queue.send();
  return {};
}

Status TcpTransport::mail(int peer, std::span<const std::byte> text) {
  Status status = checkPath({peer, 0}, connections, work, options);
  if (!status.isOk())
    return status;
  if (text.empty() || text.size() > maxMailBytes || !connections.hasMail())
    return error(StatusCode::InvalidArgument, "a mail of {} bytes", text.size());
  SendQueue &queue = connections.forMail(peer)->toSend();
  queue.pushMail(text);
  mailsSent.fetch_add(1, std::memory_order_relaxed);
  queue.send();
  return {};
}

void TcpTransport::setPatience(int peer, bool isPatient) {
  if (Connection *one = connections.forMail(peer))
    one->setPatience(isPatient, options.timeoutMs);
}

bool TcpTransport::hasSentMails(int peer) const {
  const Connection *one = connections.forMail(peer);
  return !one || one->toSend().isEmpty();
}

Status TcpTransport::flush(uint32_t lane) {
  Status first;
  for (Connection *one = connections.newest(); one; one = one->olderOne()) {
    const SendQueue &queue = one->toSend();
    const Path path{one->peerRank(), lane};
    if ((!queue.isEmpty() || (queue.hasSent(1) && !isWhole(path.peer))) && one == connections.find(path))
      if (Status status = flushPath(path, connections, work, options); !status.isOk() && first.isOk())
        first = status;
  }
  return first;
}

/// The messages of all lanes of the connection, which leave in order.
PutCounts TcpTransport::countPuts(Path path) const {
  const Connection *one = connections.find(path);
  return one && stateOf(path.peer).isOk() ? PutCounts{one->toSend().numQueued(), one->toSend().numSentSoFar()}
                                          : noPutsUnderWay;
}

Status TcpTransport::stateOf(int peer) const { return stateIn(connections, work, peer); }

} // namespace kolo::runtime::tcp
