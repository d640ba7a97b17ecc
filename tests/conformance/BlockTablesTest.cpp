// Calls whose blocks have counts and places of their own, by every algorithm that takes block tables. What arrives is
// what the collective's definition says, and nothing else is touched.
#include "TabledRunner.h"

using namespace kolo::conformance;
namespace runtime = kolo::runtime;

namespace {

class EveryBlockwiseAlgorithm : public testing::TestWithParam<std::string> {};

} // namespace

TEST_P(EveryBlockwiseAlgorithm, GivesWhatTheTablesSay) {
  TabledRunner runner(GetParam(), {});
  if (takesTables(GetParam(), {}))
    return runner.runSetups(false);
  const Sizes mesh = meshesOf(definitionOf(GetParam())).back();
  EXPECT_FALSE(runner.algorithm.info().proofOf(mesh)->takesTables); // of few ranks, each has what it needs
  auto body = [&](runtime::Communicator &communicator) {
    const runtime::BlockTables tables;
    runtime::CallArguments arguments;
    arguments.mesh = namedMesh(definitionOf(GetParam()), mesh);
    arguments.blocks = &tables;
    return kolo::test::expectStatus(communicator.run(runner.algorithm.plugin(), arguments),
                                    runtime::StatusCode::InvalidArgument,
                                    {"program '" + GetParam() + "' takes no block tables on mesh "});
  };
  EXPECT_EQ(
      kolo::test::runRanks(Launch::Threads, namedMesh(definitionOf(GetParam()), mesh).numRanks(), {60000, 1}, body),
      "");
}

TEST_P(EveryBlockwiseAlgorithm, HeavyGivesWhatTheTablesSay) {
  for (const kolo::Schedule &schedule : {kolo::Schedule{},
                                         {.pipelineDepth = 3},
                                         {.transfers = kolo::Transfers::Pull},
                                         {.transfers = kolo::Transfers::Push},
                                         {.entry = kolo::Entry::Credits}})
    if (takesTables(GetParam(), schedule))
      TabledRunner(GetParam(), schedule).runSetups(true);
}

TEST_P(EveryTabledPacketAlgorithm, GivesWhatTheTablesSay) { TabledRunner(name(), schedule()).runSetups(false); }

TEST_P(EveryTabledPublishingAlgorithm, GivesWhatTheTablesSay) {
  TabledRunner(GetParam(), {.protocol = kolo::Protocol::Published}).runSetups(false);
}

/// What these encode they decode again, unchanged: a block has one scale for all of its elements, however long it is.
TEST(BlockTables, SayHowLongEncodedBlocksAre) {
  for (const char *name : {"quantisedRailAllToAll", "quantisedNodeAllGather", "quantisedTwoLevelAllToAll"})
    TabledRunner(name, {}).runSetups(false);
  TabledRunner("quantisedAllToAll", {.pipelineDepth = 3}).runSetups(false);
  TabledRunner("quantisedRingAllGather", {.protocol = kolo::Protocol::LL}).runSetups(false);
  TabledRunner("quantisedAllToAll", {}, {"rank"}).runOnHosts({3}, kolo::test::alone, 1, 8);
  for (const char *name : {"quantisedRailAllToAll", "quantisedTwoLevelAllToAll"})
    TabledRunner(name, {}, {"node"}).runOnHosts({2, 2}, kolo::test::pairs, 1, 8);
}

TEST(BlockTables, HeavySayHowLongEncodedBlocksAre) {
  for (const char *name : {"quantisedAllToAll", "quantisedRingAllGather", "quantisedRailAllGather"})
    TabledRunner(name, {}).runSetups(true);
}

/// Every rank alone on its host, or two on each.
TEST(BlockTables, GoToOtherHosts) {
  for (const char *name : {"directAllToAll", "ringAllGather", "ringReduceScatter", "directGather", "directScatter",
                           "binomialGather", "binomialScatter", "patAllGather", "patReduceScatter"}) {
    TabledRunner runner(name, {}, {"rank"});
    runner.runOnHosts({4}, kolo::test::pairs, 2, 8);
    runner.runOnHosts({3}, kolo::test::alone, 1, 8);
  }
  TabledRunner rails("railAllGather", {}, {"node"});
  rails.runOnHosts({2, 2}, kolo::test::pairs, 1, 8);
  for (int64_t depth : {1, 3}) {
    TabledRunner levels("twoLevelAllToAll", {.pipelineDepth = depth}, {"node"});
    levels.runOnHosts({2, 2}, kolo::test::pairs, 2, 12);
    levels.runOnHosts({3, 2}, kolo::test::pairs, 1, 12);
    TabledRunner apart("twoLevelAllToAll", {.pipelineDepth = depth}, {"node", "gpu"});
    apart.runOnHosts({2, 2}, kolo::test::alone, 2, 12);
  }
}

/// From call to call the block between two ranks grows, and the third has the same tables all the time. Without entry
/// barrier, a call without tables would be repeated there without an exchange.
TEST(BlockTables, MayStayTheSameOnSomeRanks) {
  const CompiledAlgorithm algorithm("directAllToAll", /*optimize=*/true, {.entry = kolo::Entry::Credits}, {"rank"});
  const runtime::Mesh mesh = *runtime::Mesh::parse("rank=3");
  auto body = [&](runtime::Communicator &communicator) -> std::string {
    const int64_t rank = communicator.rank();
    std::string wrong;
    for (int64_t call = 0; call < 6; ++call) {
      auto countOf = [&](int64_t giver, int64_t taker) {
        return giver == 1 || taker == 1 || giver == taker ? int64_t(10) : 10 + call / 2 * 5;
      };
      Counts given, taken;
      std::vector<int32_t> input, output, expected;
      for (int64_t peer = 0; peer < 3; ++peer) {
        given.push_back(countOf(rank, peer));
        taken.push_back(countOf(peer, rank));
        input.insert(input.end(), size_t(given.back()), int32_t(100 * call + 10 * rank + peer));
        expected.insert(expected.end(), size_t(taken.back()), int32_t(100 * call + 10 * peer + rank));
      }
      output.assign(expected.size(), -1);
      const runtime::BlockTables tables = {{given, {}}, {taken, {}}};
      runtime::CallArguments arguments{"directAllToAll", mesh, 0, runtime::DataType::I32};
      arguments.input = input.data();
      arguments.output = output.data();
      arguments.blocks = &tables;
      wrong += communicator.run(algorithm.plugin(), arguments).message();
      wrong += output == expected ? "" : "call " + std::to_string(call) + " is wrong; ";
    }
    return wrong;
  };
  EXPECT_EQ(kolo::test::onHosts(3, kolo::test::alone, {20000, 1}, body), "");
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryBlockwiseAlgorithm, testing::ValuesIn(blockwiseAlgorithmNames()),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Algorithms, EveryTabledPacketAlgorithm,
                         testing::Combine(testing::ValuesIn(kolo::test::exampleNames(packetTabledNames())),
                                          testing::Values(kolo::Protocol::LL, kolo::Protocol::LL128)),
                         [](const auto &info) {
                           bool isLl128 = std::get<1>(info.param) == kolo::Protocol::LL128;
                           return std::get<0>(info.param) + (isLl128 ? "Ll128" : "Ll");
                         });
INSTANTIATE_TEST_SUITE_P(Algorithms, EveryTabledPublishingAlgorithm,
                         testing::ValuesIn(kolo::test::exampleNames(publishingTabledNames())),
                         [](const auto &info) { return info.param; });
