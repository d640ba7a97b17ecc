// Structures as choreographies: the checker proves them, and an exploration is the same for any number of threads.
#include "tools/explore/Assemble.h"
#include "tools/explore/Explore.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace kolo::tools {
namespace {

cost::Machine frontier() { return std::get<cost::Machine>(cost::Machine::read(MACHINES "/frontier.json")); }

/// Throws where it is refused.
void prove(const dsl::Definition &definition, const cost::PlacedMesh &mesh, const Schedule &schedule = {}) {
  CompileRequest request{{definition}, {toMesh(mesh)}, ""};
  request.schedule = schedule;
  emitStage(request, Stage::Channel);
}

class EveryCollective : public testing::TestWithParam<KoloCollective> {};

TEST_P(EveryCollective, HasStructuresThatAreProved) {
  const cost::Machine machine = frontier();
  for (int64_t nodes : {1, 2}) {
    explore::Space space = explore::enumerate(machine, nodes, GetParam());
    ASSERT_FALSE(space.structures.empty());
    constexpr size_t most = 7; // spread over the space
    size_t stride = std::max<size_t>(1, space.structures.size() / most);
    for (size_t i = nodes == 1 ? 0 : stride / 2; i < space.structures.size(); i += stride) {
      const explore::Structure &structure = space.structures[i];
      EXPECT_NO_THROW(prove(assemble(structure), structure.mesh())) << structure.name();
    }
  }
}

TEST_P(EveryCollective, HasStructuresOfEveryBlockAndStripingThatAreProved) {
  explore::Space space = explore::enumerate(frontier(), 1, GetParam());
  std::vector<explore::Striping> stripings;
  std::vector<explore::Block> blocks;
  for (const explore::Structure &structure : space.structures) {
    bool isNew = std::ranges::find(stripings, structure.striping) == stripings.end();
    for (const explore::Phase &phase : structure.phases)
      if (std::ranges::find(blocks, phase.block) == blocks.end()) {
        blocks.push_back(phase.block);
        isNew = true;
      }
    if (!isNew)
      continue;
    stripings.push_back(structure.striping);
    EXPECT_NO_THROW(prove(assemble(structure), structure.mesh())) << structure.name();
  }
}

INSTANTIATE_TEST_SUITE_P(Collectives, EveryCollective,
                         testing::Values(KOLO_ALL_GATHER, KOLO_REDUCE_SCATTER, KOLO_ALL_REDUCE, KOLO_ALL_TO_ALL,
                                         KOLO_BROADCAST));

/// Its division must not go with a sum that is the last one on smaller meshes only.
TEST(Assembled, AllReduceOfManySlicesOnSeveralNodesIsProved) {
  explore::Space space = explore::enumerate(frontier(), 4, KOLO_ALL_REDUCE);
  auto structure = std::ranges::find_if(space.structures, [](const explore::Structure &candidate) {
    return candidate.name() == "allReduceGpuRingNodeAllPairsRings";
  });
  ASSERT_NE(structure, space.structures.end());
  EXPECT_NO_THROW(prove(assemble(*structure), structure->mesh(), {.pipelineDepth = 16}));
}

/// By name, on so many nodes of Frontier.
explore::Structure structureCalled(KoloCollective collective, int64_t nodes, const std::string &name) {
  explore::Space space = explore::enumerate(frontier(), nodes, collective);
  auto structure = std::ranges::find(space.structures, name, &explore::Structure::name);
  if (structure == space.structures.end())
    throw std::runtime_error("there is no " + name);
  return *structure;
}

TEST(Assembled, AlternatingDistancesOnSeveralLevelsAreProved) {
  for (const auto &[collective, name] : {std::pair(KOLO_ALL_REDUCE, "allReduceGpuAlternatingNodeAlternating"),
                                         std::pair(KOLO_ALL_REDUCE, "allReduceNodeAlternatingGpuAllPairsTurned"),
                                         std::pair(KOLO_BROADCAST, "broadcastNodeAlternatingGpuAlternating"),
                                         std::pair(KOLO_ALL_GATHER, "allGatherNodeRingGpuMultiplyingTwoWay")}) {
    explore::Structure structure = structureCalled(collective, 4, name);
    EXPECT_NO_THROW(prove(assemble(structure), structure.mesh())) << name;
  }
}

TEST(Explore, LeavesOutWhatTakesMoreScratchMemoryThanIsAllowed) {
  const cost::Machine machine = frontier();
  auto found = [&](std::optional<int64_t> most) {
    ExploreRequest request{KOLO_REDUCE_SCATTER,    machine, 1, {1 << 20, 1 << 26}, cost::Rates::Peak,
                           {.mostStructures = 20}, 0};
    request.mostScratchBytes = most;
    return explore(request);
  };
  // The best of many megabytes combines in scratch memory of as many; half of it serves the smaller size alone.
  const Exploration free = found(std::nullopt), limited = found(1 << 21);
  ASSERT_FALSE(free.sizes[1].best.empty());
  ASSERT_FALSE(limited.sizes[0].best.empty());
  for (const SizeResult &size : limited.sizes)
    for (const Choice &choice : size.best)
      EXPECT_TRUE(std::isfinite(limited.candidates[choice.candidate].seconds[size_t(&size - limited.sizes.data())]));
  bool hasLimited = false;
  for (const PlacedCandidate &candidate : limited.candidates)
    if (candidate.origin != Origin::Rings && std::isinf(candidate.seconds[1])) {
      hasLimited = true;
      EXPECT_TRUE(std::isfinite(candidate.seconds[0])) << candidate.definition.name;
    }
  EXPECT_TRUE(hasLimited);
  if (!limited.sizes[1].best.empty())
    EXPECT_GE(limited.sizes[1].best[0].seconds, free.sizes[1].best[0].seconds);
}

TEST(RingsThroughNodes, AreProved) {
  const cost::Machine machine = frontier();
  auto rings = explore::turnedToNics(explore::findGraphs(machine).rings, machine);
  for (KoloCollective collective : {KOLO_ALL_GATHER, KOLO_REDUCE_SCATTER, KOLO_ALL_REDUCE})
    for (int64_t nodes : {1, 2})
      EXPECT_NO_THROW(prove(assemble(explore::ringsThroughNodes(collective, rings, nodes)), {{"gpu"}, {8 * nodes}}))
          << collective;
}

TEST(RingsThroughNodes, ReachOnOneFrontierNodeWhatRcclsRingsDo) {
  const cost::Machine machine = frontier();
  ExploreRequest request{KOLO_ALL_GATHER, machine, 1, {int64_t(1) << 34}, cost::Rates::Peak, {.mostStructures = 1}, 0};
  Exploration found = explore(request);
  ASSERT_TRUE(found.sizes[0].rings);
  double seconds = found.candidates[found.sizes[0].rings->candidate].seconds[0];
  // 4 links of 50 GB/s bring 7 of 8 blocks, which is 228.6 GB/s; then every rank copies its own block within 1600 GB/s.
  double expected = 1 / (7.0 / 8 / 200 + 2.0 / 8 / 1600);
  EXPECT_NEAR(double(request.sizes[0]) / seconds / 1e9, expected, expected / 1000);
}

TEST(Explore, GivesTheSameForAnyNumberOfThreads) {
  const cost::Machine machine = frontier();
  auto run = [&](unsigned numThreads) {
    ExploreRequest request{
        KOLO_ALL_REDUCE,    machine,           2,
        {1 << 10, 1 << 26}, cost::Rates::Peak, {.mostStructures = 12, .seed = 3, .numThreads = numThreads}};
    return explore(request);
  };
  Exploration one = run(1), three = run(3);
  EXPECT_EQ(one.numCandidates, three.numCandidates);
  EXPECT_EQ(one.leftOut, three.leftOut);
  for (size_t size = 0; size < 2; ++size) {
    ASSERT_EQ(one.sizes[size].best.size(), three.sizes[size].best.size());
    ASSERT_FALSE(one.sizes[size].best.empty());
    for (size_t i = 0; i < one.sizes[size].best.size(); ++i) {
      const Choice &a = one.sizes[size].best[i], &b = three.sizes[size].best[i];
      EXPECT_EQ(a.seconds, b.seconds);
      EXPECT_EQ(one.candidates[a.candidate].definition.name, three.candidates[b.candidate].definition.name);
      EXPECT_GE(a.seconds, one.sizes[size].bound->seconds * 0.999);
    }
  }
}

} // namespace
} // namespace kolo::tools
