#include "experts/RowSums.h"

#include "call/WideAverage.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <immintrin.h>

namespace kolo::runtime {
namespace {

// Every host that a plugin can be loaded on has these instructions.
#define KOLO_WITH_VECTORS [[gnu::target("avx2,fma,f16c")]]

KOLO_WITH_VECTORS inline __m256 load(const float *from) { return _mm256_loadu_ps(from); }

struct Bfloat16 {
  uint16_t bits;
};
struct Half {
  uint16_t bits;
};

KOLO_WITH_VECTORS inline __m256 load(const Bfloat16 *from) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
KOLO_WITH_VECTORS inline __m256 load(const Half *from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
}

inline float number(float value) { return value; }
inline float number(Bfloat16 value) { return std::bit_cast<float>(uint32_t(value.bits) << 16); }
KOLO_WITH_VECTORS inline float number(Half value) { return _cvtsh_ss(value.bits); }

/// sums[i] += weight * row[i], with one rounding.
template <class Element>
KOLO_WITH_VECTORS void addTimes(float weight, const Element *row, float *sums, size_t elements) {
  size_t i = 0;
  const __m256 weights = _mm256_set1_ps(weight);
  for (; i + 8 <= elements; i += 8)
    _mm256_storeu_ps(sums + i, _mm256_fmadd_ps(weights, load(row + i), _mm256_loadu_ps(sums + i)));
  for (; i < elements; ++i)
    sums[i] = std::fma(weight, number(row[i]), sums[i]);
}

#undef KOLO_WITH_VECTORS

using AddTimes = void (*)(float weight, const std::byte *row, float *sums, size_t elements);

template <class Element> void addRow(float weight, const std::byte *row, float *sums, size_t elements) {
  addTimes(weight, reinterpret_cast<const Element *>(row), sums, elements);
}

AddTimes functionFor(DataType type) {
  return type == DataType::F32 ? addRow<float> : type == DataType::F16 ? addRow<Half> : addRow<Bfloat16>;
}

constexpr size_t tileElements = 1024; // whose sums stay in the first cache

} // namespace

void RowSums::run(DataType type, size_t elements, const std::byte *input, std::span<const float> weights,
                  std::byte *output) const {
  const AddTimes add = functionFor(type);
  const size_t elementBytes = sizeBytes(type), rowBytes = elements * elementBytes;
  float sums[tileElements];
  for (size_t row = 0; row < ends.size(); ++row)
    for (size_t first = 0; first < elements; first += tileElements) {
      const size_t length = std::min(tileElements, elements - first);
      std::fill_n(sums, length, 0.0f);
      for (size_t i = row == 0 ? 0 : ends[row - 1]; i < ends[row]; ++i) {
        const std::byte *source = input + static_cast<size_t>(terms[i].row) * rowBytes + first * elementBytes;
        add(terms[i].weight < 0 ? 1.0f : weights[static_cast<size_t>(terms[i].weight)], source, sums, length);
      }
      std::byte *to = output + row * rowBytes + first * elementBytes;
      if (type == DataType::F32)
        std::memcpy(to, sums, length * sizeof(float));
      else
        narrow(type, sums, to, length);
    }
}

} // namespace kolo::runtime
