// LanePool: the threads of a rank's lanes. Lane 0 is the calling thread; the others live as long as the communicator.
#pragma once

#include "wait/Wait.h"

#include <memory>
#include <thread>
#include <vector>

namespace kolo::runtime {

class LanePool {
public:
  using Job = void (*)(void *context, int lane);

  LanePool() = default;
  ~LanePool() { stop(); }
  LanePool(const LanePool &) = delete;
  LanePool &operator=(const LanePool &) = delete;

  /// Starts numLanes - 1 threads. If std::thread throws, so does this, and no thread runs.
  void start(int numLanes, const WaitPolicy &policy);

  /// Calls job(context, lane) once for every lane, lane 0 on the calling thread. Blocks until all have returned.
  void run(Job job, void *context);

private:
  struct Worker {
    Cell started; // the caller raises it for each job, and once more to stop
    Cell finished;
    std::thread thread;
  };
  void work(Worker &worker, int lane);
  void stop();

  std::vector<std::unique_ptr<Worker>> workers;
  WaitPolicy waitPolicy, callerPolicy; // of the threads, and of the thread that calls `run`
  uint64_t jobs = 0;
  Job current = nullptr; // null: stop
  void *currentContext = nullptr;
  int creatorPid = 0;
};

} // namespace kolo::runtime
