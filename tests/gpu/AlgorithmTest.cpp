// Every shipped algorithm, with 2, 4 and 8 ranks that share one device: all types, awkward counts, several calls back
// to back.
#include "Support.h"

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
  DeviceAlgorithm algorithm(GetParam(), everything(), "", {.protocol = Protocol::Packets});
  runAllTypes(algorithm, 5, {0, 1, 17, 255, 1000}, 12);
}

INSTANTIATE_TEST_SUITE_P(All, PacketAlgorithms, testing::ValuesIn(packetAlgorithmNames()),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(All, DeviceAlgorithms, testing::ValuesIn(algorithmNames()),
                         [](const auto &info) { return info.param; });
