// Blocks: scales, codes, and where they lie in a granule.
#include "codec/Convert.h"

#include "codec/Elements.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace kolo::codec {

namespace {

constexpr uint32_t infinityBits = 0x7f800000;

uint32_t magnitudeBits(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffff; }

/// MurmurHash3's finalizer (Appleby, public domain).
uint32_t mix(uint32_t bits) {
  bits = (bits ^ (bits >> 16)) * 0x85ebca6b;
  bits = (bits ^ (bits >> 13)) * 0xc2b2ae35;
  return bits ^ (bits >> 16);
}

/// Where the parts of up to 1024 encoded elements lie.
struct GranuleLayout {
  int64_t numElements, scales, granuleScale;

  GranuleLayout(const Codec &codec, int64_t numElements, int64_t totalBytes)
      : numElements(numElements), scales((numElements * bitsOf(codec.element()) + 127) / 128 * 16),
        granuleScale(totalBytes - 16) {}
};

/// A stored scale, and the f32 that it stands for.
struct StoredScale {
  uint32_t bits = 0;
  float value = 0;
};

Element elementOf(Scale scale) {
  return scale == Scale::F16 ? Element::F16 : scale == Scale::BF16 ? Element::BF16 : Element::E4M3;
}

/// `unit`: of an e4m3 scale, the granule's f32.
float scaleValue(Scale type, uint32_t bits, float unit) {
  switch (type) {
  case Scale::None:
    return 1;
  case Scale::F32:
    return std::bit_cast<float>(bits);
  case Scale::E8M0:
    return bits == 0xff ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, int(bits) - 127);
  default:
    return decodeFloat(formatOf(elementOf(type)), bits) * unit;
  }
}

uint32_t nanScale(Scale type) {
  if (type == Scale::F32)
    return 0x7fc00000;
  return type == Scale::E8M0 ? 0xff : formatOf(elementOf(type)).nan();
}

/// The nearest in the type; the type's NaN if that is no finite number. Not of e8m0.
uint32_t scaleBits(Scale type, float scale) {
  if (type == Scale::F32)
    return std::isfinite(scale) ? std::bit_cast<uint32_t>(scale) : nanScale(type);
  FloatFormat format = formatOf(elementOf(type));
  uint32_t bits = encodeFloat(format, scale, Overflow::ToInfinity);
  return (bits & (format.signBit() - 1)) > format.largest ? nanScale(type) : bits;
}

/// Sums a_j + a_{j+B/2} until one is left, absent elements being 0.
float meanMagnitude(std::span<const float> block, int blockSize) {
  std::vector<float> sums(size_t(blockSize), 0.0f);
  std::ranges::transform(block, sums.begin(), [](float value) { return std::fabs(value); });
  for (size_t half = sums.size() / 2; half > 0; half /= 2)
    for (size_t j = 0; j < half; ++j)
      sums[j] = sums[j] + sums[j + half];
  return sums.front() / float(block.size());
}

/// 2^(floor(log2 of the largest code)).
int largestExponent(const Codec &codec) { return codec.element() == Element::I8 ? 0 : std::ilogb(largestValue(codec)); }

/// Before it is rounded to its type. `largest`: the largest magnitude, which is positive and finite.
float exactScale(const Codec &codec, std::span<const float> block, float largest) {
  auto half = float(1u << (std::max(bitsOf(codec.element()), 1) - 1));
  switch (codec.rule()) {
  case Rule::Fit:
    return largest / largestValue(codec);
  case Rule::Full:
    return largest / half;
  case Rule::Signed:
    return -*std::ranges::find(block, magnitudeBits(largest), magnitudeBits) / half;
  case Rule::Mean:
    return meanMagnitude(block, codec.block());
  case Rule::Power:
    return std::ldexp(1.0f, std::ilogb(largest) - largestExponent(codec));
  }
  return 0;
}

