// In which order a term combines contributions, and its fingerprint.
#include "compiler/check/Terms.h"

#include <algorithm>

namespace kolo {

/// Of more ranks, an order is described if they follow each other.
static constexpr uint32_t mostRanksDescribed = 16;

/// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
static uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

uint64_t Terms::fingerprint(Id term) {
  if (auto known = fingerprints.find(term); known != fingerprints.end())
    return known->second;
  const Node node = nodes[term];
  uint64_t result;
  if (node.kind == inputKind) {
    result = mix(node.a + 1);
  } else if (node.kind == combineKind) {
    auto [low, high] = std::minmax({fingerprint(node.a), fingerprint(node.b)});
    result = mix(mix(low + 0x9e3779b97f4a7c15) + high);
  } else {
    result = mix(fingerprint(node.a) ^ mix(uint64_t(node.kind) << 32));
  }
  return fingerprints[term] = result;
}

uint32_t Terms::lowestRank(Id term) {
  if (auto known = lowestRanks.find(term); known != lowestRanks.end())
    return known->second;
  const Node node = nodes[term];
  uint32_t result = node.kind == inputKind     ? node.a
                    : node.kind == combineKind ? std::min(lowestRank(node.a), lowestRank(node.b))
                                               : lowestRank(node.a);
  return lowestRanks[term] = result;
}

std::pair<Terms::Id, Terms::Id> Terms::operandsOf(Id term) {
  Id a = nodes[term].a, b = nodes[term].b;
  return lowestRank(a) < lowestRank(b) ? std::pair(a, b) : std::pair(b, a);
}

std::string Terms::describeOrder(Id term) {
  auto unrounded = [&](Id id) {
    while (nodes[id].kind != inputKind && nodes[id].kind != combineKind)
      id = nodes[id].a;
    return id;
  };
  // From the left, as far as one rank after the other joins.
  llvm::SmallVector<uint32_t> ranks;
  Id rest = unrounded(term);
  while (nodes[rest].kind == combineKind) {
    auto [low, high] = operandsOf(rest);
    if (nodes[unrounded(high)].kind != inputKind)
      break;
    ranks.push_back(nodes[unrounded(high)].a);
    rest = unrounded(low);
  }
  bool isChain = nodes[rest].kind == inputKind;
  uint32_t first = isChain ? nodes[rest].a : 0, numRanks = uint32_t(ranks.size()) + 1;
  std::reverse(ranks.begin(), ranks.end());
  if (isChain && numRanks > mostRanksDescribed) {
    for (auto [index, rank] : llvm::enumerate(ranks))
      if (rank != first + uint32_t(index) + 1)
        return "";
    return std::to_string(first) + "+" + std::to_string(first + 1) + "+...+" + std::to_string(first + numRanks - 1) +
           ", from the left";
  }
  uint32_t numShown = 0;
  auto text = [&](auto &self, Id id, bool isOutermost) -> std::string {
    id = unrounded(id);
    if (++numShown > 2 * mostRanksDescribed)
      return "";
    if (nodes[id].kind == inputKind)
      return std::to_string(nodes[id].a);
    auto [low, high] = operandsOf(id);
    std::string sum = self(self, low, false) + "+" + self(self, high, false);
    return isOutermost ? sum : "(" + sum + ")";
  };
  std::string result = text(text, term, true);
  return numShown > 2 * mostRanksDescribed ? "" : result;
}

} // namespace kolo
