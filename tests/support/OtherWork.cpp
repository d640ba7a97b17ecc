#include "OtherWork.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <ctime>
#include <limits>
#include <memory>
#include <unordered_map>

namespace kolo::test {

namespace {
/// Of this file alone, as the code of its table then is: programs of tests are compiled without optimisation.
struct Piece {
  uint64_t value;
};
} // namespace

double cpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

double secondsOfOtherWork() {
  double start = cpuSeconds();
  std::unordered_map<uint64_t, std::unique_ptr<Piece>> table;
  uint64_t random = 1, numFound = 0;
  for (int step = 0; step < 1 << 20; ++step) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    table[random >> 44] = std::make_unique<Piece>(random);
    numFound += table.count((random >> 20) & 0xfffff);
  }
  EXPECT_GT(numFound, 0U); // so that it is not left out
  return cpuSeconds() - start;
}

double recentSecondsOfOtherWork() {
  static double seconds = 0, measuredAt = -std::numeric_limits<double>::infinity();
  if (cpuSeconds() - measuredAt > 10) {
    seconds = secondsOfOtherWork();
    measuredAt = cpuSeconds();
  }
  return seconds;
}

} // namespace kolo::test
