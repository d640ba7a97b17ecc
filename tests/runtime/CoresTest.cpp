// Whether every lane can have its own core; a wait spins long only then.
#include "wait/Cores.h"
#include "Ranks.h"
#include "bootstrap/LaunchedRanks.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

using namespace kolo::runtime;
using kolo::test::ScopedVariable;

namespace {

cpu_set_t cores(std::initializer_list<size_t> numbers) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (size_t number : numbers)
    CPU_SET(number, &set);
  return set;
}

bool haveOwn(const std::vector<cpu_set_t> &allowed, int lanes = 1) { return haveOwnCores(allowed, lanes); }

} // namespace

TEST(Cores, AreEnoughForFreeRanksAsLongAsTheyAreAsMany) {
  EXPECT_TRUE(haveOwn({cores({0, 1}), cores({0, 1})}));
  EXPECT_FALSE(haveOwn({cores({0, 1}), cores({0, 1}), cores({0, 1})}));
}

TEST(Cores, AreNotEnoughForRanksPinnedToOneThoughOthersAreIdle) {
  EXPECT_TRUE(haveOwn({cores({0}), cores({1})}));
  EXPECT_FALSE(haveOwn({cores({0}), cores({0}), cores({1, 2, 3})}));
  EXPECT_FALSE(haveOwn({cores({0, 1}), cores({0, 1}), cores({0, 1}), cores({2, 3, 4, 5})}));
}

TEST(Cores, AreSharedWithRanksOfTheJobThatTheCommunicatorLacks) {
  const std::vector<cpu_set_t> freeRanks(2, cores({0, 1})), boundRanks = {cores({0}), cores({1})};
  EXPECT_TRUE(haveOwn(coresOfJob(freeRanks, 0)));
  EXPECT_TRUE(haveOwn(coresOfJob(freeRanks, 2)));
  EXPECT_FALSE(haveOwn(coresOfJob(freeRanks, 3)));
  EXPECT_EQ(coresOfJob(freeRanks, 4).size(), 4u);
  EXPECT_TRUE(haveOwn(coresOfJob(boundRanks, 4)));
  EXPECT_TRUE(coresOfJob({}, 4).empty());
}

TEST(Cores, OfTheJobAreAsManyRanksAsItsLauncherSays) {
  ScopedVariable torch("LOCAL_WORLD_SIZE", ""), openMpi("OMPI_COMM_WORLD_LOCAL_SIZE", ""), hydra("MPI_LOCALNRANKS", "");
  EXPECT_EQ(launchedRanksHere(), 0u);
  for (const char *name : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"})
    for (auto [text, number] : {std::pair("8", 8u), {"eight", 0u}, {"-1", 0u}, {"99999999999", 0u}}) {
      ScopedVariable variable(name, text);
      EXPECT_EQ(launchedRanksHere(), number) << name << "=" << text;
    }
}

TEST(Cores, AreFoundWhereAnEarlierRankMustMoveForALaterOne) {
  EXPECT_TRUE(haveOwn({cores({0, 1}), cores({0})}));
  EXPECT_TRUE(haveOwn({cores({0, 1}), cores({1, 2}), cores({2, 3}), cores({0})}));
  EXPECT_FALSE(haveOwn({cores({0, 1}), cores({1, 2}), cores({2, 0}), cores({0})}));
}

TEST(Cores, AreCountedForEveryLane) {
  EXPECT_TRUE(haveOwn({cores({0, 1, 2, 3}), cores({0, 1, 2, 3})}, 2));
  EXPECT_FALSE(haveOwn({cores({0, 1, 2, 3}), cores({0, 1, 2, 3})}, 3));
  EXPECT_FALSE(haveOwn({cores({0, 1, 2}), cores({3})}, 2));
}
