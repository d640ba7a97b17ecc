// The queue runs calls in order, on the caller where that waits at once, and never twice or never.
#include "kolo/runtime/Queue.h"
#include "Ranks.h"
#include "kolo/runtime/Plugin.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <stdexcept>
#include <thread>

using namespace kolo::test;
using namespace kolo::runtime;
using namespace std::chrono_literals;

namespace {

Queue queueOfOne() { return Queue(std::move(Communicator::createThreads(1).value().front())); }

Status succeed(Communicator &) { return {}; }

TEST(Queue, EnqueueReturnsBeforeTheCallEnds) {
  Queue queue = queueOfOne();
  std::promise<void> gate;
  Request request = queue.enqueue([&](Communicator &) -> Status {
    gate.get_future().wait();
    return {};
  });
  EXPECT_FALSE(request.isDone());
  EXPECT_FALSE(request.waitFor(20ms));
  gate.set_value();
  EXPECT_TRUE(request.wait().isOk());
  EXPECT_TRUE(request.isDone());
  EXPECT_TRUE(request.waitFor(0ms));
}

TEST(Queue, CallsRunInTheOrderOfTheirArrivalWhoeverWaits) {
  Queue queue = queueOfOne();
  std::vector<int> order; // no lock: only one call runs at a time
  std::vector<Request> requests;
  for (int number = 0; number < 500; ++number) {
    requests.push_back(queue.enqueue([&order, number](Communicator &) -> Status {
      order.push_back(number);
      return {};
    }));
    if (number % 7 == 3)
      EXPECT_TRUE(requests[static_cast<size_t>(number) - 2].wait().isOk());
    if (number % 50 == 0)
      std::this_thread::sleep_for(3ms); // the thread goes on alone
  }
  EXPECT_TRUE(requests.back().wait().isOk());
  for (int number = 0; number < 500; ++number)
    EXPECT_EQ(order.at(static_cast<size_t>(number)), number);
}

TEST(Queue, RunsOnTheCallerWhereNothingIsBefore) {
  Queue queue = queueOfOne();
  std::thread::id ranOn;
  auto note = [&](Communicator &) -> Status {
    ranOn = std::this_thread::get_id();
    return {};
  };
  EXPECT_TRUE(queue.run(note).isOk());
  EXPECT_EQ(ranOn, std::this_thread::get_id());
  int numHere = 0;
  for (int repeat = 0; repeat < 100; ++repeat) {
    EXPECT_TRUE(queue.enqueue(note).wait().isOk());
    numHere += ranOn == std::this_thread::get_id();
  }
  EXPECT_GT(numHere, 50); // all, but where this thread lost its core for a millisecond
}

TEST(Queue, BeginsACallThatNobodyWaitsFor) {
  Queue queue = queueOfOne();
  for (int repeat = 0; repeat < 20; ++repeat) {
    Request request = queue.enqueue(succeed);
    auto deadline = std::chrono::steady_clock::now() + 10s;
    while (!request.isDone() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    ASSERT_TRUE(request.isDone());
    if (repeat % 5 == 0) {
      std::this_thread::sleep_for(5ms); // until the thread sleeps
      EXPECT_TRUE(queue.enqueue(succeed).wait().isOk());
    }
  }
}

TEST(Queue, AFailureIsThatOfAllLaterCalls) {
  Queue queue = queueOfOne();
  Request good = queue.enqueue(succeed);
  Request bad = queue.enqueue([](Communicator &) { return Status(StatusCode::Mismatch, "counts differ", 3); });
  bool isRun = false;
  auto mark = [&](Communicator &) -> Status {
    isRun = true;
    return {};
  };
  Request late = queue.enqueue(mark);
  EXPECT_TRUE(good.wait().isOk());
  EXPECT_EQ(expectStatus(bad.wait(), StatusCode::Mismatch, {"counts differ"}), "");
  EXPECT_EQ(expectStatus(late.wait(), StatusCode::Aborted, {"an earlier call failed", "counts differ"}), "");
  EXPECT_EQ(late.status().rank(), 3);
  EXPECT_EQ(expectStatus(queue.run(mark), StatusCode::Aborted, {"counts differ"}), "");
  EXPECT_FALSE(isRun);
}

TEST(Queue, AnExceptionBecomesAStatus) {
  Queue queue = queueOfOne();
  Request request = queue.enqueue([](Communicator &) -> Status { throw std::runtime_error("no such tensor"); });
  EXPECT_EQ(expectStatus(request.wait(), StatusCode::SystemError, {"no such tensor"}), "");
}

TEST(Queue, TellsHowACallEnded) {
  Queue queue = queueOfOne();
  std::atomic<int> numOk = 0, numFailed = 0;
  auto tell = [&](const Status &status) { ++(status.isOk() ? numOk : numFailed); };
  (void)queue.enqueue(succeed, tell);
  (void)queue.enqueue([](Communicator &) { return Status(StatusCode::Timeout, "too late"); }, tell);
  Request last = queue.enqueue(succeed, tell);
  EXPECT_EQ(last.wait().code(), StatusCode::Aborted);
  EXPECT_EQ(numOk, 1);
  EXPECT_EQ(numFailed, 2);
}

TEST(Queue, WhenDoneMayWaitForACallThatItEnqueues) {
  Queue queue = queueOfOne();
  for (int repeat = 0; repeat < 20; ++repeat) {
    bool isInside = false;
    Request outer = queue.enqueue(succeed, [&](const Status &) {
      std::promise<void> ended;
      (void)queue.enqueue(succeed, [&](const Status &) { ended.set_value(); });
      ended.get_future().wait(); // not by the request: as a future of another library
      isInside = queue.enqueue(succeed).wait().isOk();
    });
    if (repeat % 2)
      while (!outer.isDone())
        std::this_thread::yield();
    EXPECT_TRUE(outer.wait().isOk());
    EXPECT_TRUE(isInside);
  }
}

TEST(Queue, ManyThreadsEnqueueAndWait) {
  Queue queue = queueOfOne();
  int64_t sum = 0; // no lock: only one call runs at a time
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&queue, &sum, thread] {
      for (int call = 1; call <= 300; ++call) {
        Request request = queue.enqueue([&sum, call](Communicator &) -> Status {
          sum += call;
          return {};
        });
        if (call % (thread + 1) == 0)
          EXPECT_TRUE(request.wait().isOk());
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_TRUE(queue.run(succeed).isOk());
  EXPECT_EQ(sum, 4 * 300 * 301 / 2);
}

TEST(Queue, ItsEndWaitsForAllCalls) {
  std::atomic<int> numRun = 0;
  std::vector<Request> requests;
  {
    Queue queue = queueOfOne();
    for (int call = 0; call < 20; ++call)
      requests.push_back(queue.enqueue([&](Communicator &) -> Status {
        std::this_thread::sleep_for(200us);
        ++numRun;
        return {};
      }));
  }
  EXPECT_EQ(numRun, 20);
  for (Request &request : requests)
    EXPECT_TRUE(request.isDone() && request.wait().isOk());
}

TEST(Queue, EndsInAWhenDone) {
  auto queue = std::make_unique<Queue>(queueOfOne());
  std::atomic<bool> isDestroyed = false;
  int numLater = 0;
  std::promise<void> gate;
  (void)queue->enqueue(
      [&](Communicator &) -> Status {
        gate.get_future().wait();
        return {};
      },
      [&](const Status &) {
        queue.reset();
        isDestroyed = true;
      });
  (void)queue->enqueue([&](Communicator &) -> Status {
    ++numLater;
    return {};
  });
  gate.set_value();
  while (!isDestroyed)
    std::this_thread::yield();
  EXPECT_EQ(numLater, 1);
}

TEST(Queue, AForkedChildDestroysItsCopy) {
  auto queue = std::make_unique<Queue>(queueOfOne());
  (void)queue->enqueue(succeed).waitFor(10s); // the thread lives
  pid_t child = fork();
  if (child == 0) {
    queue.reset();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(queue->run(succeed).isOk());
}

/// One of three ranks, with calls in flight whose buffers it rewrites only after it has waited for them.
std::string reduceWithCallsInFlight(Queue queue, const Plugin &plugin, int rank) {
  std::vector<std::vector<int32_t>> data(4, std::vector<int32_t>(8));
  std::vector<std::optional<Request>> inFlight(data.size());
  for (int number = 0; number < 200; ++number) {
    size_t slot = static_cast<size_t>(number) % data.size();
    if (inFlight[slot]) {
      if (Status status = inFlight[slot]->wait(); !status.isOk())
        return status.message();
      int before = number - static_cast<int>(data.size());
      if (data[slot][7] != 6 + 3 * before)
        return "call " + std::to_string(before) + ": " + std::to_string(data[slot][7]);
    }
    data[slot].assign(8, rank + 1 + number);
    inFlight[slot] = queue.enqueue([&plugin, memory = data[slot].data()](Communicator &communicator) {
      CallArguments call{"scratchAllReduce", *Mesh::parse("rank=3"), 8, DataType::I32};
      call.input = call.output = memory;
      return communicator.run(plugin, call);
    });
  }
  return queue.run(succeed).message(); // the calls in flight use `data`
}

TEST(Queue, CollectivesOfSeveralRanks) {
  const Plugin plugin = Plugin::load(KOLO_TEST_PLUGIN).value();
  std::vector<Communicator> communicators = Communicator::createThreads(3).value();
  std::vector<std::future<std::string>> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.push_back(std::async(std::launch::async, reduceWithCallsInFlight,
                               Queue(std::move(communicators[static_cast<size_t>(rank)])), std::cref(plugin), rank));
  for (std::future<std::string> &rank : ranks)
    EXPECT_EQ(rank.get(), "");
}

} // namespace
