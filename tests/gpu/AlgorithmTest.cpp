// Every shipped algorithm, with 2, 4 and 8 ranks that share one device: all types, awkward counts, several calls back
// to back.
#include "../runtime/Ranks.h"
#include "Support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

using namespace kolo;
using namespace kolo::test;

namespace {

class DeviceAlgorithms : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    if (std::string why = whyNoDevice(); !why.empty())
      GTEST_SKIP() << why;
  }
};

/// Ranks of the stand-in share the cores of the host with other tests.
int timeoutMs() { return isStandIn() ? 20000 : 3000; }

/// All types, on all meshes, each with one of the counts; so many calls back to back. On the stand-in, which is slow,
/// each type on one of the meshes: tests/devicecode emulates the same code, and there every type meets every algorithm.
void runAllTypes(const DeviceAlgorithm &algorithm, int numCalls, const std::vector<int64_t> &counts, uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<runtime::Mesh> meshes = algorithm.meshes();
  for (size_t number = 0; number < meshes.size(); ++number)
    for (int lanes : isStandIn() ? std::vector<int>{2} : std::vector<int>{1, 3, 8}) {
      const runtime::Mesh &mesh = meshes[number];
      DeviceRanks ranks(algorithm, mesh, {.lanes = lanes, .threads = 256, .timeoutMs = timeoutMs()});
      for (int type = 0; type < KOLO_NUM_TYPES; ++type) {
        if (isStandIn() && size_t(type) % meshes.size() != number)
          continue;
        DeviceCall call = algorithm.call(mesh, counts[random() % counts.size()]);
        call.type = runtime::DataType(type);
        call.reduction = runtime::Reduction(random() % KOLO_NUM_REDUCTIONS);
        const bool isPrefix =
            call.collective == runtime::CollectiveKind::Scan || call.collective == runtime::CollectiveKind::Exscan;
        if ((isPrefix || call.type == runtime::DataType::F16) && call.reduction == runtime::Reduction::Average)
          call.reduction = runtime::Reduction::Sum; // devices do not average f16, and prefixes have no average
        if (runtime::hasRoot(call.collective))
          call.root = int(random() % uint64_t(call.groupSize()));
        ASSERT_EQ(ranks.run(call, numCalls, random()), "")
            << runtime::toString(call.type) << " " << runtime::toString(call.reduction) << ", count " << call.count
            << ", " << lanes << " lanes, " << mesh.toString();
      }
    }
}

void runLarge(const std::string &name, const std::string &protocol, int numCalls) {
  if (isStandIn())
    GTEST_SKIP() << "that is for devices";
  DeviceAlgorithm algorithm(name, protocol);
  for (const runtime::Mesh &mesh : algorithm.meshes()) {
    DeviceRanks ranks(algorithm, mesh, {.lanes = 16});
    EXPECT_EQ(ranks.run(algorithm.call(mesh, (1 << 20) + 3), numCalls, 5), "") << mesh.toString();
  }
}

/// Whether the bits are those of the host: for awkward counts, two calls back to back.
void runCoded(const DeviceAlgorithm &algorithm, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (const runtime::Mesh &mesh : algorithm.meshes())
    for (int lanes : isStandIn() ? std::vector<int>{2} : std::vector<int>{1, 3, 8}) {
      DeviceRanks ranks(algorithm, mesh, {.lanes = lanes, .threads = 256, .timeoutMs = timeoutMs()});
      for (runtime::DataType type : {runtime::DataType::F32, runtime::DataType::BF16, runtime::DataType::F16})
        for (int64_t count : isStandIn() ? std::vector<int64_t>{3077} : std::vector<int64_t>{0, 1, 31, 1025, 70001}) {
          DeviceCall call = algorithm.call(mesh, count);
          call.type = type;
          call.reduction = random() % 2 ? runtime::Reduction::Sum : runtime::Reduction::Max;
          ASSERT_EQ(ranks.runCoded(call, 2, random()), "")
              << runtime::toString(type) << " " << runtime::toString(call.reduction) << ", count " << call.count << ", "
              << lanes << " lanes, " << mesh.toString();
        }
    }
}

} // namespace

TEST_P(DeviceAlgorithms, GiveTheReferencesResultForAllTypesAndAwkwardCountsBackToBack) {
  if (isSkipped(GetParam(), {"allPairsAllGather",
                             "binomialReduce",
                             "binomialScatter",
                             "bruckAllToAll",
                             "chainExscan",
                             "directAllToAll",
                             "directBroadcast",
                             "directGather",
                             "frontierAllReduce",
                             "hierarchicalAllReduce",
                             "nodeReduceScatter",
                             "oneShotAllReduce",
                             "oneShotScan",
                             "railAllGather",
                             "railReduceScatter",
                             "rabenseifnerAllReduce",
                             "recursiveDoublingAllGather",
                             "ringAllGather",
                             "ringAllReduce",
                             "ringReduceScatter",
                             "slottedRingAllReduce",
                             "threeLevelAllReduce",
                             "twoLevelAllToAll",
                             "twoShotAllReduce"}))
    GTEST_SKIP() << "that is for devices";
  runAllTypes({GetParam(), "bulk"}, 3, {0, 1, 17, 255, 1000, 3001}, 11);
}

TEST_P(DeviceAlgorithms, GiveTheRightResultForLargeBuffers) { runLarge(GetParam(), "bulk", 2); }

class CodedAlgorithms : public DeviceAlgorithms {};

