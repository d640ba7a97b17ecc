// f16 and bf16 as numbers of 16 bits: conversions, rounded to nearest, ties to even, and arithmetic. A NaN becomes the
// one that NVIDIA's devices give. FloatTest compares all of it with LLVM's APFloat.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace kolo::ptx {

/// exponentBits and fractionBits of a format of 16 bits.
template <int exponentBits, int fractionBits> struct Small {
  static_assert(1 + exponentBits + fractionBits == 16);
  static constexpr int bias = (1 << (exponentBits - 1)) - 1;
  static constexpr uint16_t quietNan = 0x7fff;
  static constexpr uint16_t infinity = uint16_t(((1 << exponentBits) - 1) << fractionBits);

  static double widen(uint16_t bits) {
    int exponent = bits >> fractionBits & ((1 << exponentBits) - 1);
    auto fraction = double(bits & ((1 << fractionBits) - 1));
    bool isNegative = bits >> 15;
    double magnitude = 0;
    if (exponent == (1 << exponentBits) - 1)
      magnitude = fraction == 0 ? HUGE_VAL : NAN;
    else if (exponent == 0)
      magnitude = std::ldexp(fraction, 1 - bias - fractionBits);
    else
      magnitude = std::ldexp(fraction + (1 << fractionBits), exponent - bias - fractionBits);
    return isNegative ? -magnitude : magnitude;
  }

  static uint16_t narrow(double value) {
    if (std::isnan(value))
      return quietNan;
    auto wide = std::bit_cast<uint64_t>(value);
    auto sign = uint16_t(wide >> 48 & 0x8000);
    int exponent = int(wide >> 52 & 0x7ff) - 1023 + bias;
    uint64_t fraction = (wide & ((uint64_t(1) << 52) - 1)) | uint64_t((wide << 1 >> 53) != 0) << 52;
    if ((wide << 1) == 0 || exponent < -fractionBits)
      return sign;
    if (exponent >= (1 << exponentBits) - 1)
      return sign | infinity;
    int dropped = 52 - fractionBits + (exponent < 1 ? 1 - exponent : 0);
    uint64_t kept = fraction >> dropped, rest = fraction & ((uint64_t(1) << dropped) - 1),
             half = uint64_t(1) << (dropped - 1);
    kept += rest > half || (rest == half && (kept & 1));
    // The leading one adds to the exponent; a carry of the rounding goes on into it.
    uint64_t magnitude = exponent < 1 ? kept : (uint64_t(exponent - 1) << fractionBits) + kept;
    return sign | uint16_t(magnitude);
  }

  // With 53 bits of precision, rounding twice is as rounding once.
  static uint16_t add(uint16_t a, uint16_t b) { return narrow(widen(a) + widen(b)); }
  static uint16_t multiply(uint16_t a, uint16_t b) { return narrow(widen(a) * widen(b)); }
  static uint16_t absolute(uint16_t a) { return a & 0x7fff; }
  static float toFloat(uint16_t a) {
    double value = widen(a);
    return std::isnan(value) ? std::bit_cast<float>(0x7fffffffu) : float(value);
  }
};

using Half = Small<5, 10>;
using BFloat = Small<8, 7>;

/// The NaN that f32 arithmetic gives.
inline float canonical(float value) { return std::isnan(value) ? std::bit_cast<float>(0x7fffffffu) : value; }

} // namespace kolo::ptx
