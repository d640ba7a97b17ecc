// The search, with costs that are known beforehand.
#include "tools/explore/Search.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace kolo::explore {
namespace {

/// 4,096 structures: six dimensions with four blocks each, on one mesh.
Space makeSpace() {
  Space space;
  Structure structure;
  for (size_t dim = 0; dim < 6; ++dim) {
    structure.dims.push_back("d" + std::to_string(dim));
    structure.sizes.push_back(8);
    structure.phases.push_back({dim, Block::Ring});
  }
  for (int number = 0; number < 4096; ++number) {
    for (int dim = 0; dim < 6; ++dim)
      structure.phases[size_t(dim)].block = Block((number >> (2 * dim)) % 4);
    space.structures.push_back(structure);
  }
  space.leftOut["reason"] = 3;
  return space;
}

/// The more all pairs the better for the first size, the more rings for the second; Bruck first is refused.
Costs costOf(const Structure &structure) {
  double first = 1, second = 1;
  for (const Phase &phase : structure.phases) {
    first += phase.block != Block::AllPairs;
    second += phase.block != Block::Ring;
  }
  if (structure.phases.front().block == Block::Bruck)
    return {{{}}, {"refused"}};
  return {{{first, second}}, {""}};
}

SearchResult run(unsigned numThreads, uint64_t seed, size_t most) {
  SearchOptions options{.mostStructures = most, .seed = seed, .numThreads = numThreads};
  return search(makeSpace(), options, [](unsigned, const Structure &structure) { return costOf(structure); });
}

TEST(Search, GivesTheSameForAnyNumberOfThreads) {
  SearchResult one = run(1, 7, 200), four = run(4, 7, 200);
  ASSERT_EQ(one.structures.size(), 200U);
  EXPECT_EQ(one.structures, four.structures);
  EXPECT_EQ(one.leftOut, four.leftOut);
  EXPECT_EQ(one.numCandidates, four.numCandidates);
  EXPECT_NE(one.structures, run(1, 8, 200).structures);
}

TEST(Search, CountsEveryCandidate) {
  SearchResult result = run(2, 0, 200);
  EXPECT_EQ(result.leftOut["reason"], 3U);
  EXPECT_EQ(result.numCandidates + result.leftOut["refused"], 200U);
  EXPECT_EQ(result.numInSpace, 4096U);
  EXPECT_EQ(run(1, 0, 5000).structures.size(), 4096U);
}

TEST(Search, ComesNearerToTheBestThanASample) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    SearchResult result = run(1, seed, 300);
    for (size_t size : {0, 1})
      EXPECT_LE(rank(result, size, 1).front().seconds, 3); // two phases of six are wrong; in a sample, mostly three
  }
}

TEST(Search, RanksDifferentTimes) {
  SearchResult result = run(1, 0, 300);
  std::vector<Ranked> ranked = rank(result, 0, 3);
  ASSERT_EQ(ranked.size(), 3U);
  EXPECT_LT(ranked[0].seconds, ranked[1].seconds);
  EXPECT_LT(ranked[1].seconds, ranked[2].seconds);
}

TEST(ForEach, VisitsEveryNumberAndPassesAnExceptionOn) {
  std::vector<std::atomic<int>> visits(1000);
  forEach(visits.size(), 4, [&](unsigned, size_t i) { ++visits[i]; });
  for (const std::atomic<int> &count : visits)
    EXPECT_EQ(count, 1);
  auto fail = [](unsigned, size_t i) {
    if (i == 7)
      throw std::runtime_error("seven");
  };
  EXPECT_THROW(forEach(100, 4, fail), std::runtime_error);
}

} // namespace
} // namespace kolo::explore