/// A zero scale, code 0 of its type, says that all codes are those of zero, and so does a NaN, of which `value` is 0:
/// the block decodes to NaN.
StoredScale scaleOf(const Codec &codec, std::span<const float> block, uint32_t largestBits, float unit) {
  auto largest = std::bit_cast<float>(largestBits);
  if (largestBits == 0 || (codec.scale() == Scale::E4M3 && unit == 0))
    return {};
  float exact = exactScale(codec, block, largest);
  StoredScale stored;
  if (codec.scale() == Scale::E8M0)
    stored.bits = std::fabs(exact) < 0x1p-126f ? 0 : uint32_t(std::ilogb(exact) + 127);
  else
    stored.bits = scaleBits(codec.scale(), codec.scale() == Scale::E4M3 ? exact / unit : exact);
  if (stored.bits == nanScale(codec.scale()))
    return {stored.bits, 0};
  stored.value = scaleValue(codec.scale(), stored.bits, unit);
  return std::fabs(stored.value) < 0x1p-126f ? StoredScale{} : stored;
}

/// Codes of one granule in its own layout: 6 bits as a plane of the low 4 and one of the high 2.
class CodeArray {
public:
  CodeArray(std::byte *bytes, Element element, int64_t numElements)
      : bytes(bytes), bits(bitsOf(element)), numElements(numElements) {}

  void set(int64_t i, uint32_t code) {
    if (bits >= 8)
      return void(std::memcpy(bytes + i * bits / 8, &code, size_t(bits / 8))); // little-endian
    if (bits != 6)
      return setBits(i * bits, code);
    setBits(i * 4, code & 15);
    setBits(numElements * 4 + i * 2, code >> 4);
  }
  uint32_t get(int64_t i) const {
    uint32_t code = 0;
    if (bits >= 8)
      std::memcpy(&code, bytes + i * bits / 8, size_t(bits / 8));
    else if (bits != 6)
      code = getBits(i * bits, bits);
    else
      code = getBits(i * 4, 4) | getBits(numElements * 4 + i * 2, 2) << 4;
    return code;
  }

private:
  void setBits(int64_t at, uint32_t code) { // into zeros, inside of one byte
    bytes[at / 8] |= std::byte(code << (at % 8));
  }
  uint32_t getBits(int64_t at, int width) const {
    return (std::to_integer<uint32_t>(bytes[at / 8]) >> (at % 8)) & ((1u << width) - 1);
  }
  std::byte *bytes;
  int bits;
  int64_t numElements;
};

/// The code of a plain cast.
uint32_t castCode(Element element, float value, Draw draw) {
  if (element == Element::F32)
    return std::bit_cast<uint32_t>(value);
  return encodeFloat(formatOf(element), value, Overflow::ToInfinity, draw);
}

class GranuleEncoder {
public:
  GranuleEncoder(const Codec &codec, std::span<const float> values, std::span<std::byte> encoded, const DrawKey &key)
      : codec(codec), values(values), encoded(encoded), key(key),
        layout(codec, int64_t(values.size()), int64_t(encoded.size())),
        codes(encoded.data(), codec.element(), layout.numElements) {}

  void encode() {
    std::ranges::fill(encoded, std::byte(0));
    if (!isScaled(codec)) {
      for (size_t i = 0; i < values.size(); ++i)
        codes.set(int64_t(i), castCode(codec.element(), values[i], drawAt(i)));
      return;
    }
    float unit = codec.scale() == Scale::E4M3 ? storeGranuleScale() : 1;
    for (size_t begin = 0; begin < values.size(); begin += size_t(codec.block()))
      encodeBlock(begin, unit);
  }

private:
  std::span<const float> blockAt(size_t begin) const {
    return values.subspan(begin, std::min(size_t(codec.block()), values.size() - begin));
  }
  static uint32_t largestBits(std::span<const float> block) {
    return magnitudeBits(*std::ranges::max_element(block, {}, magnitudeBits));
  }

  /// Largest magnitude of the blocks that have neither NaN nor infinity, over 448 q; 0 if that is too small.
  float storeGranuleScale() {
    uint32_t largest = 0;
    for (size_t begin = 0; begin < values.size(); begin += size_t(codec.block()))
      if (uint32_t bits = largestBits(blockAt(begin)); bits < infinityBits)
        largest = std::max(largest, bits);
    float scale = std::bit_cast<float>(largest) / (448 * largestValue(codec));
    scale = scale < 0x1p-126f ? 0 : scale;
    std::memcpy(&encoded[size_t(layout.granuleScale)], &scale, sizeof scale);
    return scale;
  }

