#include "experts/RowSums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <immintrin.h>

namespace kolo::runtime {
namespace {

// Every host that a plugin can be loaded on has these instructions.
#define KOLO_WITH_VECTORS [[gnu::target("avx2,fma,f16c")]]

/// How elements of a type are read as f32, and f32 is rounded to them: to nearest, ties to even.
struct Single {
  using Bits = float;
  KOLO_WITH_VECTORS static __m256 load(const float *from) { return _mm256_loadu_ps(from); }
  KOLO_WITH_VECTORS static void store(__m256 sums, float *to) { _mm256_storeu_ps(to, sums); }
  static float load(float value) { return value; }
  static float round(float value) { return value; }
};

struct HalfFloat {
  using Bits = uint16_t;
  KOLO_WITH_VECTORS static __m256 load(const uint16_t *from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
  }
  KOLO_WITH_VECTORS static void store(__m256 sums, uint16_t *to) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm256_cvtps_ph(sums, _MM_FROUND_TO_NEAREST_INT));
  }
  KOLO_WITH_VECTORS static float load(uint16_t bits) { return _cvtsh_ss(bits); }
  KOLO_WITH_VECTORS static uint16_t round(float value) { return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT); }
};

struct BrainFloat {
  using Bits = uint16_t;
  KOLO_WITH_VECTORS static __m256 load(const uint16_t *from) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  KOLO_WITH_VECTORS static void store(__m256 sums, uint16_t *to) {
    const __m256i bits = _mm256_castps_si256(sums);
    const __m256i isOdd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(isOdd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
    const __m256i isNan = _mm256_castps_si256(_mm256_cmp_ps(sums, sums, _CMP_UNORD_Q));
    const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, isNan), 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(high, high), 0b1000);
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm256_castsi256_si128(packed));
  }
  static float load(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }
  static uint16_t round(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    return static_cast<uint16_t>((std::isnan(value) ? bits | 0x00400000 : bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
};

/// The rows that one row of the result is the sum of.
struct Sources {
  std::vector<const std::byte *> rows;
  std::vector<float> weights;
};

/// All sources together: so each is read once, and the sums stay in registers.
template <class Type> KOLO_WITH_VECTORS void sum(const Sources &sources, size_t elements, std::byte *output) {
  using Bits = typename Type::Bits;
  constexpr size_t numVectors = 4, perVector = 8;
  const size_t numSources = sources.rows.size();
  auto *to = reinterpret_cast<Bits *>(output);
  size_t i = 0;
  for (; i + numVectors * perVector <= elements; i += numVectors * perVector) {
    __m256 sums[numVectors] = {};
    for (size_t source = 0; source < numSources; ++source) {
      const auto *from = reinterpret_cast<const Bits *>(sources.rows[source]) + i;
      const __m256 weight = _mm256_set1_ps(sources.weights[source]);
      for (size_t vector = 0; vector < numVectors; ++vector)
        sums[vector] = _mm256_fmadd_ps(weight, Type::load(from + vector * perVector), sums[vector]);
    }
    for (size_t vector = 0; vector < numVectors; ++vector)
      Type::store(sums[vector], to + i + vector * perVector);
  }
  for (; i < elements; ++i) {
    float total = 0;
    for (size_t source = 0; source < numSources; ++source) {
      Bits bits;
      std::memcpy(&bits, sources.rows[source] + i * sizeof bits, sizeof bits);
      total = std::fma(sources.weights[source], Type::load(bits), total);
    }
    const Bits rounded = Type::round(total);
    std::memcpy(output + i * sizeof rounded, &rounded, sizeof rounded);
  }
}

#undef KOLO_WITH_VECTORS

} // namespace

void RowSums::run(DataType type, size_t elements, const std::byte *input, std::span<const float> weights,
                  std::byte *output) const {
  auto sumRow = type == DataType::F32 ? sum<Single> : type == DataType::F16 ? sum<HalfFloat> : sum<BrainFloat>;
  const size_t rowBytes = elements * sizeBytes(type);
  Sources sources;
  size_t next = 0;
  for (size_t row = 0; row < ends.size(); ++row) {
    sources.rows.clear();
    sources.weights.clear();
    for (; next < ends[row]; ++next) {
      sources.rows.push_back(input + static_cast<size_t>(terms[next].row) * rowBytes);
      sources.weights.push_back(terms[next].weight < 0 ? 1.0f : weights[static_cast<size_t>(terms[next].weight)]);
    }
    sumRow(sources, elements, output + row * rowBytes);
  }
}

} // namespace kolo::runtime
