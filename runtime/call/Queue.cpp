// Queue and Request. See kolo/runtime/Queue.h.
//
// Waking a thread costs more than a small call. So the queue guesses what the caller does next by what it did last. If
// the caller last waited at once, `enqueue` wakes nobody. The thread then only looks every millisecond, as long as
// calls arrive, for one that nobody waits for. If it finds one, `enqueue` wakes the thread again.
#include "kolo/runtime/Queue.h"

#include "base/Error.h"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace kolo::runtime {

struct RequestState {
  Queue::Call call;
  Queue::WhenDone whenDone;
  Status outcome; // written before isDone
  std::atomic<bool> isDone = false;
  // Set if `enqueue` woke a thread: which call it was, who made it, and that thread's processor time.
  uint64_t number = 0;
  std::thread::id caller;
  std::chrono::nanoseconds callerTime{};
};

namespace {

/// Processor time of this thread: it stands still while another thread has the core.
std::chrono::nanoseconds ownTime() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

} // namespace

class QueueState : public std::enable_shared_from_this<QueueState> {
public:
  explicit QueueState(Communicator joined) : communicator(std::move(joined)) {}

  std::shared_ptr<RequestState> enqueue(Queue::Call call, Queue::WhenDone whenDone);
  Status run(Queue::Call call);
  void wait(RequestState &request);
  bool waitFor(RequestState &request, std::chrono::milliseconds time);
  void close();
  const Communicator &owned() const { return *communicator; }

private:
  using Lock = std::unique_lock<std::mutex>;
  static constexpr std::chrono::milliseconds lookInterval{1};
  static constexpr std::chrono::microseconds atOnce{50};

  Status execute(Lock &lock, const Queue::Call &call);
  void runFirst(Lock &lock);
  void finish(RequestState &request, const Status &outcome);
  Status callThread();
  void work();
  bool hasJob() const { return !isRunning && isThreadAsked && !pending.empty(); }
  void look(Lock &lock);

  std::optional<Communicator> communicator;
  const int creatorPid = getpid();
  std::mutex mutex; // guards all that follows
  std::condition_variable forThreads, forWaiters;
  std::deque<std::shared_ptr<RequestState>> pending; // not begun
  bool isRunning = false;                            // some thread runs a call
  bool isThreadAsked = false;                        // else the caller is expected to wait
  bool isClosing = false;
  Status failure;
  std::vector<std::thread> threads; // more than one only if calls arrive while all are in a whenDone
  size_t numIdle = 0, numLooking = 0, numTelling = 0;
  uint64_t numEnqueued = 0;
};

/// Called and left with the lock, which it releases while the call runs.
Status QueueState::execute(Lock &lock, const Queue::Call &call) {
  isRunning = true;
  Status earlier = failure;
  lock.unlock();
  Status outcome = earlier.isOk()
                       ? guarded([&] { return call(*communicator); })
                       : Status(StatusCode::Aborted, "an earlier call failed: " + earlier.message(), earlier.rank());
  lock.lock();
  isRunning = false;
  if (failure.isOk())
    failure = outcome;
  forWaiters.notify_all();
  if (hasJob() && numIdle > 0)
    forThreads.notify_one();
  return outcome;
}

/// Called without the lock.
void QueueState::finish(RequestState &request, const Status &outcome) {
  request.outcome = outcome;
  if (request.whenDone)
    request.whenDone(outcome);
  request.call = {}; // with what it holds
  request.whenDone = {};
  request.isDone.store(true, std::memory_order_release);
}

void QueueState::runFirst(Lock &lock) {
  std::shared_ptr<RequestState> request = std::move(pending.front());
  pending.pop_front();
  Status outcome = execute(lock, request->call);
  lock.unlock();
  finish(*request, outcome);
  lock.lock();
  forWaiters.notify_all();
}

/// Under the lock: makes sure that a thread comes to look. One that runs a call comes by itself; one that is in a
/// whenDone may wait there for the call that arrives.
Status QueueState::callThread() {
  if (numIdle > 0)
    forThreads.notify_one();
  else if (threads.size() <= numTelling)
    return guarded([&]() -> Status {
      threads.emplace_back([self = shared_from_this()] { self->work(); });
      return {};
    });
  return {};
}

std::shared_ptr<RequestState> QueueState::enqueue(Queue::Call call, Queue::WhenDone whenDone) {
  auto request = std::make_shared<RequestState>();
  request->call = std::move(call);
  request->whenDone = std::move(whenDone);
  Lock lock(mutex);
  isThreadAsked |= !pending.empty() || isRunning;
  ++numEnqueued;
  pending.push_back(request);
  if (!isThreadAsked && numLooking > 0)
    return request;
  request->number = numEnqueued;
  request->caller = std::this_thread::get_id();
  request->callerTime = ownTime();
  if (Status status = callThread(); !status.isOk()) {
    pending.pop_back();
    if (failure.isOk())
      failure = status;
    lock.unlock();
    finish(*request, status);
  }
  return request;
}

