// The programs of a mesh's ranks as the simulator runs them, but for the number of bytes. Used by Simulation.
#pragma once

#include "compiler/cost/simulation/Simulation.h"
#include "compiler/model/RankGroup.h"

#include <unordered_map>

namespace kolo::cost {

/// Of one orbit's representative.
struct Skeleton {
  RankProgram program;
  std::vector<uint32_t> eventOf;                  // by instruction: the event of the trace that says how much it moves
  std::vector<int64_t> peers;                     // by channel
  std::unordered_map<int64_t, uint32_t> channels; // by peer
  std::unordered_map<uint64_t, uint32_t> slots;   // by semaphore and sender
};

/// The number of each op's statement; 0 is the entry.
struct StatementNumbers {
  std::vector<SimulatedLine> lines;
  std::vector<uint32_t> ofOp;
  explicit StatementNumbers(const Code &code);
};

/// One skeleton per orbit. Averages are not divided. Slots are numbered as the rank waits for them, so that ranks that
/// do the same have equal programs. `elementBytes`: of the call, where buffers have codecs.
std::vector<Skeleton> buildSkeletons(const Tracer &tracer, const TracedGroup &traced,
                                     const StatementNumbers &statements, int64_t elementBytes);

} // namespace kolo::cost
