// Bounds by rule, and random numbers that are the same everywhere.
#include "codec/Quality.h"

#include "codec/Convert.h"
#include "codec/Elements.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace kolo::codec {

/// Half a unit in the last place of a scale, relative to it.
static double scaleError(Scale scale) {
  switch (scale) {
  case Scale::F16:
    return 0x1p-11;
  case Scale::BF16:
    return 0x1p-8;
  case Scale::E4M3:
    return 0x1p-4;
  case Scale::F32:
    return 0x1p-24;
  default:
    return 0;
  }
}

/// Half of the widest gap between neighbours among the values of all codes.
static double halfGap(const Codec &codec) {
  std::vector<float> values;
  size_t numCodes = codec.element() == Element::Levels ? codec.levels().size() : size_t(1) << bitsOf(codec.element());
  for (uint32_t code = 0; code < numCodes; ++code)
    if (float value = valueOf(codec, code); std::isfinite(value))
      values.push_back(value);
  std::ranges::sort(values);
  float widest = 0;
  for (size_t i = 1; i < values.size(); ++i)
    widest = std::max(widest, values[i] - values[i - 1]);
  return double(widest) / 2;
}

static double castError(Element element) {
  bool isExact = element == Element::None || element == Element::F32;
  return isExact ? 0 : std::ldexp(1.0, -formatOf(element).mantissaBits - 1);
}

/// Of rule power: the top of a binade may lie beyond the largest code.
static double powerError(const Codec &codec) {
  double largest = largestValue(codec), top = std::exp2(std::floor(std::log2(largest)));
  return std::max((2 * top - largest) / (2 * top), halfGap(codec) / top);
}

static double nearestError(const Codec &codec) {
  double narrow = scaleError(codec.scale());
  double half = std::exp2(bitsOf(codec.element()) - 1);
  switch (codec.rule()) {
  case Rule::Fit: {
    double u = halfGap(codec) / double(largestValue(codec));
    return std::max(u * (1 + narrow), narrow);
  }
  case Rule::Full:
  case Rule::Signed:
    return 1 / half + narrow;
  case Rule::Power:
    return powerError(codec);
  case Rule::Mean:
    return 1;
  }
  return 1;
}

double worstError(const Codec &codec) {
  double nearest = isScaled(codec) ? nearestError(codec) : castError(codec.element());
  return codec.isStochastic() ? 2 * nearest : nearest;
}

/// The largest number that scales multiply, or what the rule divides the largest magnitude by.
static double largestCode(const Codec &codec) {
  bool dividesByPower = codec.rule() == Rule::Full || codec.rule() == Rule::Signed;
  return dividesByPower ? std::exp2(bitsOf(codec.element()) - 1) : double(largestValue(codec));
}

static bool isExact(const Codec &codec) { return codec.element() == Element::None || codec.element() == Element::F32; }

static double leastErrorToNearest(const Codec &codec) {
  constexpr double leastScale = 0x1p-126;           // below it, all codes are those of zero
  if (isExact(codec) || codec.rule() == Rule::Mean) // whose bound zeros hold, too
    return 0;
  if (!isScaled(codec)) {
    FloatFormat format = formatOf(codec.element());
    return std::ldexp(0.5, 1 - format.bias - format.mantissaBits);
  }
  switch (codec.scale()) {
  case Scale::F16:
    return largestCode(codec) * 0x1p-25; // half the least number
  case Scale::E4M3:
    return largestCode(codec) * 448 * leastScale;
  default:
    return largestCode(codec) * leastScale;
  }
}

double leastError(const Codec &codec) {
  double nearest = leastErrorToNearest(codec);
  return codec.isStochastic() ? 2 * nearest : nearest;
}

double largestInput(const Codec &codec) {
  constexpr double largest = std::numeric_limits<float>::max();
  if (isExact(codec))
    return largest;
  if (!isScaled(codec)) {
    FloatFormat format = formatOf(codec.element());
    return double(decodeFloat(format, format.largest));
  }
  double scale = codec.scale() == Scale::F16 ? 65504 : codec.scale() == Scale::BF16 ? 0x1.fep127 : largest;
  if (codec.rule() == Rule::Mean)
    return std::min(largest / codec.block(), scale); // the sum before it is divided
  return std::min(scale * largestCode(codec), largest / 2);
}

namespace {

/// Uniform in (0, 1), by splitmix64 (Steele et al., OOPSLA 2014).
class Uniform {
public:
  double next() {
    uint64_t bits = state += 0x9e3779b97f4a7c15u;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    return (double((bits ^ (bits >> 31)) >> 11) + 0.5) * 0x1p-53;
  }

private:
  uint64_t state = 1;
};

/// Normal numbers by Box and Muller, Laplacian ones by the inverse of their distribution.
double drawFrom(Distribution distribution, Uniform &uniform) {
  double a = uniform.next(), b = uniform.next();
  if (distribution == Distribution::Normal)
    return std::sqrt(-2 * std::log(a)) * std::cos(2 * std::numbers::pi * b);
  return a < 0.5 ? std::log(b) : -std::log(b);
}

} // namespace

double signalToNoise(const Codec &codec, Distribution distribution, int64_t numValues) {
  if (isNone(codec))
    return INFINITY;
  Uniform uniform;
  double signal = 0, noise = 0;
  std::vector<float> values, decoded;
  std::vector<std::byte> encoded;
  for (int64_t begin = 0; begin < numValues; begin += granule) {
    values.resize(size_t(std::min(granule, numValues - begin)));
    std::ranges::generate(values, [&] { return float(drawFrom(distribution, uniform)); });
    decoded.resize(values.size());
    encoded.resize(size_t(bytes(codec, int64_t(values.size()))));
    encode(codec, values, encoded, {0, 0, uint64_t(begin)});
    decode(codec, encoded, decoded);
    for (size_t i = 0; i < values.size(); ++i) {
      double error = double(values[i]) - double(decoded[i]);
      signal += double(values[i]) * double(values[i]);
      noise += error * error;
    }
  }
  return 10 * std::log10(signal / noise);
}

} // namespace kolo::codec
