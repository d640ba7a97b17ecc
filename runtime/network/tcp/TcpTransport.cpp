#include "network/tcp/TcpTransport.h"

#include "base/Error.h"
#include "network/tcp/SocketAddress.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace kolo::runtime::tcp {
namespace {

/// From so many queued bytes on, a put starts sending before its signal comes.
constexpr uint64_t manyQueuedBytes = 256 << 10;
/// With at most so many connections it is faster to ask each of them than to ask which are ready.
constexpr size_t fewConnections = 4;
/// A rank that does not sleep looks for new connections in one of so many looks.
constexpr uint32_t looksPerGreeting = 16;
/// A rank that sleeps looks this often whether a connection must be opened.
constexpr std::chrono::milliseconds greetInterval{5};
/// A flush looks for failures and for the timeout this often.
constexpr std::chrono::milliseconds flushInterval{50};
/// A rank that leaves looks this often whether its peers have everything.
constexpr std::chrono::microseconds drainInterval{200};
/// After a failure it waits so long for a peer that takes nothing.
constexpr std::chrono::milliseconds lastPatience{250};
/// The longest sleep once a peer has failed.
constexpr std::chrono::milliseconds failedInterval{1};

TcpOptions withoutKey(TcpOptions options) {
  options.key.reset();
  return options;
}

} // namespace

TcpTransport::TcpTransport(const TcpOptions &given)
    : options(withoutKey(given)), key(given.key), creatorPid(getpid()), registrations(given.numRanks) {}

TcpTransport::~TcpTransport() {
  if (getpid() == creatorPid)
    leave();
}

/// Says goodbye, and waits until the peers' kernels have all that was said. Peers that take nothing are given up after
/// the timeout; those of which one connection is broken, at once. After a failure only mails get time, and little:
/// peers must learn its cause before they see that this rank has ended.
void TcpTransport::leave() {
  if (setup)
    setup->close(); // who comes from now on learns that nobody is here
  setup.reset();
  std::vector<Connection *> mails, others;
  const bool isAborted = newestOne() && isStopped();
  for (Connection *one = newestOne(); one; one = one->olderOne())
    if (one->isOpen())
      (isAborted && one->isForMail() ? mails : others).push_back(one);
  drain(std::move(mails), lastPatience);
  drain(std::move(others), std::chrono::milliseconds(isAborted ? 0 : options.timeoutMs));
}

/// Says goodbye on these connections, and gives up those on which the peer takes nothing for so long.
void TcpTransport::drain(std::vector<Connection *> open, std::chrono::milliseconds patience) {
  for (Connection *one : open)
    one->sayGoodbye();
  uint64_t numLeft = UINT64_MAX;
  Clock::time_point lastChange = Clock::now();
  while (true) {
    std::vector<int> unreachable;
    std::erase_if(open, [&](Connection *one) {
      Connection::Drain state = one->drain();
      if (state == Connection::Drain::Broken)
        unreachable.push_back(one->peerRank());
      return state != Connection::Drain::Goes;
    });
    std::erase_if(
        open, [&](Connection *one) { return std::ranges::find(unreachable, one->peerRank()) != unreachable.end(); });
    uint64_t number = 0;
    for (const Connection *one : open)
      number += one->numUnconfirmed();
    if (std::exchange(numLeft, number) != number)
      lastChange = Clock::now();
    if (open.empty() || Clock::now() - lastChange >= (isStopped() ? std::min(patience, lastPatience) : patience))
      return;
    std::this_thread::sleep_for(drainInterval);
  }
}

Result<std::unique_ptr<TcpTransport>> TcpTransport::create(const TcpOptions &options) {
  if (options.numRanks < 1 || options.rank < 0 || options.rank >= options.numRanks)
    return error(StatusCode::InvalidArgument, "rank {} of {}", options.rank, options.numRanks);
  if (options.connectionsPerPeer < 1 || options.connectionsPerPeer > 64)
    return error(StatusCode::InvalidArgument, "between 1 and 64 connections to each peer, not {}",
                 options.connectionsPerPeer);
  std::unique_ptr<TcpTransport> made(new TcpTransport(options));
  allowDescriptors(static_cast<size_t>(options.numRanks) * made->numConnections() + ConnectionSetup::maxSilent);
  Result<Socket> listening = listenAtHost(options.listenAt, made->address);
  if (!listening.isOk())
    return listening.status();
  made->listener = std::move(listening).value();
  return made;
}

