#include "call/LanePool.h"

#include <unistd.h>

namespace kolo::runtime {
namespace {

WaitEnd never() { return WaitEnd::Reached; }

} // namespace

void LanePool::start(int numLanes, const WaitPolicy &policy) {
  waitPolicy = policy;
  waitPolicy.maySleep = true; // an idle thread must not use a core, however the ranks wait
  callerPolicy = waitPolicy;
  waitPolicy.progress = nullptr;
  waitPolicy.yields = nullptr;  // is the caller's
  waitPolicy.network = nullptr; // it would be asked 20,000 times in a second
  creatorPid = getpid();
  for (int lane = 1; lane < numLanes; ++lane) {
    Worker &worker = *workers.emplace_back(std::make_unique<Worker>());
    worker.thread = std::thread([this, &worker, lane] { work(worker, lane); });
  }
}

void LanePool::run(Job job, void *context) {
  current = job;
  currentContext = context;
  ++jobs;
  for (auto &worker : workers)
    worker->started.raise(jobs);
  job(context, 0);
  for (auto &worker : workers)
    waitUntil(worker->finished, jobs, callerPolicy, never);
}

void LanePool::work(Worker &worker, int lane) {
  for (uint64_t number = 1;; ++number) {
    waitUntil(worker.started, number, waitPolicy, never);
    if (!current)
      return;
    current(currentContext, lane);
    worker.finished.raise(number);
  }
}

void LanePool::stop() {
  current = nullptr;
  ++jobs;
  for (auto &worker : workers) {
    if (getpid() != creatorPid) { // a forked child does not have these threads, so it cannot join them
      (void)worker.release();
      continue;
    }
    worker->started.raise(jobs);
    if (worker->thread.joinable())
      worker->thread.join();
  }
  workers.clear();
}

} // namespace kolo::runtime
