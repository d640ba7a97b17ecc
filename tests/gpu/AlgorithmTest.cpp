// Every shipped algorithm, with 2, 4 and 8 ranks that share one device: all types, awkward counts, several calls back
// to back.
#include "../runtime/Ranks.h"
#include "Support.h"

#include "targets/gpu/DeviceFunctions.h"

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

/// All types, on all meshes, each with one of the counts; so many calls back to back.
void runAllTypes(DeviceAlgorithm &algorithm, int numCalls, const std::vector<int64_t> &counts, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (const Sizes &mesh : algorithm.meshes())
    for (int lanes : isStandIn() ? std::vector<int>{2} : std::vector<int>{1, 3, 8}) {
      DeviceRanks ranks(algorithm, mesh, {.lanes = lanes, .threads = 256, .timeoutMs = 20000});
      for (reference::ElementType type : reference::allElementTypes) {
        reference::Call call = algorithm.call(mesh);
        call.type = type;
        call.count = counts[random() % counts.size()];
        call.reduction = reference::allReductions[random() % std::size(reference::allReductions)];
        if (algorithm.isRooted())
          call.root = int64_t(random() % uint64_t(reference::groupSize(call)));
        ASSERT_EQ(ranks.run(call, numCalls, random()), "")
            << nameOf(type).str() << " " << nameOf(call.reduction).str() << ", count " << call.count << ", " << lanes
            << " lanes, " << mesh.size() << " dimensions, " << reference::numRanks(call) << " ranks";
      }
    }
}

} // namespace

TEST_P(DeviceAlgorithms, GiveTheReferencesResultForAllTypesAndAwkwardCountsBackToBack) {
  DeviceAlgorithm algorithm(GetParam(), everything());
  runAllTypes(algorithm, 3, {0, 1, 17, 255, 1000, 3001}, 11);
}

TEST_P(DeviceAlgorithms, GiveTheRightResultForLargeBuffers) {
  if (isStandIn())
    GTEST_SKIP() << "that is for devices";
  DeviceAlgorithm algorithm(GetParam(), {});
  for (const Sizes &mesh : algorithm.meshes()) {
    DeviceRanks ranks(algorithm, mesh, {.lanes = 16});
    reference::Call call = algorithm.call(mesh);
    call.count = (1 << 20) + 3;
    EXPECT_EQ(ranks.run(call, 2, 5), "") << reference::numRanks(call) << " ranks";
  }
}

class PacketAlgorithms : public DeviceAlgorithms {};

TEST_P(PacketAlgorithms, GiveTheReferencesResultForAllTypesAndAwkwardCountsBackToBack) {
  DeviceAlgorithm algorithm(GetParam(), everything(), "", {.protocol = Protocol::LL});
  runAllTypes(algorithm, 5, {0, 1, 17, 255, 1000}, 12);
}

/// On the stand-in driver with as many threads as a line takes, which is slow there.
class LineAlgorithms : public DeviceAlgorithms {
protected:
  StandInThreads threads{gpu::threadsPerLine};
};

TEST_P(LineAlgorithms, GiveTheReferencesResultForAllTypesAndAwkwardCountsBackToBack) {
  constexpr const char *few[] = {"directBroadcast", "ringReduceScatter", "twoShotAllReduce"};
  if (isStandIn() && !llvm::is_contained(few, GetParam()))
    GTEST_SKIP() << "that is for devices";
  DeviceAlgorithm algorithm(GetParam(), everything(), "", {.protocol = Protocol::LL128});
  runAllTypes(algorithm, 5, {0, 1, 17, 255, 1000}, 13);
}

TEST_P(LineAlgorithms, GiveTheRightResultForLargeBuffers) {
  if (isStandIn())
    GTEST_SKIP() << "that is for devices";
  DeviceAlgorithm algorithm(GetParam(), {}, "", {.protocol = Protocol::LL128});
  for (const Sizes &mesh : algorithm.meshes()) {
    DeviceRanks ranks(algorithm, mesh, {.lanes = 16});
    reference::Call call = algorithm.call(mesh);
    call.count = (1 << 20) + 3;
    EXPECT_EQ(ranks.run(call, 5, 6), "") << reference::numRanks(call) << " ranks";
  }
}

TEST(Lines, AreRefusedAcrossDevicesThatNvlinkDoesNotConnect) {
  if (!isStandIn())
    GTEST_SKIP() << "its devices are made up";
  DeviceAlgorithm algorithm("ringAllGather", {}, "", {.protocol = Protocol::LL128});
  auto run = [&](std::vector<int> devices) {
    auto communicator = runtime::DeviceCommunicator::createLocal(devices, {.lanes = 1, .threads = 64});
    EXPECT_TRUE(communicator.isOk()) << communicator.status().message();
    runtime::CallArguments arguments;
    arguments.mesh = *runtime::Mesh::create({{"rank", 2}});
    std::vector<runtime::RankBuffers> buffers(2);
    std::vector<runtime::StreamHandle> streams(2);
    runtime::Status status = communicator->run(*algorithm.plugin, arguments, buffers, streams);
    return status.isOk() ? communicator->synchronize().message() : status.message();
  };
  StandInThreads threads(gpu::threadsPerLine);
  EXPECT_EQ(run({0, 1}), "");
  ScopedVariable none("KOLO_STANDIN_NVLINK", "0");
  EXPECT_EQ(run({0, 0}), "") << "a device reaches itself";
  EXPECT_EQ(run({0, 1}),
            "program 'ringAllGather' uses protocol ll128, whose lines arrive whole only inside a device and over "
            "NVLink: device 0 has no NVLink to that of rank 1");
}

INSTANTIATE_TEST_SUITE_P(All, LineAlgorithms, testing::ValuesIn(packetAlgorithmNames()),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(All, PacketAlgorithms, testing::ValuesIn(packetAlgorithmNames()),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(All, DeviceAlgorithms, testing::ValuesIn(algorithmNames()),
                         [](const auto &info) { return info.param; });