Status TcpTransport::registerMemory(const Registration &registration) {
  Status status = registrations.add(registration);
  wakeOthers();
  return status.code() == StatusCode::Mismatch ? fail(status) : status;
}

void TcpTransport::release(uint64_t agreement) {
  registrations.remove(agreement);
  endReceiving(agreement);
}

Status TcpTransport::renew(uint64_t agreement, uint64_t next, std::span<const Region> regions) {
  Status status = registrations.renew(agreement, next, regions);
  endReceiving(agreement);
  wakeOthers();
  return status;
}

void TcpTransport::endReceiving(uint64_t agreement) {
  for (Connection *one = newestOne(); one; one = one->olderOne())
    if (one->isReceiving(agreement))
      (void)fail(rankError(StatusCode::Mismatch, one->peerRank(),
                           "rank {} still puts data of agreement {}, which ended", one->peerRank(), agreement));
}

static Status notConnected(int rank) { return error(StatusCode::InvalidArgument, "rank {} is not connected", rank); }

Status TcpTransport::checkPath(Path path) {
  if (path.peer < 0 || path.peer >= options.numRanks || path.peer == options.rank)
    return error(StatusCode::InvalidArgument, "rank {} is not a peer of rank {} of {}", path.peer, options.rank,
                 options.numRanks);
  if (!places)
    return notConnected(options.rank);
  if (!isConnected(path.peer))
    ask(path.peer);
  if (!isConnected(path.peer))
    return error(StatusCode::InvalidArgument, "rank {} is not connected to rank {}", options.rank, path.peer);
  return stateOf(path.peer);
}

Status TcpTransport::put(Path path, RemotePlace place, const void *src, uint64_t sizeBytes) {
  Status status = hasStarted ? checkPath(path) : notConnected(options.rank);
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
  Connection &to = connection(path);
  bool isBusy = to.hasQueuedBytes(manyQueuedBytes);
  if (isBusy) // what is queued goes first; this put then waits for its signal
    status = to.send();
  to.enqueue(message, static_cast<const std::byte *>(src));
  return status.isOk() ? status : fail(status);
}

Status TcpTransport::signal(Path path, RemoteSignal signal) {
  Status status = hasStarted ? checkPath(path) : notConnected(options.rank);
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
  Connection &to = connection(path);
  to.enqueue(message, nullptr);
  status = to.send();
  return status.isOk() ? status : fail(status);
}

Status TcpTransport::mail(int peer, std::span<const std::byte> text) {
  Status status = checkPath({peer, 0});
  if (!status.isOk())
    return status;
  if (text.empty() || text.size() > maxMailBytes || !options.receiveMail)
    return error(StatusCode::InvalidArgument, "a mail of {} bytes", text.size());
  Connection &to = *forMail(peer);
  to.enqueueMail(text);
  mailsSent.fetch_add(1, std::memory_order_relaxed);
  status = to.send();
  return status.isOk() ? status : fail(status);
}

/// Blocks until all that is queued for the path is with the kernel.
Status TcpTransport::flushPath(Path path) {
  const Counter none = {};
  Connection &to = connection(path);
  const uint64_t goal = to.numQueued();
  uint64_t numTaken = to.numBytesSent();
  Clock::time_point lastTaken = Clock::now();
  while (true) {
    if (Status status = stateOf(path.peer); !status.isOk())
      return status;
    if (Status status = to.send(); !status.isOk())
      return fail(status);
    if (to.hasSent(goal) && isWhole(path.peer)) // who leaves afterwards must be able to say goodbye on all
      return {};
    if (to.isBroken() && to.isBlocked(registrations)) // nothing more is received there before the next registration
      return fail(to.whyBroken());
    if (isStopped())
      return rankError(StatusCode::Aborted, path.peer, "rank {} stopped while rank {} took no data", options.rank,
                       path.peer);
    (void)idle(none, 1, Clock::now() + flushInterval); // another peer's failure does not end this
    if (uint64_t now = to.numBytesSent(); now != numTaken) {
      numTaken = now;
      lastTaken = Clock::now();
    }
    if (Clock::now() - lastTaken >= std::chrono::milliseconds(options.timeoutMs))
      return timeout(path.peer);
  }
}

