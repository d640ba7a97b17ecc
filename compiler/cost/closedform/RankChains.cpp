#include "compiler/cost/closedform/RankChains.h"

#include <algorithm>

namespace kolo::cost {

void RankChains::load() {
  for (const ChainedMove &move : open)
    for (auto [number, seconds] : move.uses) {
      Resource &resource = resources[number];
      double begin = ranks[move.from].perByte;
      resource.begin = resource.load > 0 ? std::min(resource.begin, begin) : begin;
      resource.load += seconds;
    }
}

/// Resources are free only once they have served what else is open.
double RankChains::endOf(const ChainedMove &move) {
  double begin = ranks[move.from].perByte, end = begin;
  for (auto [number, seconds] : move.uses) {
    const Resource &resource = resources[number];
    end = std::max({end, begin + seconds, std::max(resource.begin, resource.until) + resource.load});
  }
  return end;
}

void RankChains::wait() {
  load();
  std::unordered_map<int64_t, Elapsed> after = ranks;
  for (const ChainedMove &move : open) {
    Elapsed &elapsed = after[move.to];
    elapsed.latency = std::max(elapsed.latency, ranks[move.from].latency + move.latency);
    elapsed.perByte = std::max(elapsed.perByte, endOf(move));
    longest.latency = std::max(longest.latency, elapsed.latency);
    longest.perByte = std::max(longest.perByte, elapsed.perByte);
  }
  for (const ChainedMove &move : open)
    for (const ChainedMove::Use &use : move.uses) {
      Resource &resource = resources[use.resource];
      resource.until = resource.load > 0 ? std::max(resource.begin, resource.until) + resource.load : resource.until;
      resource.load = 0;
    }
  ranks = std::move(after);
  open.clear();
}

} // namespace kolo::cost
