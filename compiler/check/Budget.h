// How much a check may cost, as one number. Used by the pass CheckProgram and by the tools.
#pragma once

#include "compiler/check/Verdict.h"

#include <algorithm>

namespace kolo {

inline constexpr int64_t largestBudget = int64_t(1) << 44; // bytes; the work in proportion to it is still a number

/// Sets `maxBytes`, and `maxWork` in the proportion that the defaults have. 1 to largestBudget.
inline void setBudget(CheckOptions &options, int64_t numBytes) {
  const CheckOptions defaults;
  options.maxBytes = numBytes;
  options.maxWork =
      std::max<int64_t>(int64_t(double(defaults.maxWork) / double(defaults.maxBytes) * double(numBytes)), 1);
}

} // namespace kolo
