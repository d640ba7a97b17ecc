// Integers, narrow floats, one bit, and tables of levels.
#include "codec/Elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace kolo::codec {

int bitsOf(Element element) {
  switch (element) {
  case Element::None:
    return 0;
  case Element::F32:
    return 32;
  case Element::F16:
  case Element::BF16:
    return 16;
  case Element::E4M3:
  case Element::E5M2:
  case Element::I8:
    return 8;
  case Element::E3M2:
  case Element::E2M3:
  case Element::I6:
    return 6;
  case Element::E2M1:
  case Element::I4:
  case Element::Levels:
    return 4;
  case Element::Sign:
    return 1;
  }
  return 0;
}

FloatFormat formatOf(Element element) {
  using enum FloatFormat::Special;
  switch (element) {
  case Element::F16:
    return {5, 10, 15, 0x7bff, InfinityAndNan};
  case Element::BF16:
    return {8, 7, 127, 0x7f7f, InfinityAndNan};
  case Element::E4M3:
    return {4, 3, 7, 0x7e, NanOnly};
  case Element::E5M2:
    return {5, 2, 15, 0x7b, InfinityAndNan};
  case Element::E3M2:
    return {3, 2, 3, 0x1f, None};
  case Element::E2M3:
    return {2, 3, 1, 0x1f, None};
  default:
    return {2, 1, 1, 0x07, None}; // e2m1
  }
}

uint32_t FloatFormat::nan() const {
  return special == Special::InfinityAndNan ? infinity() | 1u << (mantissaBits - 1) : signBit() - 1;
}

float decodeFloat(const FloatFormat &format, uint32_t code) {
  uint32_t magnitude = code & (format.signBit() - 1);
  float value = 0;
  if (magnitude > format.largest) {
    bool isInfinite = format.special == FloatFormat::Special::InfinityAndNan && magnitude == format.infinity();
    if (!isInfinite)
      return std::numeric_limits<float>::quiet_NaN();
    value = std::numeric_limits<float>::infinity();
  } else {
    int exponent = std::max(int(magnitude >> format.mantissaBits), 1);
    int mantissa = int(magnitude) - ((exponent - 1) << format.mantissaBits);
    value = std::ldexp(float(mantissa), exponent - format.bias - format.mantissaBits);
  }
  return code & format.signBit() ? -value : value;
}

/// `steps` is a number in units of the gap between codes.
static int roundSteps(double steps, Draw draw) {
  return int(draw ? std::floor(float(steps) + *draw) : std::nearbyint(steps));
}

uint32_t encodeFloat(const FloatFormat &format, float value, Overflow overflow, Draw draw) {
  bool hasInfinity = format.special == FloatFormat::Special::InfinityAndNan;
  if (std::isnan(value))
    return format.nan();
  uint32_t sign = std::signbit(value) ? format.signBit() : 0;
  if (std::isinf(value))
    return hasInfinity ? sign | format.infinity() : format.nan();
  int exponent = value == 0 ? 1 - format.bias : std::max(std::ilogb(value), 1 - format.bias);
  int steps = roundSteps(std::ldexp(double(value), format.mantissaBits - exponent), draw);
  // A step past the end of a binade is the first code of the next one.
  uint32_t code = (uint32_t(exponent + format.bias - 1) << format.mantissaBits) + uint32_t(std::abs(steps));
  if (code > format.largest && overflow == Overflow::Saturate)
    code = format.largest;
  else if (code > format.largest && !hasInfinity)
    return format.nan();
  else if (code > format.largest)
    code = format.infinity();
  return sign | code;
}

namespace {

int32_t signExtend(uint32_t code, int bits) { return int32_t(code << (32 - bits)) >> (32 - bits); }

/// Rule power has MXINT8's codes, in units of 1/64.
float unitOf(const Codec &codec) { return codec.rule() == Rule::Power ? 0x1p-6f : 1.0f; }

uint32_t integerCode(const Codec &codec, float scaled, Draw draw) {
  int bits = bitsOf(codec.element()), half = 1 << (bits - 1);
  bool isSymmetric = codec.rule() == Rule::Fit || codec.rule() == Rule::Power;
  float steps = std::clamp(scaled / unitOf(codec), float(isSymmetric ? 1 - half : -half), float(half - 1));
  int code = std::min(roundSteps(steps, draw), half - 1);
  return uint32_t(code) & ((1u << bits) - 1);
}

uint32_t levelCode(const std::vector<float> &levels, float scaled, Draw draw) {
  auto above = std::ranges::upper_bound(levels, scaled);
  if (above == levels.begin())
    return 0;
  auto below = uint32_t(above - levels.begin() - 1);
  if (above == levels.end())
    return below;
  float low = levels[below], high = *above;
  if (draw)
    return below + ((scaled - low) / (high - low) + *draw >= 1.0f);
  double middle = (double(low) + double(high)) / 2;
  return below + (scaled > middle || (scaled == middle && below % 2 == 1));
}

} // namespace

float valueOf(const Codec &codec, uint32_t code) {
  switch (codec.element()) {
  case Element::None:
  case Element::F32:
    return std::bit_cast<float>(code);
  case Element::I8:
  case Element::I6:
  case Element::I4:
    return float(signExtend(code, bitsOf(codec.element()))) * unitOf(codec);
  case Element::Sign:
    return code ? -1.0f : 1.0f;
  case Element::Levels:
    return codec.levels()[std::min<size_t>(code, codec.levels().size() - 1)];
  default:
    return decodeFloat(formatOf(codec.element()), code);
  }
}

uint32_t codeOf(const Codec &codec, float scaled, Draw draw) {
  if (isInteger(codec.element()))
    return integerCode(codec, scaled, draw);
  if (codec.element() == Element::Sign)
    return scaled < 0;
  if (codec.element() == Element::Levels)
    return levelCode(codec.levels(), scaled, draw);
  FloatFormat format = formatOf(codec.element());
  uint32_t code = encodeFloat(format, scaled, Overflow::Saturate, draw);
  return code == format.signBit() ? 0 : code;
}

uint32_t zeroCode(const Codec &codec) {
  return codec.element() == Element::Levels ? uint32_t(std::ranges::find(codec.levels(), 0.0f) - codec.levels().begin())
                                            : 0;
}

float largestValue(const Codec &codec) {
  if (codec.element() == Element::Levels)
    return std::max(-codec.levels().front(), codec.levels().back());
  if (codec.element() == Element::Sign)
    return 1;
  if (isInteger(codec.element()))
    return float((1 << (bitsOf(codec.element()) - 1)) - 1) * unitOf(codec);
  return codec.element() <= Element::F32 ? std::numeric_limits<float>::max()
                                         : decodeFloat(formatOf(codec.element()), formatOf(codec.element()).largest);
}

} // namespace kolo::codec
