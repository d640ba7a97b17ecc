// Pairwise cover: few cases in which all values of any two factors meet. Used by tests whose calls have many choices.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kolo::test {

/// One case: for every factor the number of its value.
using Choices = std::vector<size_t>;
/// A factor and its value, and a later factor and its value.
using ChoicePair = std::array<size_t, 4>;

/// Cases that have every pair of values of every two factors, of which factor `i` has `extents[i]` values, at least
/// one. The first `numOuter` factors are costly to change: all cases together have only as many combinations of those
/// as their own pairs take. Greedy, after Cohen, Dalal, Fredman and Patton, "The AETG System" (IEEE TSE 1997):
/// different for another seed.
std::vector<Choices> pairwiseCover(const std::vector<size_t> &extents, size_t numOuter, uint64_t seed);

/// The pairs that no case has.
std::vector<ChoicePair> missingPairs(const std::vector<size_t> &extents, const std::vector<Choices> &cases);

} // namespace kolo::test
