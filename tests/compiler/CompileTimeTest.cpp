// Compiling takes no time that an author would notice, for any number of ranks.
#include "../support/OtherWork.h"
#include "../support/Sanitizers.h"
#include "Support.h"

#include <algorithm>
#include <limits>

using namespace kolo;
using namespace kolo::test;

#ifdef NDEBUG
static constexpr bool isOptimizedBuild = !isAddressSanitized;
#else
static constexpr bool isOptimizedBuild = false;
#endif

/// Steps of all ranks together, which the proof follows, grow with the square of the ranks.
static bool hasSquareSteps(const std::string &algorithm) {
  return algorithm == "orderedAllReduce" || algorithm == "scatterAllGatherBroadcast" || algorithm == "swingAllReduce";
}

/// In times of `secondsOfOtherWork`: about one second, where a million ranks are a formula. Meshes of thousands of
/// ranks are proved themselves, where the budget suffices: ten times that.
static double mostTimesFor(const std::string &algorithm, int64_t numRanks) {
  return numRanks > (hasSquareSteps(algorithm) ? 64 : 512) && numRanks <= 1 << 17 ? 25 : 2.5;
}

/// In times of that work. The least of up to three, each with the other work measured again: a virtual machine's
/// share of the caches changes from one minute to the next.
static double compileTimes(const std::string &algorithm, const Sizes &mesh, double limit, double otherWork) {
  double least = std::numeric_limits<double>::infinity();
  for (int attempt = 0; attempt < 3 && least >= limit; ++attempt) {
    if (attempt > 0)
      otherWork = secondsOfOtherWork();
    double start = cpuSeconds();
    compilePlugin(algorithm, {mesh});
    least = std::min(least, (cpuSeconds() - start) / otherWork);
  }
  return least;
}

static std::vector<Sizes> meshesOfManySizes(size_t numDims) {
  switch (numDims) {
  case 1:
    return {{8}, {64}, {512}, {8192}, {1048576}};
  case 2:
    return {{2, 4}, {8, 8}, {64, 8}, {1024, 8}, {131072, 8}};
  default:
    return {{2, 2, 2}, {8, 4, 2}, {64, 4, 2}, {1024, 4, 2}, {131072, 4, 2}};
  }
}

/// Of the meshes that follow each other and may take as long, the largest. The label heavy takes all.
static std::vector<Sizes> meshesToTime(const dsl::Definition &definition) {
  std::vector<Sizes> all = meshesOfManySizes(definition.mesh.dims.size());
  if (isSweep())
    return all;
  auto limit = [&](const Sizes &mesh) { return mostTimesFor(definition.name, namedMesh(definition, mesh).numRanks()); };
  std::vector<Sizes> meshes;
  for (size_t i = 0; i < all.size(); ++i)
    if (i + 1 == all.size() || limit(all[i]) != limit(all[i + 1]))
      meshes.push_back(all[i]);
  return meshes;
}

TEST_P(EveryAlgorithm, CompilesInNoTimeForAnyNumberOfRanks) {
  if (!isOptimizedBuild)
    GTEST_SKIP() << "not an optimized build";
  // The first use of LLVM initializes it.
  [[maybe_unused]] static const PluginFile first = compilePlugin(GetParam(), {smallMesh(definitionOf(GetParam()))});
  const double otherWork = recentSecondsOfOtherWork();
  for (const Sizes &mesh : meshesToTime(definitionOf(GetParam()))) {
    int64_t numRanks = namedMesh(definitionOf(GetParam()), mesh).numRanks();
    double limit = mostTimesFor(GetParam(), numRanks), times = compileTimes(GetParam(), mesh, limit, otherWork);
    EXPECT_LT(times, limit) << numRanks << " ranks";
    RecordProperty("timesInThousands" + std::to_string(numRanks), int(times * 1000));
  }
}
