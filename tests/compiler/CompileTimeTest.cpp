// Compiling takes no time that an author would notice, for any number of ranks.
#include "Support.h"

#include <algorithm>
#include <ctime>
#include <limits>

using namespace kolo;
using namespace kolo::test;

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KOLO_ADDRESS_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(KOLO_ADDRESS_SANITIZER) || !defined(NDEBUG)
static constexpr bool isOptimizedBuild = false;
#else
static constexpr bool isOptimizedBuild = true;
#endif

/// Half a second on an idle machine; twice that where other work shares the cores' caches and execution units.
static constexpr double mostSeconds = 2 * 0.5;

/// Steps of all ranks together, which the proof follows, grow with the square of the ranks.
static bool hasSquareSteps(const std::string &algorithm) {
  return algorithm == "orderedAllReduce" || algorithm == "scatterAllGatherBroadcast";
}

/// Meshes of thousands of ranks are proved themselves, where the budget suffices: 2.5 seconds on an idle machine, twice
/// that on others.
static double mostSecondsFor(const std::string &algorithm, int64_t numRanks) {
  return numRanks > (hasSquareSteps(algorithm) ? 64 : 512) && numRanks <= 1 << 17 ? 2 * 2.5 : mostSeconds;
}

/// Processor time of this process. It does not depend on how long others have the processor, but on their use of what
/// processors share.
static double cpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

/// The least of up to three times. A virtual machine whose host is busy takes up to 1.7 times as long from one minute
/// to the next, also where nothing else runs in it.
static double compileSeconds(const std::string &algorithm, const Sizes &mesh, double limit) {
  double least = std::numeric_limits<double>::infinity();
  for (int attempt = 0; attempt < 3 && least >= limit; ++attempt) {
    double start = cpuSeconds();
    compilePlugin(algorithm, {mesh});
    least = std::min(least, cpuSeconds() - start);
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
  for (const Sizes &mesh : meshesOfManySizes(definitionOf(GetParam()).mesh.dims.size())) {
    int64_t numRanks = namedMesh(definitionOf(GetParam()), mesh).numRanks();
    double limit = mostSecondsFor(GetParam(), numRanks), seconds = compileSeconds(GetParam(), mesh, limit);
    EXPECT_LT(seconds, limit) << numRanks << " ranks";
    RecordProperty("milliseconds" + std::to_string(numRanks), int(seconds * 1000));
  }
}
