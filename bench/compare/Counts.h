// Counts: how the vector of a call is cut into blocks that have counts of their own.
#pragma once

#include "Board.h"

#include <optional>
#include <string>
#include <vector>

namespace kolo::bench {

/// One call's blocks on one rank, as the MPI calls take them, in elements.
struct Tables {
  std::vector<int> inputCounts, inputPlaces, outputCounts, outputPlaces;
};

/// Elements of every block, by giver and taker; of all-gather the same for all takers, of reduce-scatter for all
/// givers. A rank gives `numElements`; of all-gather and reduce-scatter, all blocks together have so many.
class CountMatrix {
public:
  /// Not with Distribution::None.
  CountMatrix(Collective collective, Distribution distribution, int64_t numElements, int numRanks);
  int64_t count(int giver, int taker) const {
    return counts[static_cast<size_t>(giver) * static_cast<size_t>(numRanks) + static_cast<size_t>(taker)];
  }
  /// Where the block begins in the giver's input.
  int64_t placeInInput(int giver, int taker) const;
  Tables tablesOf(int rank) const;

private:
  Collective collective;
  int numRanks;
  std::vector<int64_t> counts;
};

/// "equal", "random", "zipf", "onehot".
std::optional<Distribution> parseDistribution(const std::string &name);

} // namespace kolo::bench
