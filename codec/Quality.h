// How much a codec loses: its proved bound, and the signal-to-noise ratio on random data.
#pragma once

#include "codec/Codec.h"

namespace kolo::codec {

/// The worst error of one encoding, u, to first order: |error| <= u A + w, where A is the largest magnitude in the
/// element's block, or, with an e4m3 scale, in its granule. Of a cast, A is |x|. True for A up to `largestInput`.
double worstError(const Codec &codec);
/// w: what the least number of the scale's type, or of a cast's, adds to errors of small numbers.
double leastError(const Codec &codec);
/// Beyond this A, or where an error carries the decoded number beyond f32, elements of the block may decode to infinity
/// or NaN; the bound holds for all others. No number is clamped that the bound leaves out.
double largestInput(const Codec &codec);

enum class Distribution { Normal, Laplace };

/// 10 log10 (sum x^2 / sum (x - decoded)^2) of independent numbers, `numValues` of them, the same ones at each call.
/// Infinite where nothing is lost.
double signalToNoise(const Codec &codec, Distribution distribution, int64_t numValues);

} // namespace kolo::codec
