// Rounds: each host hears of each other exactly once, in the fewest rounds.
#include "peers/Rounds.h"

#include <gtest/gtest.h>

#include <vector>

using namespace kolo::runtime;

TEST(Rounds, EachHostHearsOfEachOtherOnce) {
  for (int numHosts = 2; numHosts <= 70; ++numHosts) {
    Rounds rounds{numHosts};
    EXPECT_GE(1 << rounds.number(), numHosts);
    EXPECT_LT(1 << (rounds.number() - 1), numHosts);
    auto size = static_cast<size_t>(numHosts);
    std::vector<std::vector<bool>> known(size, std::vector<bool>(size, false)); // by who knows, and of whom
    for (size_t host = 0; host < size; ++host)
      known[host][host] = true;
    for (int round = 0; round < rounds.number(); ++round) {
      auto before = known;
      for (int host = 0; host < numHosts; ++host) {
        int target = rounds.target(host, round);
        EXPECT_EQ(rounds.source(target, round), host);
        for (int places = rounds.firstCarried(round); places <= rounds.lastCarried(round); ++places) {
          auto subject = static_cast<size_t>(rounds.before(host, places));
          EXPECT_TRUE(before[static_cast<size_t>(host)][subject]) << numHosts << " " << round;
          EXPECT_FALSE(known[static_cast<size_t>(target)][subject]) << numHosts << " " << round;
          known[static_cast<size_t>(target)][subject] = true;
        }
      }
    }
    EXPECT_EQ(known, std::vector(size, std::vector<bool>(size, true)));
  }
}
