// A cover has every pair, needs few cases and few outer combinations, and a missing pair is noticed.
#include "PairwiseCover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

using namespace kolo::test;

namespace {

struct Space {
  std::vector<size_t> extents;
  size_t numOuter;
};
const Space spaces[] = {{{7, 2, 3, 2, 10, 7, 5, 3, 2}, 4}, {{10, 7, 5, 1, 3}, 0}, {{1, 1}, 1}, {{4, 4, 4, 4}, 2}};

/// By definition, without a look at how covers are made.
bool hasPair(const std::vector<Choices> &cases, const ChoicePair &pair) {
  auto [a, i, b, j] = pair;
  return std::ranges::any_of(cases, [&](const Choices &choices) { return choices[a] == i && choices[b] == j; });
}

void forEachPair(const std::vector<size_t> &extents, auto visit) {
  for (size_t a = 0; a < extents.size(); ++a)
    for (size_t b = a + 1; b < extents.size(); ++b)
      for (size_t i = 0; i < extents[a]; ++i)
        for (size_t j = 0; j < extents[b]; ++j)
          visit(ChoicePair{a, i, b, j});
}

size_t productOfTwoLargest(std::vector<size_t> extents) {
  std::ranges::sort(extents, std::greater());
  return extents[0] * extents[1];
}

} // namespace

TEST(PairwiseCover, HasEveryPairInLittleMoreCasesThanTheTwoLargestFactorsTake) {
  for (const Space &space : spaces)
    for (uint64_t seed = 0; seed < 20; ++seed) {
      std::vector<Choices> cases = pairwiseCover(space.extents, space.numOuter, seed);
      forEachPair(space.extents, [&](const ChoicePair &pair) { EXPECT_TRUE(hasPair(cases, pair)); });
      EXPECT_TRUE(missingPairs(space.extents, cases).empty());
      EXPECT_LE(cases.size(), 2 * productOfTwoLargest(space.extents));
      for (const Choices &choices : cases)
        for (size_t factor = 0; factor < choices.size(); ++factor)
          EXPECT_LT(choices[factor], space.extents[factor]);
    }
}

TEST(PairwiseCover, HasFewCombinationsOfTheOuterFactors) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::set<Choices> outer;
    for (const Choices &choices : pairwiseCover(spaces[0].extents, 4, seed))
      outer.insert(Choices(choices.begin(), choices.begin() + 4));
    EXPECT_LE(outer.size(), 28u); // the least is 7 * 3
  }
}

TEST(PairwiseCover, IsTheSameForTheSameSeed) {
  EXPECT_EQ(pairwiseCover(spaces[0].extents, 4, 3), pairwiseCover(spaces[0].extents, 4, 3));
  EXPECT_NE(pairwiseCover(spaces[0].extents, 4, 3), pairwiseCover(spaces[0].extents, 4, 4));
}

TEST(MissingPairs, AreThoseThatNoCaseHasWhicheverCaseIsLeftOut) {
  const std::vector<size_t> &extents = spaces[0].extents;
  std::vector<Choices> cases = pairwiseCover(extents, 4, 1);
  size_t numNeeded = 0;
  for (size_t left = 0; left < cases.size(); ++left) {
    std::vector<Choices> rest = cases;
    rest.erase(rest.begin() + ptrdiff_t(left));
    std::vector<ChoicePair> expected;
    forEachPair(extents, [&](const ChoicePair &pair) {
      if (!hasPair(rest, pair))
        expected.push_back(pair);
    });
    EXPECT_EQ(missingPairs(extents, rest), expected);
    numNeeded += !expected.empty();
  }
  EXPECT_GT(numNeeded, cases.size() / 2);
}
