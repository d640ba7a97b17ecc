#include "network/tcp/TcpProgress.h"

#include "base/Error.h"

#include <algorithm>
#include <utility>

namespace kolo::runtime::tcp {
namespace {

/// With at most so many connections it is faster to ask each of them than to ask which are ready.
constexpr size_t fewConnections = 4;
/// A rank that does not sleep looks for new connections in one of so many looks.
constexpr uint32_t looksPerMeeting = 16;
/// A rank that sleeps looks this often whether a connection must be opened.
constexpr std::chrono::milliseconds meetInterval{5};
/// The longest sleep once a peer has failed.
constexpr std::chrono::milliseconds failedInterval{1};

/// What a look waits for, of one connection; 0: nothing. `mustRest`: the kernel lacks memory to send on it.
short eventsOf(Connection &one, const Registrations &registrations, bool &mustRest) {
  if (!one.isOpen())
    return 0;
  const SendQueue &queue = one.toSend();
  const bool hasToSend = !queue.isEmpty() && !queue.isBroken(), rests = hasToSend && queue.rests();
  mustRest |= rests;
  return static_cast<short>((one.received().isBlocked(registrations) ? 0 : POLLIN) |
                            (hasToSend && !rests ? POLLOUT : 0));
}

} // namespace

void TcpProgress::attach(std::vector<Established> met) {
  for (Established &one : met) {
    const auto peer = static_cast<int>(one.hello.rank);
    connections.make(peer);
    if (!failed.of(peer).isOk())
      continue;
    Connection &attached = connections.attach(one.hello, std::move(one.socket));
    if (!failed.of(peer).isOk()) // meanwhile
      attached.end();
    attached.toSend().send(); // what was said before
    wakeAll();                // sleepers do not look at this connection yet
  }
}

void TcpProgress::refuseOthers() {
  if (setup)
    setup->close();
  setup.reset();
}

void TcpProgress::ask(int peer) {
  if (!setup || !setup->mayMeet(peer))
    return;
  connections.make(peer);
  setup->want(peer);
}

/// Lets peers connect, and connects to those that were asked for.
void TcpProgress::meet() {
  std::unique_lock lock(meeting, std::try_to_lock);
  if (!lock)
    return;
  std::vector<Established> met;
  std::vector<Status> failures;
  setup->progress(met, failures);
  attach(std::move(met));
  for (const Status &failure : failures)
    if (failure.code() != StatusCode::PeerLost || !connections.closeMissing(failure.rank()))
      (void)fail(failure);
}

/// Waits until a connection is ready, and works on those that are.
void TcpProgress::look(timespec most, int wakeUp) {
  thread_local std::vector<pollfd> entries;
  thread_local std::vector<Connection *> waited; // by entry, without the first one
  entries.assign(1, {wakeUp, POLLIN, 0});
  waited.clear();
  bool mustRest = false, mustResume = false;
  for (Connection *one = connections.newest(); one; one = one->olderOne()) {
    if (short events = eventsOf(*one, registered, mustRest)) {
      entries.push_back({one->descriptor(), events, 0});
      waited.push_back(one);
    }
    mustResume |= one->isOpen() && one->received().mustResume(registered);
  }
  size_t numOwn = entries.size();
  bool mustMeet = setup && setup->addTo(entries);
  if (mustResume)
    most = {};
  constexpr timespec soon = {0, std::chrono::nanoseconds(meetInterval).count()};
  if ((mustMeet || mustRest) && (most.tv_sec > 0 || most.tv_nsec > soon.tv_nsec))
    most = soon;
  const bool mayResume = most.tv_sec == 0 && most.tv_nsec == 0;
  int numReady = waitForAny(entries, &most);
  bool hasRaised = false;
  for (size_t index = 0; (numReady > 0 || mayResume) && index < waited.size(); ++index)
    if (entries[index + 1].revents != 0 || waited[index]->received().mustResume(registered))
      if (Status status = waited[index]->work(registered, hasRaised); !status.isOk())
        (void)fail(status);
  for (; numOwn < entries.size() && !mustMeet; ++numOwn)
    mustMeet = entries[numOwn].revents != 0;
  if (mustMeet)
    meet();
  if (hasRaised)
    sleepers.wake(wakeUp);
}

Status TcpProgress::progress() {
  bool areFew = connections.numAttached() <= fewConnections &&
                (!setup || numLooks.fetch_add(1, std::memory_order_relaxed) % looksPerMeeting != 0);
  if (!areFew)
    look({}, -1);
  bool hasRaised = false;
  for (Connection *one = connections.newest(); areFew && one; one = one->olderOne())
    if (one->isOpen())
      if (Status status = one->work(registered, hasRaised); !status.isOk())
        (void)fail(status);
  if (hasRaised)
    wakeAll();
  return failed.first();
}

Status TcpProgress::idle(const Counter &counter, uint64_t target, Clock::time_point until) {
  Sleepers::Sleeper sleeper(sleepers);
  if (sleeper.descriptor() < 0)
    return systemError("eventfd", errno);
  if (!counter.hasReached(target)) {
    // After a failure whoever waits must look for others soon.
    if (!failed.isEmpty())
      until = std::min(until, Clock::now() + failedInterval);
    look(timeUntil(until), sleeper.descriptor());
  }
  return failed.first();
}

/// If the rank at fault has ended, its last mail may say why.
Status TcpProgress::fail(const Status &cause) {
  if (Connection *mails = connections.forMail(cause.rank()); mails && cause.code() == StatusCode::PeerLost) {
    bool hasRaised = false; // all are woken below
    (void)mails->received().receive(registered, hasRaised);
  }
  failed.note(cause);
  for (Connection *one = connections.newest(); one; one = one->olderOne())
    if (one->peerRank() == cause.rank())
      one->end();
  wakeAll();
  return cause;
}

void TcpProgress::endReceiving(uint64_t agreement) {
  for (Connection *one = connections.newest(); one; one = one->olderOne())
    if (one->received().isReceiving(agreement))
      (void)fail(rankError(StatusCode::Mismatch, one->peerRank(),
                           "rank {} still puts data of agreement {}, which ended", one->peerRank(), agreement));
}

} // namespace kolo::runtime::tcp
