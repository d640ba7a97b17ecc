// A small case of the fuzzer: seeds with a few changed bytes.
#include "fuzz/Parsers.h"
#include "fuzz/Strangers.h"

#include <gtest/gtest.h>

#include <random>

namespace kolo::test {
namespace {

using Inputs = std::vector<std::vector<std::byte>>;

void runDamaged(const Inputs &all, int numRounds, void (*run)(std::span<const std::byte>)) {
  std::mt19937 random(18);
  for (const std::vector<std::byte> &seed : all)
    run(seed);
  for (int round = 0; round < numRounds; ++round) {
    std::vector<std::byte> bytes = all[random() % all.size()];
    for (unsigned change = random() % 4; change-- > 0;)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random() % 3 ? random() : (random() % 2 ? 0xff : 0));
    if (random() % 4 == 0)
      bytes.resize(1 + random() % bytes.size());
    run(bytes);
  }
}

TEST(Parsers, TakeDamagedBytes) { runDamaged(seeds(), 20'000, parseAny); }

TEST(Strangers, WithDamagedGreetingsStopNobody) { runDamaged(seedsOfStrangers(), 300, meetStranger); }

} // namespace
} // namespace kolo::test
