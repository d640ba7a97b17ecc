// Small programs of a few threads, as PTX, and what they can see.
#pragma once

#include "Executor.h"

#include <functional>
#include <map>
#include <set>

namespace kolo::ptx {

/// Of one thread. Places have 64 bytes each from [%rd1] on, so that x, y and z are at [%rd1], [%rd2] and [%rd3]. What
/// %rd10 and the next ones hold at the end is seen.
struct LitmusThread {
  uint32_t device = 0, block = 0, thread = 0;
  std::string code;
};

struct LitmusProgram {
  std::vector<LitmusThread> threads;
  std::vector<int64_t> initial; // of places; of those that are not named, zero
  uint32_t numSeen = 2;         // registers of each thread
  /// Each thread is a warp, so that it may meet others at barriers. `%p3` is true of its first lane, which alone loads
  /// and stores. The others compute and branch as it does.
  bool hasBarriers = false;
};

/// How one run of a program has ended.
struct LitmusEnd {
  std::vector<std::vector<int64_t>> seen; // by thread
  std::vector<bool> hasEnded;             // by thread
  std::vector<int64_t> last;              // by place: of its last store
};

/// By so many schedules; `look` says whether to go on.
void runLitmus(const LitmusProgram &program, const MemoryStyle &style, uint64_t numSeeds,
               const std::function<bool(const LitmusEnd &)> &look);

/// What the threads saw, two values each, and the last values of x and y: "1 0 0 0; 2 1".
using Outcomes = std::set<std::string>;
Outcomes runLitmus(const std::vector<LitmusThread> &threads, const MemoryStyle &style, uint64_t numSeeds = 600);

/// The memory of the model: with fences, stores in any order that it allows, loads that wait, and no report of races.
MemoryStyle exactMemory();

} // namespace kolo::ptx
