#include "PairwiseCover.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <ranges>

namespace kolo::test {

namespace {

/// Pairs of values, of which any are found in constant time.
class Pairs {
public:
  /// All that there are.
  explicit Pairs(const std::vector<size_t> &extents) : firstOf(extents.size() + 1) {
    std::partial_sum(extents.begin(), extents.end(), firstOf.begin() + 1);
    isHere.resize(firstOf.back() * firstOf.back());
    for (size_t a = 0; a < extents.size(); ++a)
      for (size_t i = 0; i < extents[a]; ++i)
        for (size_t b = a + 1; b < extents.size(); ++b)
          for (size_t j = 0; j < extents[b]; ++j)
            inOrder.push_back({a, i, b, j});
    for (const ChoicePair &pair : inOrder)
      isHere[indexOf(pair)] = true;
  }

  bool contains(const ChoicePair &pair) const { return isHere[indexOf(pair)]; }
  const std::vector<ChoicePair> &all() const { return inOrder; }
  void erase(const ChoicePair &pair) {
    if (!contains(pair))
      return;
    isHere[indexOf(pair)] = false;
    inOrder.erase(std::ranges::lower_bound(inOrder, pair));
  }

private:
  size_t indexOf(const ChoicePair &pair) const {
    auto [a, i, b, j] = pair;
    return (firstOf[a] + i) * firstOf.back() + firstOf[b] + j;
  }

  std::vector<size_t> firstOf; // the number of a factor's first value
  std::vector<char> isHere;
  std::vector<ChoicePair> inOrder;
};

std::vector<ChoicePair> pairsOf(const Choices &choices) {
  std::vector<ChoicePair> pairs;
  for (size_t a = 0; a < choices.size(); ++a)
    for (size_t b = a + 1; b < choices.size(); ++b)
      pairs.push_back({a, choices[a], b, choices[b]});
  return pairs;
}

/// Builds a cover of all factors from combinations of the outer ones.
class Cover {
public:
  Cover(const std::vector<size_t> &extents, std::vector<Choices> outer, uint64_t seed)
      : extents(extents), outer(std::move(outer)), random(seed), missing(extents) {}

  std::vector<Choices> build() {
    std::vector<Choices> cases;
    while (!missing.all().empty()) {
      cases.push_back(bestCandidate());
      for (const ChoicePair &pair : pairsOf(cases.back()))
        missing.erase(pair);
    }
    return cases;
  }

private:
  static constexpr size_t unset = SIZE_MAX;
  static constexpr int numCandidates = 16;

  Choices bestCandidate() {
    Choices best;
    int64_t mostNew = -1;
    for (int number = 0; number < numCandidates; ++number) {
      Choices candidate = makeCandidate();
      std::vector<ChoicePair> pairs = pairsOf(candidate);
      int64_t numNew = std::ranges::count_if(pairs, [&](const ChoicePair &pair) { return missing.contains(pair); });
      if (numNew > mostNew) {
        mostNew = numNew;
        best = candidate;
      }
    }
    return best;
  }

  /// Has some missing pair, and chooses one factor after the other by how many missing pairs that gives.
  Choices makeCandidate() {
    auto [a, i, b, j] = missing.all()[random() % missing.all().size()];
    Choices choices(extents.size(), unset);
    choices[a] = i;
    choices[b] = j;
    chooseOuter(choices);
    std::vector<size_t> order(extents.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    for (size_t factor : order)
      if (choices[factor] == unset)
        choices[factor] = bestValue(choices, factor);
    return choices;
  }

  /// One of the combinations that agree with what is chosen already.
  void chooseOuter(Choices &choices) {
    std::vector<const Choices *> fitting;
    for (const Choices &combination : outer)
      if (std::ranges::equal(combination, choices | std::views::take(combination.size()),
                             [](size_t value, size_t chosen) { return chosen == unset || chosen == value; }))
        fitting.push_back(&combination);
    if (!fitting.empty())
      std::ranges::copy(*fitting[random() % fitting.size()], choices.begin());
  }

  size_t bestValue(const Choices &choices, size_t factor) {
    size_t best = 0, first = random() % extents[factor];
    int64_t mostNew = -1;
    for (size_t step = 0; step < extents[factor]; ++step) {
      size_t value = (first + step) % extents[factor];
      int64_t numNew = 0;
      for (size_t other = 0; other < choices.size(); ++other)
        if (choices[other] != unset)
          numNew += other < factor ? missing.contains({other, choices[other], factor, value})
                                   : missing.contains({factor, value, other, choices[other]});
      if (numNew > mostNew) {
        mostNew = numNew;
        best = value;
      }
    }
    return best;
  }

  const std::vector<size_t> &extents;
  std::vector<Choices> outer; // none: every combination may occur
  std::mt19937_64 random;
  Pairs missing;
};

} // namespace

std::vector<Choices> pairwiseCover(const std::vector<size_t> &extents, size_t numOuter, uint64_t seed) {
  std::vector<Choices> outer;
  if (numOuter > 1) {
    std::vector<size_t> outerExtents(extents.begin(), extents.begin() + ptrdiff_t(numOuter));
    outer = Cover(outerExtents, {}, seed).build();
  }
  return Cover(extents, std::move(outer), seed).build();
}

std::vector<ChoicePair> missingPairs(const std::vector<size_t> &extents, const std::vector<Choices> &cases) {
  Pairs missing(extents);
  for (const Choices &choices : cases)
    for (const ChoicePair &pair : pairsOf(choices))
      missing.erase(pair);
  return missing.all();
}

} // namespace kolo::test
