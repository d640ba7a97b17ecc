// Calls over a staged network: what hosts must not do, and what happens between chunks.
#include "ExecutedCall.h"
#include "Shipped.h"

#include <gtest/gtest.h>

using namespace kolo;
using namespace kolo::ptx;

namespace {

/// An algorithm on ranks that are each on a host of their own, in one lane.
struct Staged {
  Staged(const char *name, size_t mesh, int64_t count)
      : shipped{name, "staged"}, algorithm(shipped.algorithm, shipped.protocol),
        executed(algorithm, algorithm.call(algorithm.meshes()[mesh], count),
                 {.lanes = 1, .hosts = hostsFor(shipped, algorithm.meshes()[mesh], 1)}) {}
  std::string run(uint64_t seed, int calls = usualCalls) { return executed.run({.seed = seed, .memory = {}}, calls); }

  Shipped shipped;
  test::DeviceAlgorithm algorithm;
  ExecutedCall executed;
};

/// On 8 ranks: seven puts in a row, which nobody waits between, and an outbox has four chunks.
Staged manyPuts() { return {"directAllToAll", 2, 37}; }

constexpr int64_t moreThanAChunk = int64_t(KOLO_DEVICE_CHUNK_BYTES) / 4 + 1;

} // namespace

TEST(ExecutedNetwork, ChunksAreUsedAgain) {
  Staged staged = manyPuts();
  for (uint64_t seed = 1; seed <= 10; ++seed)
    ASSERT_EQ(staged.run(seed), "") << "seed " << seed;
}

TEST(ExecutedNetwork, APutMayTakeMoreThanAChunk) {
  Staged staged("ringAllGather", 0, moreThanAChunk);
  EXPECT_EQ(staged.run(1, 1), "");
}

class ExecutedNetworkFault : public testing::TestWithParam<NetworkFault> {};

TEST_P(ExecutedNetworkFault, IsSeen) {
  Staged staged = manyPuts();
  ASSERT_EQ(staged.run(1), "");
  staged.executed.setFault(GetParam());
  bool isSeen = false;
  for (uint64_t seed = 1; seed <= 10 && !isSeen; ++seed)
    isSeen = !staged.run(seed).empty();
  EXPECT_TRUE(isSeen);
}

INSTANTIATE_TEST_SUITE_P(Faults, ExecutedNetworkFault,
                         testing::Values(NetworkFault::SignalFirst, NetworkFault::RelaxedCell,
                                         NetworkFault::RelaxedRequests, NetworkFault::EarlyChunk),
                         [](const auto &info) { return "Number" + std::to_string(int(info.param)); });
