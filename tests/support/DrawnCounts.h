// How long the blocks of a call with block tables are in tests. Needs no compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace kolo::test {

using DrawnCounts = std::vector<int64_t>;

enum class Distribution { Equal, Random, Zipf, OneHot, AllZero, OneHuge };
constexpr Distribution allDistributions[] = {Distribution::Equal,  Distribution::Random,  Distribution::Zipf,
                                             Distribution::OneHot, Distribution::AllZero, Distribution::OneHuge};

/// Elements of so many blocks.
DrawnCounts drawCounts(Distribution distribution, size_t number, int64_t most, std::mt19937_64 &random);

} // namespace kolo::test
