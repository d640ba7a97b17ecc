// Encoding and decoding of whole pieces of memory, exact to the bit: the arithmetic of README.md, written down
// directly.
#pragma once

#include "codec/Codec.h"

#include <cstddef>
#include <span>

namespace kolo::codec {

/// Which element of whom a stochastic codec rounds: what it draws is a hash of this.
struct DrawKey {
  uint64_t call = 0;    ///< Sequence number of the call.
  uint32_t rank = 0;    ///< That encodes.
  uint64_t element = 0; ///< Number of the first one in its buffer; the others follow.
};

/// From 0 up to, not including, 1, in steps of 2^-24: what element `key.element` draws.
float drawOf(const DrawKey &key);

/// Encodes a piece that begins at a multiple of `granule` in its block of `count`. `encoded` has bytes(codec, number of
/// values) bytes, which are all written, padding as zeros. The codec is not none.
void encode(const Codec &codec, std::span<const float> values, std::span<std::byte> encoded, const DrawKey &key = {});

/// The inverse of `encode`, but for what rounding lost.
void decode(const Codec &codec, std::span<const std::byte> encoded, std::span<float> values);

} // namespace kolo::codec
