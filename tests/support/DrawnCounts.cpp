#include "tests/support/DrawnCounts.h"

#include <algorithm>

namespace kolo::test {

DrawnCounts drawCounts(Distribution distribution, size_t number, int64_t most, std::mt19937_64 &random) {
  DrawnCounts counts(number, 0);
  const size_t chosen = random() % number;
  for (size_t i = 0; i < number; ++i)
    switch (distribution) {
    case Distribution::Equal:
      counts[i] = most;
      break;
    case Distribution::Random:
      counts[i] = random() % 4 == 0 ? 0 : int64_t(random() % uint64_t(most + 1));
      break;
    case Distribution::Zipf:
      counts[i] = most / int64_t((i + chosen) % number + 1);
      break;
    case Distribution::OneHot:
      counts[i] = i == chosen ? most : 0;
      break;
    case Distribution::AllZero:
      break;
    case Distribution::OneHuge:
      counts[i] = i == chosen ? most : std::min(most, int64_t(random() % 5));
      break;
    }
  return counts;
}

} // namespace kolo::test
