// Codes of single elements, before any scale: what each code stands for, and the code for a number.
#pragma once

#include "codec/Codec.h"

#include <optional>

namespace kolo::codec {

inline bool isInteger(Element element) { return element >= Element::I8 && element <= Element::I4; }
/// A float of at most 8 bits.
inline bool isNarrowFloat(Element element) { return element >= Element::E4M3 && element <= Element::E2M1; }

/// A binary float with a sign bit and gradual underflow.
struct FloatFormat {
  enum class Special { None, NanOnly, InfinityAndNan }; // what codes above the largest finite one stand for
  int exponentBits, mantissaBits, bias;
  uint32_t largest; // code of the largest finite number
  Special special;

  uint32_t signBit() const { return 1u << (exponentBits + mantissaBits); }
  uint32_t infinity() const { return ((1u << exponentBits) - 1) << mantissaBits; } // with InfinityAndNan
  uint32_t nan() const;                                                            // quiet
};
FloatFormat formatOf(Element element); ///< Of a float, f32 excepted.

/// Exact. A NaN gives the quiet NaN of f32 without a sign.
float decodeFloat(const FloatFormat &format, uint32_t code);

/// What falls between two codes goes to the nearest, ties to the even code; with `draw`, from 0 up to below 1, to
/// floor(t + draw), the number being t steps of the code's binade, summed in f32.
using Draw = std::optional<float>;

enum class Overflow { ToInfinity, Saturate };
/// The sign of zero is kept. A NaN gives `format.nan()`, infinity is kept where there is one, and becomes NaN where
/// there is not. `overflow` is for finite numbers that round to none of the format's; ToInfinity is for formats with
/// an infinity or a NaN.
uint32_t encodeFloat(const FloatFormat &format, float value, Overflow overflow, Draw draw = {});

/// What a code of the codec's element stands for; of f32, the bits.
float valueOf(const Codec &codec, uint32_t code);
/// The code for a scaled number, clamped or saturated. It is finite. The code of zero is that of +0.
uint32_t codeOf(const Codec &codec, float scaled, Draw draw = {});
/// The code for the number 0.
uint32_t zeroCode(const Codec &codec);

/// The largest magnitude that codes stand for: what rule fit divides by.
float largestValue(const Codec &codec);

} // namespace kolo::codec
