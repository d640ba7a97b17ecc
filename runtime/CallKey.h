// What ranks compare of their calls. Used where ranks agree on a call, on the host and on devices.
#pragma once

#include "kolo/runtime/Status.h"
#include "transport/Control.h"

namespace kolo::runtime {

/// Mismatch when the calls of rank 0 and of `peer` differ: names the first thing that does.
Status compareCalls(const CallKey &first, const CallKey &other, int peer);

} // namespace kolo::runtime
