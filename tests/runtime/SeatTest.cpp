// A rank moves away from a core that it shares with at least two ranks more than another core has.
#include "wait/Seat.h"
#include "wait/Wait.h"

#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <thread>
#include <vector>

using namespace kolo::runtime;

namespace {

cpu_set_t allowedCores(std::initializer_list<int> numbers) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int number : numbers)
    CPU_SET(static_cast<size_t>(number), &set);
  return set;
}

/// By rank, the core that it runs on; -1: unknown.
int findCore(std::initializer_list<int32_t> on, size_t self, const cpu_set_t &allowed) {
  std::vector<int32_t> seated;
  for (int32_t core : on)
    seated.push_back(core + 1);
  return findBetterCore(seated, self, allowed);
}

/// Calls beforeYield as often as needed for one look.
void yieldUntilLook(Seat &seat) {
  for (uint32_t i = 0; i < Seat::yieldsPerLook; ++i)
    seat.beforeYield();
}

} // namespace

TEST(Yields, AreLeftOutAfterOnesThatTookLong) {
  YieldChoice yields;
  auto countUntilYield = [&] {
    int number = 0;
    while (!yields.mayYield())
      ++number;
    return number;
  };
  EXPECT_EQ(countUntilYield(), 0);
  int expected[] = {16, 32, 64, 128, 256, 512, 1024, 1024};
  for (int number : expected) {
    yields.tookLong();
    EXPECT_EQ(countUntilYield(), number - 1);
  }
  for (int i = 0; i < 11; ++i) { // waits that ended among their yields
    EXPECT_EQ(countUntilYield(), 0);
    yields.helped();
  }
  yields.tookLong();
  EXPECT_EQ(countUntilYield(), 15);
}

TEST(Seats, AreLeftByTheLastRankOfACoreWithTwoMoreThanAnother) {
  EXPECT_EQ(findCore({0, 0, 1, 0}, 3, allowedCores({0, 1})), 1);
  EXPECT_EQ(findCore({0, 0, 1, 0}, 1, allowedCores({0, 1})), -1);
  EXPECT_EQ(findCore({0, 0, 1, 0}, 2, allowedCores({0, 1})), -1);
  EXPECT_EQ(findCore({1, 1}, 1, allowedCores({0, 1})), 0);
}

TEST(Seats, AreKeptWhereNoCoreHasTwoFewer) {
  for (size_t rank : {0u, 1u, 2u, 3u})
    EXPECT_EQ(findCore({0, 0, 1, 1}, rank, allowedCores({0, 1})), -1);
  for (size_t rank : {0u, 1u, 2u})
    EXPECT_EQ(findCore({0, 0, 1}, rank, allowedCores({0, 1})), -1);
}

TEST(Seats, AreChosenOnlyAmongAllowedCores) {
  EXPECT_EQ(findCore({0, 0, 0}, 2, allowedCores({0})), -1);
  EXPECT_EQ(findCore({0, 0, 0, 1}, 2, allowedCores({0, 1})), 1);
  EXPECT_EQ(findCore({0, 0, 0, 1}, 2, allowedCores({0, 1, 2})), 2);
}

TEST(Seats, IgnoreRanksOfWhichNobodyKnowsTheCore) {
  EXPECT_EQ(findCore({-1, 0, 0, -1}, 2, allowedCores({0, 1})), 1);
  EXPECT_EQ(findCore({0, 0, -1}, 2, allowedCores({0, 1})), -1);
}

TEST(Seats, MoveThisThreadAndLeaveItsAffinityAsItWas) {
  std::thread([] {
    cpu_set_t before, after;
    ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
    if (CPU_COUNT(&before) < 2)
      GTEST_SKIP() << "this process may use one core only";
    std::array<SeatedOn, 3> on = {};
    Seat seat({&on[0], &on[1], &on[2]}, 2);
    seat.beforeYield();
    int32_t crowded = on[2].load();
    ASSERT_GT(crowded, 0);
    on[0] = on[1] = crowded; // as if this core had three ranks, and every other one none
    yieldUntilLook(seat);
    // The kernel may have moved this thread before that.
    seat.beforeYield();
    EXPECT_NE(on[2].load(), crowded);
    ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  }).join();
}
