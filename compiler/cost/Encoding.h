// What codecs make of a call's bytes. Used by the closed form and by the simulation.
#pragma once

#include "ir/Kolo.h"

namespace kolo::cost {

/// Bytes that a buffer takes for each byte of the same elements as the call has them: 1 without a codec. Of whole
/// granules.
double storedBytes(BufferOp buffer, int64_t elementBytes);

} // namespace kolo::cost
