// Every algorithm gives what its collective is defined to give, bitwise, or refuses the mesh with a reason.
#include "Support.h"

#include "tests/support/Reductions.h"

using namespace kolo::reference;

static const int64_t resultCounts[] = {0, 1, 3, 17, 64};

/// The error's text, empty for success.
TEST_P(EveryAlgorithm, GivesTheExpectedOutputOnEveryMeshForEveryCountAndRoot) {
  Algorithm algorithm(GetParam());
  for (const Sizes &mesh : testMeshes(definitionOf(GetParam()).mesh.dims.size())) {
    if (reasonToRefuse(GetParam(), mesh))
      continue;
    for (int64_t root : algorithm.testRoots(mesh))
      for (int64_t count : resultCounts) {
        SimulatedCall simulated = algorithm.callOn(mesh, count, root, ElementType::I32, Reduction::Sum);
        EXPECT_EQ(textOf(algorithm.run(simulated)), "") << describe(simulated);
      }
  }
}

TEST_P(EveryAlgorithm, WorksForEveryElementTypeAndReduction) {
  Algorithm algorithm(GetParam());
  static const std::vector<Sizes> meshes[] = {{}, {{4}, {8}}, {{4, 2}}, {{2, 1, 2}}, {{2, 1, 2, 2}}};
  for (const Sizes &mesh : meshes[definitionOf(GetParam()).mesh.dims.size()])
    for (ElementType type : allElementTypes)
      for (Reduction reduction : kolo::test::reductionsFor(algorithm.choreography().getCollective().getKind())) {
        SimulatedCall simulated = algorithm.callOn(mesh, 45, 1, type, reduction);
        EXPECT_EQ(textOf(algorithm.run(simulated)), "") << describe(simulated);
      }
}

TEST_P(EveryAlgorithm, RefusesExactlyTheMeshesThatTheTableNames) {
  Algorithm algorithm(GetParam());
  for (const Sizes &mesh : testMeshes(definitionOf(GetParam()).mesh.dims.size())) {
    SimulatedCall simulated = algorithm.callOn(mesh, 16, 0, ElementType::I32, Reduction::Sum);
    std::optional<std::string> reason = reasonToRefuse(GetParam(), mesh);
    std::string error = textOf(algorithm.run(simulated));
    // What an algorithm itself refuses would be wrong in some way or other.
    bool isRequired = !kolo::test::requirementAgainst(GetParam(), mesh).empty();
    EXPECT_EQ(isRequired ? !error.empty() : error.find("sends to coordinate") != std::string::npos, reason.has_value())
        << describe(simulated) << reason.value_or("must run") << "; got '" << error << "'";
  }
}

/// On so many ranks, not all trees send together.
TEST(AggregatedTrees, GiveTheExpectedOutputOnManyRanks) {
  for (const char *name : {"patAllGather", "patReduceScatter"}) {
    Algorithm algorithm(name);
    for (int64_t ranks : {17, 31, 32, 33, 48, 64}) {
      SimulatedCall simulated = algorithm.callOn({ranks}, 3, 0, ElementType::I32, Reduction::Sum);
      EXPECT_EQ(textOf(algorithm.run(simulated)), "") << name << ", " << describe(simulated);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryAlgorithm, testing::ValuesIn(algorithmNames()),
                         [](const auto &info) { return info.param; });
