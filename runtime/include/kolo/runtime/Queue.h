// Queue: runs the calls of a communicator one after another, in the order of their arrival, while the caller goes on.
#pragma once

#include "kolo/runtime/Communicator.h"
#include "kolo/runtime/Export.h"
#include "kolo/runtime/Status.h"

#include <chrono>
#include <functional>
#include <memory>

namespace kolo::runtime {

class QueueState;
struct RequestState;

/// One call that Queue::enqueue accepted. Copies name the same call; any thread may use them, also after the queue has
/// been destroyed.
class KOLO_RUNTIME_API Request {
public:
  /// Blocks until the call has ended, and returns its status. Runs the call, and those before it, on this thread if
  /// they have not begun.
  Status wait();
  /// Blocks until the call has ended or the time is over, and returns whether it has ended. Runs nothing on this
  /// thread.
  bool waitFor(std::chrono::milliseconds time);
  /// Never blocks.
  bool isDone() const;
  /// Only when isDone().
  const Status &status() const;

private:
  friend class Queue;
  Request(std::shared_ptr<QueueState> queue, std::shared_ptr<RequestState> request);
  std::shared_ptr<QueueState> queue;
  std::shared_ptr<RequestState> state;
};

/// Owns a communicator and a thread for it. The thread starts when it is first needed and sleeps when there is nothing
/// to do. Any thread may enqueue; all ranks enqueue the same calls in the same order.
///
/// A call that failed ends the queue: every later call ends with Aborted and that failure as its cause.
class KOLO_RUNTIME_API Queue {
public:
  /// One call. It may use the communicator until it returns. An exception becomes a Status.
  using Call = std::function<Status(Communicator &)>;
  /// Told once how the call ended, by the thread that ran it, before `wait` returns. It may enqueue calls and wait for
  /// them. It must not throw.
  using WhenDone = std::function<void(const Status &)>;

  explicit Queue(Communicator communicator);
  Queue(Queue &&) noexcept;
  Queue &operator=(Queue &&) noexcept;
  /// Blocks until all calls have ended; after a failure none is left to run. In a forked child it does nothing.
  ~Queue();

  /// Returns at once. The thread begins the call within a millisecond, or as soon as the calls before it have ended. A
  /// caller that waits for the call before that runs it itself.
  /// SystemError, as the status of the request: the thread cannot be started.
  Request enqueue(Call call, WhenDone whenDone = {});

  /// Runs one call after all earlier ones, and returns its status. If there are none, it runs on this thread at once.
  Status run(Call call);

  /// For its const functions, which any thread may call at any time.
  const Communicator &communicator() const;

private:
  std::shared_ptr<QueueState> state;
};

} // namespace kolo::runtime
