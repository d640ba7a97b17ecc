// StoreChoice: ordinary or non-temporal stores to memory that peers read, by what they took so far.
//
// An ordinary store to a cache line that a far core has read takes long, because that core's copy must be invalidated
// first. Between cores that share a cache it is the faster one. A virtual machine does not say where its processors
// run. There the same copy was seen to take ten times as long seconds later, probably because its host moved them.
// bench/results/2026-11-23-ordinary-memory-swing.md has measurements.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace kolo::runtime {

/// For copies of one kind by one rank, or for runs of one call. Not for several threads at once.
class StoreChoice {
public:
  /// Takes non-temporal stores while ordinary ones take more than so many times as long. After non-temporal stores,
  /// peers read from memory what they would have read from a cache. The time of a copy does not show that; the time of
  /// a whole run does. `trial`: which of 64 copies tries the other way; two choices within one call try at different
  /// calls, so that neither measures the other's trial.
  explicit StoreChoice(float leastRatio, uint64_t trial = 8) : ratio(leastRatio), trialNumber(trial) {}
  static constexpr float ratioOfCopies = 2, ratioOfRuns = 1.25;

  /// Copies below this size are not worth a choice: ordinary stores.
  static constexpr size_t leastBytes = size_t(16) << 10;

  /// Calls copy(isNonTemporal), which stores sizeBytes bytes.
  template <typename Copy> void run(size_t sizeBytes, Copy copy) {
    if (sizeBytes < leastBytes)
      return copy(false);
    auto start = std::chrono::steady_clock::now();
    copy(nextIsNonTemporal());
    took(std::chrono::steady_clock::now() - start, sizeBytes);
  }

  /// Whether the next copy should use non-temporal stores. One copy in many tries the other way.
  bool nextIsNonTemporal() const { return isTrial() ? !prefersNonTemporal : prefersNonTemporal; }

  /// The copy for which `nextIsNonTemporal` was asked last took so long.
  void took(std::chrono::nanoseconds time, size_t sizeBytes) {
    float cost = static_cast<float>(time.count()) / static_cast<float>(sizeBytes);
    Costs &costs = nextIsNonTemporal() ? nonTemporal : ordinary;
    if (isTrial())
      costs.fill(cost); // older ones may be of another state of the machine
    else
      costs[numCopies % costs.size()] = cost;
    ++numCopies;
    prefersNonTemporal = least(ordinary) > ratio * least(nonTemporal);
  }

private:
  /// The latest ones, in ns per byte. The least counts: a preempted copy says nothing.
  using Costs = std::array<float, 4>;
  static constexpr float never = std::numeric_limits<float>::max() / 4;
  static constexpr uint64_t copiesPerTrial = 64;

  static float least(const Costs &costs) { return *std::min_element(costs.begin(), costs.end()); }
  bool isTrial() const { return numCopies % copiesPerTrial == trialNumber; }

  float ratio;
  uint64_t trialNumber;
  Costs ordinary = {}, nonTemporal = {never, never, never, never};
  uint64_t numCopies = 0;
  bool prefersNonTemporal = false;
};

} // namespace kolo::runtime
