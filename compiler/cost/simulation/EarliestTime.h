// The earliest of numbered times that change. Used by FlowSharing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace kolo::cost {

/// Numbers are small. A time that is infinite never comes.
class EarliestTime {
public:
  static constexpr double never = std::numeric_limits<double>::infinity();

  double time() const { return times[1]; }
  /// Whose time it is; of several the least number.
  uint32_t number() const {
    size_t node = 1;
    while (node < firstLeaf())
      node = times[2 * node] == times[node] ? 2 * node : 2 * node + 1;
    return uint32_t(node - firstLeaf());
  }
  void set(uint32_t number, double time) {
    while (number >= firstLeaf())
      grow();
    size_t node = firstLeaf() + number;
    times[node] = time;
    while (node > 1) {
      node /= 2;
      double earlier = std::min(times[2 * node], times[2 * node + 1]);
      if (times[node] == earlier)
        return;
      times[node] = earlier;
    }
  }

private:
  size_t firstLeaf() const { return times.size() / 2; }
  void grow() {
    std::vector<double> larger(2 * times.size(), never);
    std::ranges::copy(times.begin() + std::ptrdiff_t(firstLeaf()), times.end(),
                      larger.begin() + std::ptrdiff_t(times.size()));
    for (size_t node = times.size() - 1; node > 0; --node)
      larger[node] = std::min(larger[2 * node], larger[2 * node + 1]);
    times = std::move(larger);
  }

  std::vector<double> times{never, never}; // a binary tree: below node n are 2n and 2n + 1, and it has the earlier time
};

} // namespace kolo::cost
