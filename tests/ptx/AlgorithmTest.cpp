// Every shipped algorithm, as PTX, on devices whose memory is as weak as the PTX memory model allows. Every rank gets
// the bits that the definition says, under every schedule, and nothing races.
#include "ExecutedCall.h"
#include "Shipped.h"

#include "tests/support/TabledAlgorithms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

using namespace kolo;
using namespace kolo::ptx;

namespace {

struct Case {
  test::DeviceCall call;
  size_t ranksPerDevice;
};

/// On 2, 4 and 8 ranks, each on a device of its own; and with two ranks on a device, in one launch.
std::vector<Case> casesOf(const test::DeviceAlgorithm &algorithm, const std::vector<int64_t> &counts) {
  std::vector<Case> cases;
  const bool isCoded = algorithm.info().granule != 0;
  for (const runtime::Mesh &mesh : algorithm.meshes())
    for (int64_t count : counts) {
      test::DeviceCall call = algorithm.call(mesh, isCoded ? count * 9 : count);
      call.type = count % 2 ? runtime::DataType::F32 : runtime::DataType::BF16;
      if (runtime::hasRoot(call.collective))
        call.root = call.groupSize() - 1;
      cases.push_back({call, 1});
      if (mesh.numRanks() == 4)
        cases.push_back({call, 2});
    }
  return cases;
}

void runCase(const Shipped &shipped, const test::DeviceAlgorithm &algorithm, const Case &one, CallShape shape,
             uint64_t numSeeds) {
  shape.ranksPerDevice = one.ranksPerDevice;
  shape.hosts = hostsFor(shipped, one.call.mesh, int(one.ranksPerDevice));
  ExecutedCall executed(algorithm, one.call, shape);
  for (uint64_t seed = 1; seed <= numSeeds; ++seed)
    ASSERT_EQ(executed.run({.seed = seed, .memory = {}}, usualCalls), "")
        << one.call.mesh.toString() << ", count " << one.call.count << ", " << one.ranksPerDevice
        << " ranks per device, " << shape.lanes << " lanes of " << shape.threads << " threads, seed " << seed;
}

/// So many schedules of each case; fewer of large ones.
void runCases(const Shipped &shipped, const test::DeviceAlgorithm &algorithm, const std::vector<int64_t> &counts,
              uint64_t numSeeds) {
  for (const Case &one : casesOf(algorithm, counts))
    runCase(shipped, algorithm, one, {}, std::max<uint64_t>(1, numSeeds * 2 / uint64_t(one.call.mesh.numRanks())));
}

std::string nameOf(const testing::TestParamInfo<Shipped> &info) {
  std::string name = info.param.algorithm + "_" + info.param.protocol;
  std::ranges::replace(name, '-', '_');
  return name;
}

/// All algorithms in bulk; of the other protocols those that have every function of theirs.
std::vector<Shipped> fewShipped() {
  const std::set<std::string> few = {"binomialBroadcast", "directAllToAll",    "quantisedTwoShotAllReduce",
                                     "ringAllGather",     "ringReduceScatter", "twoShotAllReduce"};
  std::vector<Shipped> shipped = allShipped();
  std::erase_if(shipped, [&](const Shipped &one) { return one.protocol != "bulk" && !few.contains(one.algorithm); });
  return shipped;
}

} // namespace

class ExecutedAlgorithms : public testing::TestWithParam<Shipped> {};

/// On all meshes in a few schedules; and of as few ranks as there may be, with two warps each: small enough for many.
TEST_P(ExecutedAlgorithms, GiveTheReferencesBitsUnderWeakMemory) {
  const test::DeviceAlgorithm algorithm(GetParam().algorithm, GetParam().protocol);
  runCases(GetParam(), algorithm, {37, 256}, 4);
  std::vector<Case> cases = casesOf(algorithm, {37});
  auto ranksOf = [](const Case &one) { return one.call.mesh.numRanks(); };
  runCase(GetParam(), algorithm, *std::ranges::min_element(cases, {}, ranksOf), {.lanes = 1, .threads = 64}, 200);
}

