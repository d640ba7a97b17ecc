// Clock: the clock of deadlines and timeouts.
#pragma once

#include <chrono>
#include <cstdint>

namespace kolo::runtime {

using Clock = std::chrono::steady_clock;

/// Milliseconds since `start`.
inline int64_t millisecondsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count();
}

} // namespace kolo::runtime
