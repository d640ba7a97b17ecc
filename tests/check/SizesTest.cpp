// Numbers that are affine in a size, and functions of a place: every decision and every operation is compared with what
// it says of single sizes, iterations and places.
#include "compiler/check/sizes/State.h"

#include <gtest/gtest.h>

#include <random>

using namespace kolo::sizes;

namespace {

int64_t valueOf(const Affine &number, int64_t n, int64_t s, int64_t k = 0) {
  return number.constant + number.size * n + number.round * s + number.place * k;
}

/// The value of a function at a place, for one size.
std::optional<int64_t> valueOf(const Runs<Time> &runs, int64_t n, int64_t place) {
  for (const Run<Time> &run : runs)
    if (valueOf(run.begin, n, 0) <= place && place < valueOf(run.end, n, 0))
      return valueOf(run.value.time, n, 0, place);
  return std::nullopt;
}

/// A function of all places of a circle of n, from 32 on: on runs that end at 1, 4, n - 7 and so on.
Runs<Time> randomRuns(std::mt19937_64 &random) {
  std::vector<Affine> ends = {0};
  for (int64_t place = 1; place < 8; ++place)
    if (random() % 3 == 0)
      ends.push_back(place);
  for (int64_t place = 8; place > 0; --place)
    if (random() % 3 == 0)
      ends.push_back(Affine::n() - place);
  ends.push_back(Affine::n());
  Runs<Time> runs;
  auto small = [&] { return int64_t(random() % 7) - 3; };
  for (size_t i = 0; i + 1 < ends.size(); ++i)
    runs.push_back({ends[i], ends[i + 1], {Affine(small(), small(), 0, small())}});
  return runs;
}

Decisions decisionsFrom(int64_t least) {
  Decisions decisions;
  decisions.region.least = least;
  return decisions;
}

} // namespace

TEST(Sizes, ADecisionHoldsInTheWholeRegionAndOnlyThen) {
  std::mt19937_64 random(1);
  int numDecided = 0;
  for (int i = 0; i < 4000; ++i) {
    auto small = [&] { return int64_t(random() % 9) - 4; };
    Region region{int64_t(8 + random() % 4), int64_t(random() % 3), -int64_t(random() % 4)};
    Affine number(small() * 4, small(), small());
    bool isAtLeast = region.isAtLeast(number, 0), holds = true;
    for (int64_t n = region.least; n < region.least + 40; ++n)
      for (int64_t s = *region.firstRound; s <= n + region.lastRound; ++s)
        holds &= valueOf(number, n, s) >= 0;
    numDecided += isAtLeast;
    if (isAtLeast)
      EXPECT_TRUE(holds) << number.text();
    else if (holds) // what falls slowly falls below 0 behind these sizes
      EXPECT_TRUE(number.size < 0 || number.size + number.round < 0) << number.text();
  }
  EXPECT_GT(numDecided, 200);
}

TEST(Sizes, ARotationMovesEveryPlace) {
  std::mt19937_64 random(1);
  int numRotated = 0;
  for (int i = 0; i < 500; ++i) {
    Decisions decisions = decisionsFrom(32);
    Runs<Time> runs = randomRuns(random);
    Affine amount = random() % 2 ? Affine(int64_t(random() % 6)) : Affine::n() - 1 - int64_t(random() % 6);
    Runs<Time> rotated = rotate(runs, amount, decisions);
    normalise(rotated);
    if (decisions.hasFailed())
      continue;
    ++numRotated;
    for (int64_t n : {32, 33, 50})
      for (int64_t place = 0; place < n; ++place)
        ASSERT_EQ(valueOf(rotated, n, (place + valueOf(amount, n, 0)) % n), valueOf(runs, n, place));
  }
  EXPECT_GT(numRotated, 400);
}

TEST(Sizes, ACompositionIsTheFunctionAtThesePlaces) {
  std::mt19937_64 random(1);
  int numComposed = 0;
  for (int i = 0; i < 500; ++i) {
    Decisions decisions = decisionsFrom(32);
    Runs<Time> runs = randomRuns(random);
    Affine of = random() % 2 ? Affine::k() + int64_t(random() % 3) : Affine::n() - 1 - Affine::k();
    Affine begin = int64_t(random() % 4), end = Affine::n() - 3 - int64_t(random() % 4);
    std::optional<Runs<Time>> pieces = compose(runs, of, begin, end, decisions);
    if (!pieces)
      continue;
    ++numComposed;
    for (int64_t n : {32, 33, 50})
      for (int64_t place = valueOf(begin, n, 0); place < valueOf(end, n, 0); ++place)
        ASSERT_EQ(valueOf(*pieces, n, place), valueOf(runs, n, valueOf(of, n, 0, place)));
  }
  EXPECT_GT(numComposed, 300);
}

TEST(Sizes, WhatIsNormalisedIsTheSameFunction) {
  std::mt19937_64 random(1);
  size_t numBefore = 0, numAfter = 0;
  for (int i = 0; i < 500; ++i) {
    Decisions decisions = decisionsFrom(32);
    Runs<Time> runs = {{0, Affine::n(), {Affine(1, 2, 0, int64_t(random() % 3))}}};
    for (int cut = 0; cut < 6; ++cut)
      cutAt(runs, random() % 2 ? Affine(int64_t(1 + random() % 7)) : Affine::n() - 1 - int64_t(random() % 7),
            decisions);
    if (random() % 2)
      runs[random() % runs.size()].value.time = 5;
    Runs<Time> less = runs;
    normalise(less);
    numBefore += runs.size();
    numAfter += less.size();
    for (int64_t n : {32, 33, 50})
      for (int64_t place = 0; place < n; ++place)
        ASSERT_EQ(valueOf(less, n, place), valueOf(runs, n, place));
  }
  EXPECT_LT(numAfter * 2, numBefore);
}
