// How far outputs are from the exact result, and how far the proof lets them be.
#pragma once

#include "ir/reference/SimulatedCall.h"

#include "kolo/runtime/Plugin.h"

#include <functional>
#include <optional>
#include <string>

namespace kolo::tools {

/// A is the largest magnitude, on any rank, of the inputs in an element's block: the largest block of all codecs, and
/// 1,024 elements where there are none.
struct Loss {
  double worstError = 0;       // |error| / A
  std::optional<double> bound; // of |error| / A, to first order, as the checker proved it; nothing: not proved
  double signalToNoise = 0;    // 10 log10 of the sums of squares; infinite where nothing is lost
  int64_t numFlagged = 0;      // infinities and NaNs, beyond the largest input for which the bound is proved
  std::string beyond;          // the first element that is further off than proved, in words; empty: there is none
};

/// Whether what is at this place of a block is no part of the figures: only its bound is looked at.
using IsLeftOut = std::function<bool(int64_t place)>;

/// Looks at every element of the outputs of all ranks. The exact result is computed in f64. `proved` is what the
/// checker says of the call's mesh; null: nothing. The call's type is f16, bf16 or f32. Beyond the largest input for
/// which the bound is proved, an element may be an infinity or a NaN, but no other number outside of the bound.
Loss measureLoss(const reference::SimulatedCall &call, const runtime::Loss *proved, const IsLeftOut &isLeftOut = {});

/// An element of f16, bf16 or f32 at `at`.
float loadElement(reference::ElementType type, const std::byte *at);
void storeElement(reference::ElementType type, float value, std::byte *at);

} // namespace kolo::tools