Status TcpTransport::timeout(int peer) const {
  std::string text =
      fmt::format("rank {} waited {} ms for rank {} to take data: timed out", options.rank, options.timeoutMs, peer);
  Status trouble = troubleWith(peer);
  return trouble.isOk() ? rankError(StatusCode::Timeout, peer, "{}", text) : withTrouble(text, trouble, options.rank);
}

Status TcpTransport::flush(uint32_t lane) {
  Status first;
  for (Connection *one = newestOne(); one; one = one->olderOne())
    if ((one->hasToSend() || (one->hasSent(1) && !isWhole(one->peerRank()))) && one == find({one->peerRank(), lane}))
      if (Status status = flushPath({one->peerRank(), lane}); !status.isOk() && first.isOk())
        first = status;
  return first;
}

/// Sends and receives on one connection.
Status TcpTransport::work(Connection &one, bool &hasRaised) {
  Status status = one.receive(registrations, hasRaised);
  if (status.isOk() && one.hasToSend())
    status = one.send();
  return status;
}

/// Waits until a connection is ready, and works on those that are.
Status TcpTransport::look(const timespec *mostTime, int wakeUp) {
  thread_local std::vector<pollfd> entries;
  thread_local std::vector<Connection *> waited; // by entry, without the first one
  const timespec none = {}, soon = {0, std::chrono::nanoseconds(greetInterval).count()};
  entries.assign(1, {wakeUp, POLLIN, 0});
  waited.clear();
  bool mustRest = false;
  for (Connection *one = newestOne(); one; one = one->olderOne()) {
    short events = 0;
    const bool hasToSend = one->isOpen() && one->hasToSend() && !one->isBroken(), rests = hasToSend && one->rests();
    mustRest |= rests;
    if (one->isOpen())
      events = static_cast<short>((one->isBlocked(registrations) ? 0 : POLLIN) | (hasToSend && !rests ? POLLOUT : 0));
    if (events) {
      entries.push_back({one->descriptor(), events, 0});
      waited.push_back(one);
    }
    if (one->isOpen() && one->mustResume(registrations))
      mostTime = &none;
  }
  size_t numEstablished = entries.size();
  bool mustGreet = setup && setup->addTo(entries);
  bool isShort = (mustGreet || mustRest) && (mostTime->tv_sec > 0 || mostTime->tv_nsec > soon.tv_nsec);
  bool mayResume = mostTime->tv_sec == 0 && mostTime->tv_nsec == 0;
  int numReady = waitForAny(entries, isShort ? &soon : mostTime);
  bool hasRaised = false;
  Status first;
  for (size_t index = 0; (numReady > 0 || mayResume) && index < waited.size(); ++index)
    if (entries[index + 1].revents != 0 || waited[index]->mustResume(registrations))
      if (Status status = work(*waited[index], hasRaised); !status.isOk() && first.isOk())
        first = fail(status);
  for (; numEstablished < entries.size() && !mustGreet; ++numEstablished)
    mustGreet = entries[numEstablished].revents != 0;
  if (mustGreet)
    greet();
  if (hasRaised)
    wakeOthers(wakeUp);
  return first;
}

Status TcpTransport::progress() {
  bool areFew = numAttached.load(std::memory_order_relaxed) <= fewConnections &&
                (!setup || numLooks.fetch_add(1, std::memory_order_relaxed) % looksPerGreeting != 0);
  const timespec none = {};
  Status status = areFew ? Status() : look(&none, -1);
  bool hasRaised = false;
  for (Connection *one = newestOne(); areFew && one; one = one->olderOne())
    if (one->isOpen())
      if (Status failed = work(*one, hasRaised); !failed.isOk())
        status = fail(failed);
  if (hasRaised)
    wakeOthers();
  return firstFailure();
}

