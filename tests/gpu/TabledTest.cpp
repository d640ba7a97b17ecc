// Calls with block tables on devices, by every shipped algorithm that takes them, with 2, 4 and 8 ranks that share one.
#include "Support.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

using namespace kolo;
using namespace kolo::test;

namespace {

class TabledDevices : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    if (std::string why = whyNoDevice(); !why.empty())
      GTEST_SKIP() << why;
  }
};
class TabledPackets : public TabledDevices {};
class TabledLines : public TabledDevices {
protected:
  StandInThreads threads{threadsPerLine};
};

bool isProvedWithTables(const DeviceAlgorithm &algorithm, const runtime::Mesh &mesh) {
  std::vector<int64_t> sizes;
  for (const runtime::MeshDim &dim : mesh.dims())
    sizes.push_back(dim.size);
  const runtime::Proof *proof = algorithm.info().proofOf(sizes);
  return proof && proof->takesTables;
}

/// Kernels write no notes, so they take no tables where ranks forward blocks of others.
bool forwardsBlocks(const std::string &name) {
  static const std::set<std::string> names = {"binomialGather", "binomialScatter",  "bruckAllToAll",
                                              "patAllGather",   "patReduceScatter", "twoLevelAllToAll"};
  return names.contains(name);
}

/// On meshes on which the program takes no tables.
void expectRefusal(const DeviceAlgorithm &algorithm, const runtime::Mesh &mesh) {
  std::mt19937_64 random(1);
  const DeviceCall call = algorithm.call(mesh, 10);
  EXPECT_NE(DeviceRanks(algorithm, mesh, {.lanes = 1})
                .run(call, 1, 1, DeviceBlocks(call, Distribution::Equal, false, random))
                .find("program '" + algorithm.name + "' takes no block tables on "),
            std::string::npos);
}

/// Each distribution on all meshes; on the stand-in, which is slow, on one of them. Every call is made twice with the
/// same tables.
void runTabled(const DeviceAlgorithm &algorithm, const std::vector<int64_t> &lengths, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<runtime::Mesh> meshes;
  for (const runtime::Mesh &mesh : algorithm.meshes())
    if (isProvedWithTables(algorithm, mesh) && !forwardsBlocks(algorithm.name))
      meshes.push_back(mesh);
    else
      expectRefusal(algorithm, mesh);
  for (size_t number = 0; number < meshes.size(); ++number) {
    const runtime::Mesh &mesh = meshes[number];
    DeviceRanks ranks(algorithm, mesh, {.lanes = 2, .threads = 256, .timeoutMs = isStandIn() ? 20000 : 3000});
    for (Distribution distribution : allDistributions) {
      if (isStandIn() && size_t(distribution) % meshes.size() != number)
        continue;
      DeviceCall call = algorithm.call(mesh, lengths[random() % lengths.size()]);
      const runtime::DataType types[] = {runtime::DataType::F32, runtime::DataType::BF16, runtime::DataType::I32,
                                         runtime::DataType::U8};
      call.type = types[random() % 4];
      if (runtime::hasRoot(call.collective))
        call.root = int(random() % uint64_t(call.groupSize()));
      const bool hasPlaces = random() % 4 != 0;
      ASSERT_EQ(ranks.run(call, 2, random(), DeviceBlocks(call, distribution, hasPlaces, random)), "")
          << runtime::toString(call.type) << ", blocks of at most " << call.count << ", distribution "
          << int(distribution) << (hasPlaces ? "" : ", no places") << ", " << mesh.toString();
    }
  }
}

std::vector<std::string> blockwiseNames(const std::string &protocol) {
  std::vector<std::string> names = algorithmNames(protocol);
  std::erase_if(names, [](const std::string &name) {
    return !name.ends_with("Gather") && !name.ends_with("Scatter") && !name.ends_with("AllToAll");
  });
  return names;
}

} // namespace

TEST_P(TabledDevices, GiveWhatTheTablesSay) {
  if (isSkipped(GetParam(), {"bruckAllToAll", "directAllToAll", "directGather", "directScatter", "nodeLocalAllGather",
                             "railReduceScatter", "ringAllGather", "twoLevelAllToAll"}))
    GTEST_SKIP() << "that is for devices";
  runTabled({GetParam(), "bulk"}, {1, 17, 255, 3001}, 31);
}
TEST_P(TabledPackets, GiveWhatTheTablesSay) {
  if (isSkipped(GetParam(), {"directAllToAll", "ringAllGather"}))
    GTEST_SKIP() << "that is for devices";
  runTabled({GetParam(), "ll"}, {1, 17, 255, 1000}, 32);
}
TEST_P(TabledLines, GiveWhatTheTablesSay) {
  if (isSkipped(GetParam(), {"directAllToAll", "ringReduceScatter"}))
    GTEST_SKIP() << "that is for devices";
  runTabled({GetParam(), "ll128"}, {1, 17, 255, 1000}, 33);
}

INSTANTIATE_TEST_SUITE_P(All, TabledDevices, testing::ValuesIn(blockwiseNames("bulk")),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(All, TabledPackets, testing::ValuesIn(blockwiseNames("ll")),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(All, TabledLines, testing::ValuesIn(blockwiseNames("ll128")),
                         [](const auto &info) { return info.param; });
