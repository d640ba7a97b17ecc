// Which variant of a stripe a statement or a loop of a choreography belongs to. Written by the language, read by
// FuseStripes.
#pragma once

namespace kolo {

/// On statements and loops that a stripe wraps: the number of their variant, an integer. A hint, not a promise: who
/// relies on variants being independent looks at their slices.
inline constexpr char stripeName[] = "kolo.stripe";

} // namespace kolo
