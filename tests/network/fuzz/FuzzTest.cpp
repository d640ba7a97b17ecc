// A small case of the fuzzer: seeds with a few changed bytes.
#include "fuzz/Parsers.h"

#include <gtest/gtest.h>

#include <random>

namespace kolo::test {
namespace {

TEST(Parsers, TakeDamagedBytes) {
  std::mt19937 random(18);
  std::vector<std::vector<std::byte>> all = seeds();
  for (const std::vector<std::byte> &seed : all)
    parseAny(seed);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> bytes = all[random() % all.size()];
    for (unsigned change = random() % 4; change-- > 0;)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random() % 3 ? random() : (random() % 2 ? 0xff : 0));
    if (random() % 4 == 0)
      bytes.resize(1 + random() % bytes.size());
    parseAny(bytes);
  }
}

} // namespace
} // namespace kolo::test
