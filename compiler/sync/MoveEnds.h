// Other positions for the signal or the wait of a transfer in one rank's text. Used by InferSynchronisation, which asks
// the checker about every position.
#pragma once

#include "compiler/sync/PlaceCredit.h"

namespace kolo {

/// Moves the wait of a push towards the end of its block. Position 0 is the end; the following ones are before the ops
/// that touch the buffer in which the data arrives, the last op first. False, and nothing moves, if there is no such
/// position or the wait stands there already.
bool sinkWait(const ProjectedTransfer &transfer, size_t place);

/// Moves the signal of a pull towards the beginning of its block. Position 0 is the beginning; the following ones are
/// after the ops that touch the buffer that the peer reads, the first op first. False, and nothing moves, if there is
/// no such position or the signal stands there already.
bool raiseSignal(const ProjectedTransfer &transfer, size_t place);

} // namespace kolo