Status QueueState::run(Queue::Call call) {
  Lock lock(mutex);
  if (pending.empty() && !isRunning)
    return execute(lock, call);
  lock.unlock();
  std::shared_ptr<RequestState> request = enqueue(std::move(call), {});
  wait(*request);
  return request->outcome;
}

void QueueState::wait(RequestState &request) {
  if (request.isDone.load(std::memory_order_acquire) && request.number == 0)
    return;
  Lock lock(mutex);
  // The thread may have been faster, or have taken this one's core.
  if (request.number == numEnqueued && request.caller == std::this_thread::get_id() &&
      ownTime() - request.callerTime < atOnce)
    isThreadAsked = false;
  while (!request.isDone.load(std::memory_order_acquire)) {
    if (isRunning || pending.empty()) { // if none is pending, a thread is telling about this call
      forWaiters.wait(lock);
      continue;
    }
    runFirst(lock);
    isThreadAsked = !pending.empty();
  }
}

bool QueueState::waitFor(RequestState &request, std::chrono::milliseconds time) {
  if (request.isDone.load(std::memory_order_acquire))
    return true;
  Lock lock(mutex);
  isThreadAsked = true;
  forThreads.notify_one();
  return forWaiters.wait_for(lock, time, [&] { return request.isDone.load(std::memory_order_acquire); });
}

/// Sleeps until there is a job, or until the next look; if no call has come since the last one, until one comes. Asks
/// for a call that has been there for a whole interval.
void QueueState::look(Lock &lock) {
  auto isCalled = [&] { return hasJob() || isClosing; };
  uint64_t seen = numEnqueued;
  const RequestState *first = pending.empty() ? nullptr : pending.front().get();
  ++numIdle;
  ++numLooking;
  bool isOver = !forThreads.wait_for(lock, lookInterval, isCalled);
  --numLooking;
  isThreadAsked |= isOver && first && !pending.empty() && pending.front().get() == first;
  if (isOver && numEnqueued == seen && pending.empty())
    forThreads.wait(lock, [&] { return isCalled() || numEnqueued != seen; });
  --numIdle;
}

void QueueState::work() {
  Lock lock(mutex);
  while (!(isClosing && pending.empty())) {
    if (!hasJob()) {
      look(lock);
      continue;
    }
    std::shared_ptr<RequestState> request = std::move(pending.front());
    pending.pop_front();
    Status outcome = execute(lock, request->call);
    ++numTelling;
    lock.unlock();
    finish(*request, outcome);
    request.reset();
    lock.lock();
    --numTelling;
    forWaiters.notify_all();
  }
}

void QueueState::close() {
  if (getpid() != creatorPid) // has neither the threads nor, perhaps, the lock; the threads keep this object
    return;
  std::vector<std::thread> ending;
  Lock lock(mutex);
  while (isRunning || !pending.empty())
    if (isRunning)
      forWaiters.wait(lock);
    else
      runFirst(lock);
  isClosing = true;
  forThreads.notify_all();
  ending.swap(threads);
  lock.unlock();
  for (std::thread &thread : ending)
    if (thread.get_id() == std::this_thread::get_id())
      thread.detach();
    else
      thread.join();
  communicator.reset();
}

Request::Request(std::shared_ptr<QueueState> owner, std::shared_ptr<RequestState> request)
    : queue(std::move(owner)), state(std::move(request)) {}

Status Request::wait() {
  queue->wait(*state);
  return state->outcome;
}
bool Request::waitFor(std::chrono::milliseconds time) { return queue->waitFor(*state, time); }
bool Request::isDone() const { return state->isDone.load(std::memory_order_acquire); }
const Status &Request::status() const { return state->outcome; }

Queue::Queue(Communicator communicator) : state(std::make_shared<QueueState>(std::move(communicator))) {}
Queue::Queue(Queue &&) noexcept = default;
Queue &Queue::operator=(Queue &&other) noexcept {
  if (this != &other) {
    if (state)
      state->close();
    state = std::move(other.state);
  }
  return *this;
}
Queue::~Queue() {
  if (state)
    state->close();
}

Request Queue::enqueue(Call call, WhenDone whenDone) {
  return Request(state, state->enqueue(std::move(call), std::move(whenDone)));
}
Status Queue::run(Call call) { return state->run(std::move(call)); }
const Communicator &Queue::communicator() const { return state->owned(); }

} // namespace kolo::runtime