  void encodeBlock(size_t begin, float unit) {
    std::span<const float> block = blockAt(begin);
    uint32_t largest = largestBits(block);
    bool isFinite = largest < infinityBits;
    StoredScale scale = isFinite ? scaleOf(codec, block, largest, unit) : StoredScale{nanScale(codec.scale()), 0};
    auto size = size_t(bytesOf(codec.scale()));
    std::memcpy(&encoded[size_t(layout.scales) + begin / size_t(codec.block()) * size], &scale.bits, size);
    float reciprocal = scale.value == 0 ? 0 : 1 / scale.value;
    for (size_t i = 0; i < block.size(); ++i)
      codes.set(int64_t(begin + i),
                scale.value == 0 ? zeroCode(codec) : codeOf(codec, block[i] * reciprocal, drawAt(begin + i)));
  }

  Draw drawAt(size_t i) const {
    return codec.isStochastic() ? Draw(drawOf({key.call, key.rank, key.element + i})) : std::nullopt;
  }

  const Codec &codec;
  std::span<const float> values;
  std::span<std::byte> encoded;
  DrawKey key;
  GranuleLayout layout;
  CodeArray codes;
};

void decodeGranule(const Codec &codec, std::span<const std::byte> encoded, std::span<float> values) {
  GranuleLayout layout(codec, int64_t(values.size()), int64_t(encoded.size()));
  CodeArray codes(const_cast<std::byte *>(encoded.data()), codec.element(), layout.numElements);
  float unit = 1;
  if (codec.scale() == Scale::E4M3)
    std::memcpy(&unit, &encoded[size_t(layout.granuleScale)], sizeof unit);
  auto size = size_t(bytesOf(codec.scale()));
  float scale = 1;
  for (size_t i = 0; i < values.size(); ++i) {
    if (isScaled(codec) && i % size_t(codec.block()) == 0) {
      uint32_t bits = 0;
      std::memcpy(&bits, &encoded[size_t(layout.scales) + i / size_t(codec.block()) * size], size);
      scale = scaleValue(codec.scale(), bits, unit);
    }
    float value = valueOf(codec, codes.get(int64_t(i)));
    values[i] = !isScaled(codec) ? value : std::isnan(scale) ? std::numeric_limits<float>::quiet_NaN() : value * scale;
  }
}

} // namespace

float drawOf(const DrawKey &key) {
  uint32_t hash = mix(uint32_t(key.call) ^ 0x9e3779b9);
  for (uint32_t word : {uint32_t(key.call >> 32), key.rank, uint32_t(key.element >> 32), uint32_t(key.element)})
    hash = mix(hash ^ word);
  return float(hash >> 8) * 0x1p-24f;
}

void encode(const Codec &codec, std::span<const float> values, std::span<std::byte> encoded, const DrawKey &key) {
  int64_t whole = bytes(codec, granule);
  for (int64_t begin = 0, at = 0; begin < int64_t(values.size()); begin += granule, at += whole) {
    int64_t size = std::min(granule, int64_t(values.size()) - begin);
    GranuleEncoder(codec, values.subspan(size_t(begin), size_t(size)),
                   encoded.subspan(size_t(at), size_t(bytes(codec, size))),
                   {key.call, key.rank, key.element + uint64_t(begin)})
        .encode();
  }
}

void decode(const Codec &codec, std::span<const std::byte> encoded, std::span<float> values) {
  int64_t whole = bytes(codec, granule);
  for (int64_t begin = 0, at = 0; begin < int64_t(values.size()); begin += granule, at += whole) {
    int64_t size = std::min(granule, int64_t(values.size()) - begin);
    decodeGranule(codec, encoded.subspan(size_t(at), size_t(bytes(codec, size))),
                  values.subspan(size_t(begin), size_t(size)));
  }
}

} // namespace kolo::codec
