// Ranks as children of this process, for systems that no launcher starts.
#pragma once

#include "Harness.h"

#include <functional>

namespace kolo::bench {

/// Calls `runRank` on as many ranks as the options say, pinned if they say so, each in a process of its own; it returns
/// an exit status, and what it throws is reported. A rank that fails takes the others along, as an MPI launcher has it.
/// Returns the exit status of all. Throws Failure when they cannot be started.
int forkRanks(const HarnessOptions &options, const std::function<int(Board &board)> &runRank);

} // namespace kolo::bench
