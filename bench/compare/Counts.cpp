#include "Counts.h"

#include <cmath>
#include <numeric>
#include <random>

namespace kolo::bench {
namespace {

/// What share of its vector a rank gives to each taker, or each rank contributes to all; not scaled.
std::vector<double> weights(Distribution distribution, int numRanks, int giver) {
  std::mt19937 random(static_cast<unsigned>(giver) + 1); // the same on all ranks, and in all programs
  std::vector<double> result(static_cast<size_t>(numRanks));
  for (int taker = 0; taker < numRanks; ++taker) {
    double &weight = result[static_cast<size_t>(taker)];
    switch (distribution) {
    case Distribution::None:
    case Distribution::Equal:
      weight = 1;
      break;
    case Distribution::Random:
      weight = static_cast<double>(random() % 1000);
      break;
    case Distribution::Zipf:
      weight = std::pow(taker + 1, -1.2);
      break;
    case Distribution::OneHot:
      weight = taker == 0 ? 1 : 0;
      break;
    }
  }
  return result;
}

/// Cuts a vector by weights; the first blocks get what is left over by rounding.
std::vector<int64_t> cut(const std::vector<double> &shares, int64_t numElements) {
  const double sum = std::max(std::accumulate(shares.begin(), shares.end(), 0.0), 1e-9);
  std::vector<int64_t> counts;
  for (double share : shares)
    counts.push_back(static_cast<int64_t>(share / sum * static_cast<double>(numElements)));
  counts[0] += numElements - std::accumulate(counts.begin(), counts.end(), int64_t(0));
  return counts;
}

std::vector<int> placesOf(const std::vector<int> &counts) {
  std::vector<int> places(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), places.begin(), 0);
  return places;
}

} // namespace

CountMatrix::CountMatrix(Collective measured, Distribution distribution, int64_t numElements, int size)
    : collective(measured), numRanks(size) {
  const bool isPair = collective == Collective::AllToAll;
  for (int giver = 0; giver < numRanks; ++giver) {
    std::vector<int64_t> row = cut(weights(distribution, numRanks, isPair ? giver : 0), numElements);
    if (collective == Collective::AllGather)
      row.assign(row.size(), row[static_cast<size_t>(giver)]);
    counts.insert(counts.end(), row.begin(), row.end());
  }
}

int64_t CountMatrix::placeInInput(int giver, int taker) const {
  int64_t place = 0;
  for (int other = 0; collective != Collective::AllGather && other < taker; ++other)
    place += count(giver, other);
  return place;
}

Tables CountMatrix::tablesOf(int rank) const {
  Tables tables;
  for (int peer = 0; peer < numRanks; ++peer) {
    if (collective != Collective::AllGather || peer == rank)
      tables.inputCounts.push_back(static_cast<int>(count(rank, peer)));
    if (collective != Collective::ReduceScatter || peer == rank)
      tables.outputCounts.push_back(static_cast<int>(count(peer, rank)));
  }
  tables.inputPlaces = placesOf(tables.inputCounts);
  tables.outputPlaces = placesOf(tables.outputCounts);
  return tables;
}

std::optional<Distribution> parseDistribution(const std::string &name) {
  constexpr const char *names[] = {"", "equal", "random", "zipf", "onehot"};
  for (size_t number = 1; number < std::size(names); ++number)
    if (name == names[number])
      return static_cast<Distribution>(number);
  return std::nullopt;
}

} // namespace kolo::bench