Result<TcpTransport::Sleeper *> TcpTransport::lieDown() {
  std::scoped_lock lock(sleeping);
  auto place = std::ranges::find(sleepers, false, &Sleeper::isThere);
  if (place == sleepers.end()) {
    Socket made(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!made.isOpen())
      return systemError("eventfd", errno);
    sleepers.push_back({std::move(made)});
    place = std::prev(sleepers.end());
  }
  place->isThere = true;
  numIdle.fetch_add(1, std::memory_order_seq_cst);
  return &*place;
}

void TcpTransport::getUp(Sleeper &sleeper) {
  std::scoped_lock lock(sleeping);
  uint64_t ignored = 0;
  (void)!::read(sleeper.wakeUp.descriptor(), &ignored, sizeof(ignored));
  sleeper.isThere = false;
  numIdle.fetch_sub(1, std::memory_order_seq_cst);
}

/// Called after a counter was raised. A sleeper counts itself first and looks at its counter then, so it misses
/// nothing.
void TcpTransport::wakeOthers(int ownWakeUp) {
  if (numIdle.load(std::memory_order_seq_cst) <= (ownWakeUp >= 0 ? 1 : 0))
    return;
  std::scoped_lock lock(sleeping);
  uint64_t one = 1;
  for (const Sleeper &sleeper : sleepers)
    if (sleeper.isThere && sleeper.wakeUp.descriptor() != ownWakeUp)
      (void)!::write(sleeper.wakeUp.descriptor(), &one, sizeof(one));
}

Status TcpTransport::idle(const Counter &counter, uint64_t target, Clock::time_point until) {
  Result<Sleeper *> sleeper = lieDown();
  if (!sleeper.isOk())
    return sleeper.status();
  if (!counter.hasReached(target)) {
    // After a failure whoever waits must look for others soon.
    bool isShort = hasFailed.load(std::memory_order_seq_cst);
    timespec left = timeUntil(isShort ? std::min(until, Clock::now() + failedInterval) : until);
    (void)look(&left, (*sleeper)->wakeUp.descriptor());
  }
  getUp(**sleeper);
  return firstFailure();
}

/// Records a failure and ends all connections with the rank at fault. If that has ended, its last mail may say why.
Status TcpTransport::fail(const Status &cause) {
  if (cause.code() == StatusCode::PeerLost && options.receiveMail)
    if (Connection *mails = forMail(cause.rank())) {
      bool hasRaised = false; // by no mail
      (void)mails->receive(registrations, hasRaised);
    }
  {
    std::scoped_lock lock(failing);
    if (failure.isOk())
      failure = cause;
    failureOf.try_emplace(cause.rank(), cause);
  }
  hasFailed.store(true, std::memory_order_seq_cst);
  for (Connection *one = newestOne(); one; one = one->olderOne())
    if (one->peerRank() == cause.rank())
      one->end();
  wakeOthers();
  return cause;
}

Status TcpTransport::firstFailure() const {
  if (!hasFailed.load(std::memory_order_acquire))
    return {};
  std::scoped_lock lock(failing);
  return failure;
}

bool TcpTransport::hasLeft(int peer) const {
  size_t first = indexOf({peer, 0});
  for (size_t i = first; i < first + numConnections(); ++i)
    if (const Connection *one = at(i); !one || !one->hasPeerLeft())
      return false;
  return true;
}

bool TcpTransport::hasFailedWith(int peer) const {
  if (!hasFailed.load(std::memory_order_acquire))
    return false;
  std::scoped_lock lock(failing);
  return failureOf.contains(peer);
}

Status TcpTransport::refusal() const {
  if (!hasFailed.load(std::memory_order_acquire))
    return {};
  std::scoped_lock lock(failing);
  for (const auto &[peer, status] : failureOf)
    if (status.code() == StatusCode::Mismatch)
      return status;
  return {};
}

Status TcpTransport::stateOf(int peer) const {
  if (hasFailed.load(std::memory_order_acquire)) {
    std::scoped_lock lock(failing);
    if (auto found = failureOf.find(peer); found != failureOf.end())
      return found->second;
  }
  size_t first = indexOf({peer, 0});
  for (size_t i = first; i < first + numConnections(); ++i)
    if (const Connection *one = at(i); one && one->hasPeerLeft())
      return rankError(StatusCode::PeerLost, peer, "rank {} has left", peer);
  return {};
}

} // namespace kolo::runtime::tcp