TEST_P(CodedAlgorithms, GiveTheBitsThatTheyGiveOnTheHost) {
  if (isSkipped(GetParam(), {"quantisedReduceScatter", "quantisedTwoShotAllReduce"}))
    GTEST_SKIP() << "that is for devices";
  runCoded({GetParam(), "coded"}, 14);
}

class CodedPacketAlgorithms : public DeviceAlgorithms {};

TEST_P(CodedPacketAlgorithms, GiveTheBitsThatTheyGiveOnTheHost) {
  if (isSkipped(GetParam(), {"quantisedTwoShotAllReduce"}))
    GTEST_SKIP() << "that is for devices";
  runCoded({GetParam(), "coded-ll"}, 16);
}

class StochasticAlgorithms : public DeviceAlgorithms {};

/// The host counts calls of all programs, and the device those of this one: the first ones have the same number.
TEST_P(StochasticAlgorithms, GiveTheBitsOfTheHostAndOthersInTheNextCall) {
  DeviceAlgorithm algorithm(GetParam(), "stochastic");
  for (const runtime::Mesh &mesh : algorithm.meshes()) {
    DeviceRanks ranks(algorithm, mesh, {.lanes = 2, .threads = 256, .timeoutMs = timeoutMs()});
    DeviceCall call = algorithm.call(mesh, 3077);
    call.type = runtime::DataType::F32;
    EXPECT_EQ(ranks.runCoded(call, 1, 15), "") << mesh.toString();
    EXPECT_NE(ranks.runCoded(call, 1, 15), "") << mesh.toString() << ": the second call has drawn the same";
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StochasticAlgorithms);

class PacketAlgorithms : public DeviceAlgorithms {};

TEST_P(PacketAlgorithms, GiveTheReferencesResultForAllTypesAndAwkwardCountsBackToBack) {
  if (isSkipped(GetParam(), {"binomialBroadcast", "chainScan", "directAllToAll", "directGather",
                             "hierarchicalAllReduce", "oneShotAllReduce", "railAllGather", "recursiveDoublingAllReduce",
                             "ringAllGather", "ringReduceScatter", "twoShotAllReduce"}))
    GTEST_SKIP() << "that is for devices";
  runAllTypes({GetParam(), "ll"}, 5, {0, 1, 17, 255, 1000}, 12);
}

/// On the stand-in driver with as many threads as a line takes, which is slow there.
class LineAlgorithms : public DeviceAlgorithms {
protected:
  StandInThreads threads{threadsPerLine};
};

TEST_P(LineAlgorithms, GiveTheReferencesResultForAllTypesAndAwkwardCountsBackToBack) {
  if (isSkipped(GetParam(), {"directBroadcast", "ringReduceScatter", "twoShotAllReduce"}))
    GTEST_SKIP() << "that is for devices";
  runAllTypes({GetParam(), "ll128"}, 5, {0, 1, 17, 255, 1000}, 13);
}

TEST_P(LineAlgorithms, GiveTheRightResultForLargeBuffers) { runLarge(GetParam(), "ll128", 5); }

class CodedLineAlgorithms : public LineAlgorithms {};

TEST_P(CodedLineAlgorithms, GiveTheBitsThatTheyGiveOnTheHost) {
  if (isSkipped(GetParam(), {"quantisedTwoShotAllReduce"}))
    GTEST_SKIP() << "that is for devices";
  runCoded({GetParam(), "coded-ll128"}, 17);
}

TEST(Lines, AreRefusedAcrossDevicesThatNvlinkDoesNotConnect) {
  if (!isStandIn())
    GTEST_SKIP() << "its devices are made up";
  DeviceAlgorithm algorithm("ringAllGather", "ll128");
  auto run = [&](std::vector<int> devices) {
    auto communicator = runtime::DeviceCommunicator::createLocal(devices, {.lanes = 1, .threads = 64});
    EXPECT_TRUE(communicator.isOk()) << communicator.status().message();
    runtime::CallArguments arguments;
    arguments.mesh = *runtime::Mesh::create({{"rank", 2}});
    std::vector<runtime::RankBuffers> buffers(2);
    std::vector<runtime::StreamHandle> streams(2);
    runtime::Status status = communicator->run(algorithm.plugin, arguments, buffers, streams);
    return status.isOk() ? communicator->synchronize().message() : status.message();
  };
  StandInThreads threads(threadsPerLine);
  EXPECT_EQ(run({0, 1}), "");
  ScopedVariable none("KOLO_STANDIN_NVLINK", "0");
  EXPECT_EQ(run({0, 0}), "") << "a device reaches itself";
  EXPECT_EQ(run({0, 1}),
            "program 'ringAllGather' uses protocol ll128, whose lines arrive whole only inside a device and over "
            "NVLink: device 0 has no NVLink to that of rank 1");
}

INSTANTIATE_TEST_SUITE_P(All, LineAlgorithms, testing::ValuesIn(algorithmNames("ll128")),
                         [](const auto &test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(All, CodedAlgorithms, testing::ValuesIn(algorithmNames("coded")),
                         [](const auto &test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(All, CodedPacketAlgorithms, testing::ValuesIn(algorithmNames("coded-ll")),
                         [](const auto &test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(All, CodedLineAlgorithms, testing::ValuesIn(algorithmNames("coded-ll128")),
                         [](const auto &test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(All, StochasticAlgorithms, testing::ValuesIn(algorithmNames("stochastic")),
                         [](const auto &test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(All, PacketAlgorithms, testing::ValuesIn(algorithmNames("ll")),
                         [](const auto &test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(All, DeviceAlgorithms, testing::ValuesIn(algorithmNames("bulk")),
                         [](const auto &test) { return test.param; });