INSTANTIATE_TEST_SUITE_P(Few, ExecutedAlgorithms, testing::ValuesIn(fewShipped()), nameOf);

class HeavyExecutedAlgorithms : public testing::TestWithParam<Shipped> {};

TEST_P(HeavyExecutedAlgorithms, GiveTheReferencesBitsUnderThousandsOfSchedules) {
  const test::DeviceAlgorithm algorithm(GetParam().algorithm, GetParam().protocol);
  runCases(GetParam(), algorithm, {0, 1, 18, 37, 260}, 120);
  runCases(GetParam(), algorithm, {3001}, 2);
}

INSTANTIATE_TEST_SUITE_P(All, HeavyExecutedAlgorithms, testing::ValuesIn(allShipped()), nameOf);

class ExecutedTables : public testing::TestWithParam<Shipped> {};

namespace {

/// On meshes of up to so many ranks, each distribution in as many schedules.
void runTables(const Shipped &shipped, int mostRanks, int64_t most, uint64_t numSeeds) {
  test::DeviceAlgorithm algorithm(shipped.algorithm, shipped.protocol);
  std::mt19937_64 random(41);
  for (const runtime::Mesh &mesh : algorithm.meshes())
    for (test::Distribution distribution : test::allDistributions) {
      if (mesh.numRanks() > mostRanks)
        continue;
      test::DeviceCall call = algorithm.call(mesh, most);
      call.type = random() % 2 ? runtime::DataType::F32 : runtime::DataType::BF16;
      if (runtime::hasRoot(call.collective))
        call.root = call.groupSize() - 1;
      ExecutedCall executed(algorithm, call, {}, test::DeviceBlocks(call, distribution, random() % 4 != 0, random));
      for (uint64_t seed = 1; seed <= numSeeds; ++seed)
        ASSERT_EQ(executed.run({.seed = seed, .memory = {}}, usualCalls), "")
            << mesh.toString() << ", distribution " << int(distribution) << ", seed " << seed;
    }
}

/// Those of a few ways to move blocks.
std::vector<Shipped> fewTabled() {
  return {{"ringAllGather", "bulk"},   {"directAllToAll", "bulk"}, {"ringReduceScatter", "bulk"},
          {"allPairsAllGather", "ll"}, {"directAllToAll", "ll"},   {"ringReduceScatter", "ll"},
          {"directAllToAll", "ll128"}, {"directGather", "bulk"},   {"directScatter", "bulk"}};
}

std::vector<Shipped> allTabled() {
  std::vector<Shipped> shipped = allShipped();
  std::erase_if(shipped, [](const Shipped &one) {
    return one.protocol.starts_with("coded") || test::tabledOnDevices({one.algorithm}).empty();
  });
  return shipped;
}

} // namespace

TEST_P(ExecutedTables, GiveTheBlocksThatTheTablesSayUnderWeakMemory) { runTables(GetParam(), 4, 37, 3); }

INSTANTIATE_TEST_SUITE_P(Few, ExecutedTables, testing::ValuesIn(fewTabled()), nameOf);

class HeavyExecutedTables : public testing::TestWithParam<Shipped> {};

TEST_P(HeavyExecutedTables, GiveTheBlocksThatTheTablesSayUnderManySchedules) {
  for (int64_t most : {1, 18, 260})
    runTables(GetParam(), 8, most, 30);
}

INSTANTIATE_TEST_SUITE_P(All, HeavyExecutedTables, testing::ValuesIn(allTabled()), nameOf);

/// A rank that never starts: all others give up, and what they write of it is in order.
TEST(ExecutedFailure, IsRecordedBeforeItsCodeIs) {
  for (const char *protocol : {"bulk", "ll", "ll128"}) {
    test::DeviceAlgorithm algorithm("twoShotAllReduce", protocol);
    ExecutedCall executed(algorithm, algorithm.call(algorithm.meshes()[1], 37), {.timeoutMs = 1});
    for (uint64_t seed = 1; seed <= 10; ++seed)
      ASSERT_EQ(executed.runWithout({.seed = seed, .memory = {}}, 1), "") << protocol << ", seed " << seed;
  }
}

