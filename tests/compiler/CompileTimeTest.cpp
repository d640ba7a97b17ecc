// Compiling takes no time that an author would notice, for any number of ranks.
#include "../support/Sanitizers.h"
#include "Support.h"

#include <algorithm>
#include <ctime>
#include <limits>
#include <memory>
#include <unordered_map>

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

/// Processor time of this process. It does not depend on how long others have the processor, but on their use of what
/// processors share.
static double cpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

/// Processor time of work that no change to the compiler touches, and that as a proof does allocates small pieces and
/// looks them up in tables beyond the caches. It says how fast this machine is in this minute.
static double secondsOfOtherWork() {
  double start = cpuSeconds();
  std::unordered_map<uint64_t, std::unique_ptr<uint64_t>> table;
  uint64_t random = 1, numFound = 0;
  for (int step = 0; step < 1 << 20; ++step) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    table[random >> 44] = std::make_unique<uint64_t>(random);
    numFound += table.count((random >> 20) & 0xfffff);
  }
  EXPECT_GT(numFound, 0U); // so that it is not left out
  return cpuSeconds() - start;
}

/// In times of the work above: about one second, where a million ranks are a formula. Meshes of thousands of ranks are
/// proved themselves, where the budget suffices: ten times that.
static double mostTimesFor(const std::string &algorithm, int64_t numRanks) {
  return numRanks > (hasSquareSteps(algorithm) ? 64 : 512) && numRanks <= 1 << 17 ? 25 : 2.5;
}

/// In times of the work above. The least of up to three, each with the other work measured again: a virtual machine's
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

TEST_P(EveryAlgorithm, CompilesInNoTimeForAnyNumberOfRanks) {
  if (!isOptimizedBuild)
    GTEST_SKIP() << "not an optimized build";
  compilePlugin(GetParam(), {smallMesh(definitionOf(GetParam()))}); // the first use of LLVM initializes it
  const double otherWork = secondsOfOtherWork();
  for (const Sizes &mesh : meshesOfManySizes(definitionOf(GetParam()).mesh.dims.size())) {
    int64_t numRanks = namedMesh(definitionOf(GetParam()), mesh).numRanks();
    double limit = mostTimesFor(GetParam(), numRanks), times = compileTimes(GetParam(), mesh, limit, otherWork);
    EXPECT_LT(times, limit) << numRanks << " ranks";
    RecordProperty("timesInThousands" + std::to_string(numRanks), int(times * 1000));
  }
}
