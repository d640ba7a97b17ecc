// The progress hook: every wait calls it, often, on the calling thread. Rank 0 lets rank 1 wait until it was called.
#include "Ranks.h"
#include "TestPlugin.h"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

using namespace kolo::test;
using namespace kolo::runtime;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int enoughCalls = 200;

struct SharedCounts {
  std::atomic<int> calls;
  std::atomic<bool> isFromOtherThread;
};

class Progress : public testing::TestWithParam<std::tuple<Launch, const char *, int>> {
protected:
  Progress()
      : shared(static_cast<SharedCounts *>(
            mmap(nullptr, sizeof(SharedCounts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~Progress() override { munmap(shared, sizeof(SharedCounts)); }

  /// Rank 0 runs `body` once rank 1 has waited in it for long.
  std::string whileOneRankWaits(const RankBody &body) {
    hasBegun = false;
    auto [launch, wait, lanes] = GetParam();
    ScopedVariable variable("KOLO_WAIT", wait);
    (void)testPlugin();
    CommunicatorOptions options{15000, lanes};
    SharedCounts *counts = shared;
    options.progress = [counts] {
      if (hasBegun && !isCaller())
        counts->isFromOtherThread = true;
      counts->calls.fetch_add(1);
    };
    return runRanks(launch, 2, options, [&](Communicator &communicator) {
      isCaller() = true;
      hasBegun = true;
      if (communicator.rank() == 0) {
        shared->calls = 0;
        for (Clock::time_point start = Clock::now(); shared->calls < enoughCalls;)
          if (Clock::now() - start > std::chrono::seconds(10))
            return std::to_string(shared->calls) + " calls of the hook in ten seconds";
      }
      return body(communicator);
    });
  }

  static bool &isCaller() {
    static thread_local bool is = false;
    return is;
  }
  static inline std::atomic<bool> hasBegun; // in this process: communicators are created on any thread
  SharedCounts *shared;
};

} // namespace

TEST_P(Progress, IsCalledInABarrier) {
  EXPECT_EQ(whileOneRankWaits(
                [](Communicator &communicator) { return expectStatus(communicator.barrier(), StatusCode::Ok); }),
            "");
}

TEST_P(Progress, IsCalledInABarrierThatWasBegun) {
  EXPECT_EQ(whileOneRankWaits([](Communicator &communicator) {
              return expectStatus(communicator.finishBarrier(*communicator.beginBarrier()), StatusCode::Ok);
            }),
            "");
}

TEST_P(Progress, IsCalledInAChannel) {
  EXPECT_EQ(whileOneRankWaits([](Communicator &communicator) {
              Channel channel = communicator.channel(1 - communicator.rank(), 0);
              return expectStatus(communicator.rank() == 0 ? channel.signal() : channel.wait(), StatusCode::Ok);
            }),
            "");
}

TEST_P(Progress, IsCalledInACollectiveByTheCallingThreadAlone) {
  EXPECT_EQ(whileOneRankWaits([](Communicator &communicator) {
              int32_t in[64] = {1}, out[64] = {};
              CallArguments arguments{"scratchAllReduce", *Mesh::parse("rank=2"), 64, DataType::I32};
              arguments.input = in;
              arguments.output = out;
              return expectStatus(communicator.run(testPlugin(), arguments), StatusCode::Ok) +
                     (out[0] == 2 ? "" : "wrong sum");
            }),
            "");
  EXPECT_FALSE(shared->isFromOtherThread);
}

INSTANTIATE_TEST_SUITE_P(EveryWait, Progress,
                         testing::Combine(testing::Values(Launch::Threads, Launch::Forked),
                                          testing::Values("auto", "sleep", "spin"), testing::Values(1, 2)));
