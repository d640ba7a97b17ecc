// Averages of f16 and bf16: ranks call them as averages of f32, from and to memory of the runtime.
//
// A sum of numbers that fit a narrow type may not fit it: 60000 + 60000 is beyond f16. Nor does it keep the bits that
// their average has: in bf16, 256 + 1 is 256, so that the average of 300 ones would be 0.85. To multiply before the sum
// instead would lose the small numbers of f16. In f32 no sum of f16 overflows, and only the result is rounded.
#pragma once

#include "kolo/runtime/Types.h"

#include <cstddef>

namespace kolo::runtime {

/// Whether a program that reduces computes this in f32.
constexpr bool isWidened(DataType type, Reduction reduction) {
  return reduction == Reduction::Average && (type == DataType::F16 || type == DataType::BF16);
}

/// Elements of f16 or bf16 as f32, exactly.
void widen(DataType type, const std::byte *narrow, float *wide, size_t numElements);
/// Rounds to nearest, ties to even; a NaN keeps its sign and its upper bits.
void narrow(DataType type, const float *wide, std::byte *narrow, size_t numElements);

} // namespace kolo::runtime
