// Small programs of a few threads, as PTX, and what they can see.
#pragma once

#include "Executor.h"

#include <map>
#include <set>

namespace kolo::ptx {

/// Of one thread. x, y and z are at [%rd1], [%rd2] and [%rd3], and zero at the start; what %rd10 and %rd11 hold at the
/// end is seen.
struct LitmusThread {
  uint32_t device = 0, block = 0, thread = 0;
  std::string code;
};

/// What the threads saw, two values each, and the last values of x and y: "1 0 0 0; 2 1".
using Outcomes = std::set<std::string>;

/// By so many schedules.
Outcomes runLitmus(const std::vector<LitmusThread> &threads, const MemoryStyle &style, uint64_t numSeeds = 600);

} // namespace kolo::ptx
