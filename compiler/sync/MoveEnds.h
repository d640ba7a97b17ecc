// Other positions for the signal or the wait of a transfer in one rank's text. Used by InferSynchronisation, which asks
// the checker about every position.
#pragma once

#include "compiler/sync/PlaceCredit.h"

namespace kolo {

/// Other places for one end of a transfer, the best first. Order that holds with a place holds with all that follow it.
struct EndPlaces {
  size_t (*count)(const ProjectedTransfer &transfer);
  /// Moves the end to one of them.
  void (*move)(const ProjectedTransfer &transfer, size_t place);
};

/// For the wait of a push: the end of its block, then before the ops that touch the buffer in which the data arrives,
/// the last op first.
extern const EndPlaces laterWaits;

/// For the signal of a pull: the beginning of its block, then after the ops that touch the buffer that the peer reads,
/// the first op first.
extern const EndPlaces earlierSignals;

} // namespace kolo
