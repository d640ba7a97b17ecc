// Whether a run fits into memory, asked before anything is allocated.
#pragma once

#include "tools/run/RankRunner.h"

namespace kolo::tools {

/// Throws ToolError (Failed) when the inputs and outputs of all ranks are more than what this machine has available.
/// What the program needs besides, such as scratch memory, is for the runtime to check.
void checkMemoryNeed(const RankJob &job);

} // namespace kolo::tools
