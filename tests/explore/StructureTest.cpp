// Which structures there are on a machine.
#include "tools/explore/Structure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace kolo::explore {
namespace {

cost::Machine readMachine(const std::string &name) {
  return std::get<cost::Machine>(cost::Machine::read(MACHINES "/" + name + ".json"));
}

std::vector<std::string> meshTexts(const std::string &machine, int64_t nodes) {
  std::vector<std::string> texts;
  for (const FittingMesh &mesh : meshesFor(readMachine(machine), nodes)) {
    std::string text;
    for (size_t i = 0; i < mesh.dims.size(); ++i)
      text += (i ? "," : "") + mesh.dims[i] + "=" + std::to_string(mesh.sizes[i]);
    texts.push_back(text + (mesh.placement.empty() ? "" : " " + mesh.placement));
  }
  return texts;
}

TEST(Meshes, FollowTheNodesLinksAndTheNetworksLevels) {
  EXPECT_EQ(meshTexts("frontier", 1),
            (std::vector<std::string>{"gpu=8", "gpu=8 devices=0,1,3,2,4,5,7,6", "module=4,die=2"}));
  std::vector<std::string> large = meshTexts("frontier", 9408);
  // 9,408 nodes are no whole number of groups of 128, but 147 times 64 that lie in one group each.
  EXPECT_NE(std::ranges::find(large, "group=147,node=64,gpu=8"), large.end());
  EXPECT_NE(std::ranges::find(large, "switch=588,node=16,module=4,die=2"), large.end());
  EXPECT_EQ(meshTexts("dgx-h100", 1), (std::vector<std::string>{"gpu=8"})); // all alike behind a switch
}

TEST(Meshes, FitTheMachine) {
  const cost::Machine machine = readMachine("frontier");
  for (int64_t nodes : {1, 2, 6, 16, 128, 9408})
    for (const FittingMesh &mesh : meshesFor(machine, nodes)) {
      auto placement = cost::Placement::create(machine, {mesh.dims, mesh.sizes}, mesh.placement);
      ASSERT_TRUE(std::holds_alternative<cost::Placement>(placement));
      EXPECT_EQ(std::get<cost::Placement>(placement).numRanks(), nodes * 8);
    }
}

TEST(Rings, ShareNoLinkBeyondItsWidth) {
  const cost::Machine machine = readMachine("frontier");
  NodeGraphs graphs = findGraphs(machine);
  ASSERT_EQ(graphs.rings.size(), 2U);
  std::map<std::pair<int64_t, int64_t>, int> uses;
  for (const std::vector<int64_t> &ring : graphs.rings) {
    EXPECT_EQ(std::set<int64_t>(ring.begin(), ring.end()).size(), 8U);
    for (size_t i = 0; i < ring.size(); ++i)
      ++uses[std::minmax(ring[i], ring[(i + 1) % ring.size()])];
  }
  for (const auto &[pair, count] : uses) {
    int links = 0;
    for (const cost::Link &link : machine.links())
      if (std::minmax<int64_t>(link.from, link.to) == std::pair<const int64_t &, const int64_t &>(pair))
        links += link.count;
    EXPECT_LE(count, links) << pair.first << "-" << pair.second;
  }
}

TEST(Rings, EnterAndLeaveNodesByDifferentNics) {
  const cost::Machine machine = readMachine("frontier");
  std::set<int> nics;
  for (const std::vector<int64_t> &ring : turnedToNics(findGraphs(machine).rings, machine))
    for (int64_t end : {ring.front(), ring.back()})
      nics.insert(machine.toNetwork(int(end)).resources.back());
  EXPECT_EQ(nics.size(), 4U);
}

TEST(Space, HasAThousandCandidatesAndNoStructureTwice) {
  const cost::Machine machine = readMachine("frontier");
  for (KoloCollective collective :
       {KOLO_ALL_GATHER, KOLO_REDUCE_SCATTER, KOLO_ALL_REDUCE, KOLO_ALL_TO_ALL, KOLO_BROADCAST}) {
    Space space = enumerate(machine, 128, collective);
    EXPECT_GE(space.structures.size(), 100U) << collective; // with ten schedules each
    std::set<std::string> names;
    for (const Structure &structure : space.structures) {
      std::string sizes;
      for (int64_t size : structure.sizes)
        sizes += " " + std::to_string(size);
      EXPECT_TRUE(names.insert(structure.name() + sizes + structure.placement).second) << structure.describe();
    }
  }
  EXPECT_TRUE(enumerate(machine, 128, KOLO_GATHER).structures.empty());
}

TEST(Space, SaysWhyStructuresAreLeftOut) {
  Space space = enumerate(readMachine("frontier"), 6, KOLO_ALL_GATHER);
  EXPECT_GT(space.leftOut["recursive doubling needs a power of two of ranks"], 0U);
  EXPECT_GT(space.leftOut["among two ranks every algorithm is the exchange between them"], 0U);
}

TEST(Space, HasStructuresOfGroupsAlongAlternatingDistances) {
  const cost::Machine machine = readMachine("frontier");
  for (KoloCollective collective : {KOLO_ALL_REDUCE, KOLO_BROADCAST}) {
    Space space = enumerate(machine, 1024, collective);
    EXPECT_TRUE(std::ranges::any_of(space.structures, [](const Structure &structure) {
      auto isAcross = [&](const Phase &phase) {
        return structure.dims[phase.dim] == "group" && structure.sizes[phase.dim] == 8 &&
               phase.block == Block::Alternating;
      };
      return std::ranges::any_of(structure.phases, isAcross);
    })) << collective;
  }
}

TEST(Space, HasRecursiveMultiplyingForItsNumbersOfRanksAlone) {
  const cost::Machine machine = readMachine("frontier");
  for (int64_t nodes : {6, 8, 12, 16, 20, 24, 32, 48}) {
    Space space = enumerate(machine, nodes, KOLO_ALL_GATHER);
    const bool isOfNodes = std::ranges::any_of(space.structures, [](const Structure &structure) {
      return structure.dims == std::vector<std::string>{"node", "gpu"} &&
             std::ranges::count(structure.phases, Phase{0, Block::Multiplying}) > 0;
    });
    EXPECT_EQ(isOfNodes, nodes != 6 && nodes != 20 && nodes != 24) << nodes;
  }
}

TEST(Structure, IsNamedAndDescribed) {
  Structure structure{KOLO_ALL_GATHER,  {"node", "gpu"}, {2, 8}, "", {{0, Block::RecursiveDoubling}, {1, Block::Ring}},
                      Striping::TwoWay, nullptr};
  EXPECT_EQ(structure.name(), "allGatherNodeRecursiveDoublingGpuRingTwoWay");
  EXPECT_EQ(structure.describe(),
            "recursive doubling along node, then ring along gpu; half of every chunk goes around rings the other way");
}

} // namespace
} // namespace kolo::explore
