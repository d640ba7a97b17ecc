#include "compiler/model/BlockCounts.h"

#include "llvm/Support/ErrorHandling.h"

#include <algorithm>
#include <cmath>

namespace kolo {

/// A well-mixed number (splitmix64, Steele et al., OOPSLA 2014).
static uint64_t mix(uint64_t bits) {
  bits += 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

double BlockCounts::weight(int64_t giver, int64_t taker) const {
  switch (law.kind) {
  case BlockLaw::Kind::Zipf:
    return std::pow(double((uint64_t(taker) + law.seed) % uint64_t(size)) + 1, -law.exponent);
  case BlockLaw::Kind::Random:
    return double(mix(mix(law.seed + uint64_t(isPair() ? giver : 0)) + uint64_t(taker)) >> 11);
  case BlockLaw::Kind::OneHot:
    return uint64_t(taker) == law.seed ? 1 : 0;
  case BlockLaw::Kind::Numbers:
    return law.numbers[size_t(isPair() ? giver * size + taker : taker)];
  }
  llvm_unreachable("a law");
}

std::variant<BlockCounts, std::string> BlockCounts::create(const BlockLaw &law, CollectiveKind kind, int64_t size,
                                                           int64_t count) {
  BlockCounts counts(law, kind, size);
  const int64_t numRows = counts.isPair() ? size : 1;
  if (law.kind == BlockLaw::Kind::Numbers && int64_t(law.numbers.size()) != numRows * size)
    return std::to_string(law.numbers.size()) + " counts are not the " + std::to_string(numRows * size) + " of " +
           std::to_string(size) + " ranks";
  if (law.kind == BlockLaw::Kind::OneHot && law.seed >= uint64_t(size))
    return "there is no block " + std::to_string(law.seed) + " among " + std::to_string(size);
  for (int64_t giver = 0; giver < numRows; ++giver) {
    double &sum = counts.scales.emplace_back(0);
    for (int64_t taker = 0; taker < size; ++taker)
      sum += counts.weight(giver, taker);
  }
  // Rows of numbers keep their proportion to each other.
  if (law.kind == BlockLaw::Kind::Numbers)
    std::fill(counts.scales.begin(), counts.scales.end(), *llvm::max_element(counts.scales));
  for (double &sum : counts.scales)
    sum = sum > 0 ? double(count) / sum : 0;
  return counts;
}

int64_t BlockCounts::given(int64_t giver, int64_t taker) const {
  return int64_t(std::llround(weight(giver, taker) * scales[size_t(isPair() ? giver : 0)]));
}

int64_t BlockCounts::of(BufferRole table, int64_t member, int64_t block) const {
  if (isPair())
    return table == BufferRole::Input ? given(member, block) : given(block, member);
  return given(0, hasBlockPerMember(kind, table) ? block : member);
}

std::pair<int64_t, int64_t> BlockCounts::extremes() const {
  std::pair<int64_t, int64_t> found(INT64_MAX, 0);
  for (int64_t giver = 0; giver < (isPair() ? size : 1); ++giver)
    for (int64_t taker = 0; taker < size; ++taker)
      found = {std::min(found.first, given(giver, taker)), std::max(found.second, given(giver, taker))};
  return found;
}

} // namespace kolo
