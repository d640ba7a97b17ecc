// Which variant of a stripe a statement or a loop of a choreography belongs to. Written by the language, read by
// FuseStripes.
#ifndef KOLO_IR_STRIPE_H
#define KOLO_IR_STRIPE_H

namespace kolo {

/// On statements and loops that a stripe wraps: the number of their variant, an integer. A hint, not a promise: who
/// relies on variants being independent looks at their slices.
inline constexpr char stripeName[] = "kolo.stripe";

} // namespace kolo

#endif
