// Calls over a staged network: what hosts must not do, and what happens between chunks.
#include "ExecutedCall.h"
#include "Shipped.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace kolo;
using namespace kolo::ptx;

namespace {

constexpr int numCalls = 3;

/// An all-gather on 2 ranks, each on a host of its own; with more chunks than an outbox has where it is large.
struct Staged {
  explicit Staged(int64_t count)
      : algorithm(shipped.algorithm, shipped.protocol),
        executed(algorithm, algorithm.call(algorithm.meshes().front(), count),
                 {.lanes = 1, .hosts = hostsFor(shipped, algorithm.meshes().front(), 1)}) {}
  std::string run(uint64_t seed) { return executed.run({.seed = seed, .memory = {}}, numCalls); }

  Shipped shipped{"ringAllGather", "staged"};
  test::DeviceAlgorithm algorithm;
  ExecutedCall executed;
};

constexpr int64_t fewElements = 37, manyElements = 6 * int64_t(KOLO_DEVICE_CHUNK_BYTES) / 4;

} // namespace

TEST(ExecutedNetwork, ChunksAreUsedAgain) {
  Staged staged(manyElements);
  for (uint64_t seed = 1; seed <= 2; ++seed)
    ASSERT_EQ(staged.run(seed), "") << "seed " << seed;
}

class ExecutedNetworkFault : public testing::TestWithParam<std::pair<NetworkFault, int64_t>> {};

TEST_P(ExecutedNetworkFault, IsSeen) {
  const auto [fault, count] = GetParam();
  Staged staged(count);
  ASSERT_EQ(staged.run(1), "");
  staged.executed.setFault(fault);
  bool isSeen = false;
  for (uint64_t seed = 1; seed <= 20 && !isSeen; ++seed)
    isSeen = !staged.run(seed).empty();
  EXPECT_TRUE(isSeen);
}

INSTANTIATE_TEST_SUITE_P(Faults, ExecutedNetworkFault,
                         testing::Values(std::pair(NetworkFault::SignalFirst, fewElements),
                                         std::pair(NetworkFault::RelaxedCell, fewElements),
                                         std::pair(NetworkFault::RelaxedRequests, fewElements),
                                         std::pair(NetworkFault::EarlyChunk, manyElements)),
                         [](const auto &info) { return "Number" + std::to_string(int(info.param.first)); });