/// Polls take much longer here than on a device, and longer the more warps there are. Every 64th looks at the clock.
TEST(ExecutedFailure, ComesWhenTheClockSaysSo) {
  for (const char *protocol : {"bulk", "ll", "ll128"}) {
    test::DeviceAlgorithm algorithm("twoShotAllReduce", protocol);
    for (int timeoutMs : {5, 10}) {
      ExecutedCall executed(algorithm, algorithm.call(algorithm.meshes()[1], 37), {.timeoutMs = timeoutMs});
      for (uint64_t seed = 1; seed <= 2; ++seed) {
        ASSERT_EQ(executed.runWithout({.seed = seed, .memory = {}}, 1), "") << protocol << ", seed " << seed;
        const uint64_t timeoutNs = uint64_t(timeoutMs) * 1'000'000;
        EXPECT_GE(executed.elapsedNs(), timeoutNs) << protocol << ", seed " << seed;
        EXPECT_LE(executed.elapsedNs(), timeoutNs + 10'000'000) << protocol << ", seed " << seed;
      }
    }
  }
}

/// The word is in the host's memory, and the only one that programs with packets acquire. After some thousand polls of
/// every thread, none has read it but those that write the records.
TEST(ExecutedFailure, ReadsTheAbortWordRarely) {
  constexpr int lanes = 2;
  for (const char *protocol : {"ll", "ll128"}) {
    test::DeviceAlgorithm algorithm("twoShotAllReduce", protocol);
    ExecutedCall executed(algorithm, algorithm.call(algorithm.meshes()[0], 37), {.lanes = lanes, .timeoutMs = 20});
    ASSERT_EQ(executed.runWithout({.seed = 1, .memory = {}}, 1), "") << protocol;
    EXPECT_GT(executed.counts().loads, 10000) << protocol;
    EXPECT_LE(executed.counts().acquires, 2 * lanes) << protocol;
  }
}

/// What a call on 8 ranks may take: instructions of the longest thread, and barriers of a rank.
struct Bound {
  const char *algorithm, *protocol;
  int64_t count; // of f32
  uint64_t instructions, barriers;
};
class ExecutedCounts : public testing::TestWithParam<Bound> {};

/// Aligned, with a lane of 512 threads on each device. Polls differ from schedule to schedule; barriers do not.
TEST_P(ExecutedCounts, StayWithinBounds) {
  const Bound &bound = GetParam();
  test::DeviceAlgorithm algorithm(bound.algorithm, bound.protocol);
  const runtime::Mesh mesh = algorithm.meshes().back();
  ASSERT_EQ(mesh.numRanks(), 8);
  ExecutedCall executed(algorithm, algorithm.call(mesh, bound.count), {.lanes = 1, .threads = 512, .isAligned = true});
  uint64_t instructions = UINT64_MAX;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    ASSERT_EQ(executed.run({.seed = seed, .memory = {}}, 1), "") << "seed " << seed;
    instructions = std::min(instructions, executed.counts().longestThread);
    EXPECT_LE(executed.counts().barriers, bound.barriers * 8) << "seed " << seed;
  }
  EXPECT_LE(instructions, bound.instructions);
}

INSTANTIATE_TEST_SUITE_P(
    EightRanks, ExecutedCounts,
    testing::Values(Bound{"twoShotAllReduce", "ll", 2048, 4400, 6}, Bound{"twoShotAllReduce", "ll128", 2048, 2400, 6},
                    Bound{"twoShotAllReduce", "bulk", 2048, 1200, 6},
                    Bound{"pushTwoShotAllReduce", "ll", 2048, 4200, 6}, Bound{"allPairsAllGather", "ll", 256, 2100, 4},
                    Bound{"allPairsAllGather", "bulk", 8192, 1000, 6}),
    [](const auto &info) { return std::string(info.param.algorithm) + "_" + info.param.protocol; });
