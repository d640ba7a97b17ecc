// The common end of every way in which processes form a peers.
#pragma once

#include "CommunicatorState.h"

#include <memory>

namespace kolo::runtime {

/// Takes rank `rank` of a world whose control segment is mapped here, and waits for the others to do the same.
/// Mismatch: the rank is taken, or ranks disagree. Timeout, PeerLost, Aborted, SystemError.
Result<std::unique_ptr<CommunicatorState>> joinProcesses(std::shared_ptr<ControlMemory> shared, int rank,
                                                         const Settings &settings);

} // namespace kolo::runtime
