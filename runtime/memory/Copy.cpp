#include "memory/Copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace kolo::runtime {

void copyCached(std::byte *dst, const std::byte *src, size_t sizeBytes) { std::memcpy(dst, src, sizeBytes); }

void copyStreamed(std::byte *dst, const std::byte *src, size_t sizeBytes) {
#if defined(__SSE2__)
  constexpr size_t lineBytes = 64;
  size_t head = std::min(sizeBytes, -reinterpret_cast<uintptr_t>(dst) % lineBytes);
  std::memcpy(dst, src, head);
  size_t at = head;
  for (; at + lineBytes <= sizeBytes; at += lineBytes) // whole lines at once, or they are written twice
    for (size_t part = 0; part < lineBytes; part += sizeof(__m128i))
      _mm_stream_si128(reinterpret_cast<__m128i *>(dst + at + part),
                       _mm_loadu_si128(reinterpret_cast<const __m128i *>(src + at + part)));
  std::memcpy(dst + at, src + at, sizeBytes - at);
  _mm_sfence(); // these stores are in no order otherwise
#else
  std::memcpy(dst, src, sizeBytes);
#endif
}

} // namespace kolo::runtime
