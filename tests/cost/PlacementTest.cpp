#include "Support.h"

#include <chrono>
#include <set>

using namespace kolo::cost;

TEST(Placement, RanksFillNodesOneAfterTheOther) {
  Machine frontier = machineCalled("frontier");
  Placement placement = allDevices(frontier, 4);
  EXPECT_EQ(placement.numNodes(), 4);
  EXPECT_EQ(placement.nodeOf(17), 2);
  EXPECT_EQ(placement.deviceOf(17), 1);
  EXPECT_EQ(placement.rankAt(2, 1), 17);
}

TEST(Placement, EveryRankHasADeviceOfItsOwnWhateverTheOrder) {
  Machine frontier = machineCalled("frontier");
  PlacedMesh mesh{{"a", "b", "c"}, {3, 4, 6}};
  for (const char *text :
       {"", "order=c,a,b", "order=b,c,a per-node=4", "devices=7,5,3,1", "devices=6,2,0 per-node=2"}) {
    auto result = Placement::create(frontier, mesh, text);
    ASSERT_EQ(mistakeIn(result), "") << text;
    const auto &placement = std::get<Placement>(result);
    std::set<std::pair<int64_t, int>> taken;
    for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
      EXPECT_TRUE(taken.insert({placement.nodeOf(rank), placement.deviceOf(rank)}).second) << text;
      int64_t place = placement.position(rank);
      EXPECT_EQ(placement.rankAt(place / placement.ranksPerNode(), int(place % placement.ranksPerNode())), rank);
    }
  }
}

TEST(Placement, StridesSayHowFarNeighboursAre) {
  Machine frontier = machineCalled("frontier");
  auto placement = std::get<Placement>(Placement::create(frontier, {{"node", "gpu"}, {4, 8}}, "order=gpu,node"));
  EXPECT_EQ(placement.strideOf(0), 1);
  EXPECT_EQ(placement.strideOf(1), 4);
  EXPECT_EQ(placement.position(8 * 2 + 3), 3 * 4 + 2);
}

TEST(Placement, TakesAMillionRanksAtOnce) {
  Machine superPod = machineCalled("dgx-h100");
  auto start = std::chrono::steady_clock::now();
  for (int64_t times = 0; times < 1000; ++times) {
    Placement placement = allDevices(superPod, superPod.numNodes());
    ASSERT_EQ(placement.rankAt(placement.nodeOf(times), placement.deviceOf(times)), times);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  EXPECT_EQ(mistakeIn(Placement::create(superPod, {{"rank"}, {(1 << 20) + 1}})),
            "mesh: it has more than 1048576 ranks");
}

TEST(Placement, SaysWhatIsWrong) {
  Machine frontier = machineCalled("frontier");
  struct Case {
    PlacedMesh mesh;
    const char *text, *message;
  };
  PlacedMesh two{{"node", "gpu"}, {2, 8}};
  const Case cases[] = {
      {{{"rank"}, {12}},
       "",
       "placement: 12 ranks do not fill nodes of 8 ranks each; per-node=... takes another number"},
      {{{"node", "gpu"}, {9409, 8}}, "", "mesh: 75272 ranks need 9409 nodes of frontier, which has 9408"},
      {{{"node", "gpu"}, {0, 8}}, "", "mesh: dimension 'node' has size 0; the least is 1"},
      {{{"a", "b"}, {int64_t(1) << 40, int64_t(1) << 40}}, "", "mesh: it has more than 1048576 ranks"},
      {two, "order=gpu,nodes", "placement: order: the mesh has no dimension 'nodes' (it has node, gpu)"},
      {two, "order=gpu,gpu", "placement: order: dimension 'gpu' is given twice"},
      {two, "order=gpu", "placement: order: dimension 'node' is missing"},
      {two, "devices=0,1,1", "placement: devices: device 1 is given twice, and a device has one rank"},
      {two, "devices=0,8", "placement: devices: a node of frontier has no device 8; its devices are 0 to 7"},
      {two, "devices=0,,1", "placement: devices: '' is no number"},
      {two, "per-node=9", "placement: per-node: 9 is no number from 1 to 8, the devices that are used of a node"},
      {two, "per-node=x", "placement: per-node: 'x' is no number"},
      {two, "per-node=", "placement: per-node: a value is missing, as in per-node=..."},
      {two, "per-node=4 per-node=4", "placement: per-node: is given twice"},
      {two, "node=4", "placement: there is no field 'node' (one of order, devices, per-node)"},
  };
  for (const Case &wrong : cases)
    EXPECT_EQ(mistakeIn(Placement::create(frontier, wrong.mesh, wrong.text)), wrong.message) << wrong.text;
}
