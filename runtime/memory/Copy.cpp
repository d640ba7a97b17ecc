#include "memory/Copy.h"

#include "base/Error.h"

#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace kolo::runtime {

void copyCached(std::byte *dst, const std::byte *src, size_t sizeBytes) { std::memcpy(dst, src, sizeBytes); }

void copyNonTemporal(std::byte *dst, const std::byte *src, size_t sizeBytes) {
#if defined(__SSE2__)
  constexpr size_t lineBytes = 64;
  size_t head = std::min(sizeBytes, -reinterpret_cast<uintptr_t>(dst) % lineBytes);
  std::memcpy(dst, src, head);
  size_t at = head;
  for (; at + lineBytes <= sizeBytes; at += lineBytes) // whole cache lines, or the processor writes them twice
    for (size_t part = 0; part < lineBytes; part += sizeof(__m128i))
      _mm_stream_si128(reinterpret_cast<__m128i *>(dst + at + part),
                       _mm_loadu_si128(reinterpret_cast<const __m128i *>(src + at + part)));
  std::memcpy(dst + at, src + at, sizeBytes - at);
  _mm_sfence(); // without it, non-temporal stores are not ordered
#else
  std::memcpy(dst, src, sizeBytes);
#endif
}

Status copyAttached(Direction direction, pid_t pid, uint64_t remoteAddress, void *local, size_t sizeBytes) {
  auto *here = static_cast<std::byte *>(local);
  while (sizeBytes > 0) { // the kernel moves at most about 2 GiB at once, and may stop earlier
    iovec localRange = {here, sizeBytes};
    iovec remoteRange = {reinterpret_cast<void *>(remoteAddress), sizeBytes};
    ssize_t moved = direction == Direction::ToPeer ? process_vm_writev(pid, &localRange, 1, &remoteRange, 1, 0)
                                                   : process_vm_readv(pid, &localRange, 1, &remoteRange, 1, 0);
    if (moved < 0 && errno == EINTR)
      continue;
    if (moved < 0 && errno == ESRCH)
      return error(StatusCode::PeerLost, "process {} has ended", pid);
    if (moved <= 0)
      return systemError(fmt::format("cross-memory attach to process {}", pid), moved == 0 ? EFAULT : errno);
    here += moved;
    remoteAddress += static_cast<uint64_t>(moved);
    sizeBytes -= static_cast<size_t>(moved);
  }
  return {};
}

static size_t readLastLevelCache() {
  size_t largest = 0;
  for (int index = 0;; ++index) {
    // For example "32768K". sysconf would give the processor's cache, of which a virtual machine may have a part.
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    size_t number = 0;
    char unit = 0;
    if (!(file >> number))
      break;
    file >> unit;
    largest = std::max(largest, unit == 'K' ? number << 10 : unit == 'M' ? number << 20 : number);
  }
  constexpr size_t usualBytes = size_t(32) << 20;
  return largest ? largest : usualBytes;
}

size_t lastLevelCacheBytes() {
  static const size_t bytes = readLastLevelCache();
  return bytes;
}

} // namespace kolo::runtime
