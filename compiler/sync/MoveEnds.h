// Other places for the two ends of a transfer in one rank's text. Used by the pass that infers synchronisation, which
// has the checker judge every place.
#pragma once

#include "compiler/sync/PlaceCredit.h"

namespace kolo {

/// Moves the wait of a push towards the end of its block. Place 0 is the end; the others are before an op that touches
/// the buffer into which data arrives, the last one first. False, and nothing is moved, when that is none or changes
/// nothing.
bool sinkWait(const ProjectedTransfer &transfer, size_t place);

/// Moves the signal of a pull towards the beginning of its block. Place 0 is the beginning; the others are after an op
/// that touches the buffer that will be read, the first one first. False, and nothing is moved, when that is none or
/// changes nothing.
bool raiseSignal(const ProjectedTransfer &transfer, size_t place);

} // namespace kolo
