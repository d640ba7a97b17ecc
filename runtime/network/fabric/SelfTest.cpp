#include "network/fabric/SelfTest.h"

#include "base/Error.h"

namespace kolo::runtime::fabric {
namespace {

constexpr uint64_t numParts = 4;

/// Never 0, which memory has that nobody wrote.
std::byte testByte(int sender, uint64_t at) {
  return static_cast<std::byte>(((at + 1) * 0x9e3779b97f4a7c15U + static_cast<uint64_t>(sender) * 37) >> 56 | 1);
}

} // namespace

SelfTest::SelfTest(int ownRank, int peerRank) : peer(peerRank) {
  for (uint64_t at = 0; at < allBytes; ++at)
    source[at] = testByte(ownRank, at);
}

void SelfTest::write(const Put &put, const Signal &signal) const {
  uint64_t begin = 0, count = 0;
  for (uint64_t size : sizes) {
    std::span<const std::byte> data = std::span(source).subspan(begin, size);
    for (uint64_t part = 0; part < numParts; ++part) {
      uint64_t first = size * part / numParts, end = size * (part + 1) / numParts;
      if (first < end)
        put(begin + first, data.subspan(first, end - first));
    }
    signal(++count);
    begin += size;
  }
}

Status SelfTest::look() {
  for (; !hasHeardAll() && landing.cell.hasReached(numHeard + 1); ++numHeard) {
    uint64_t size = sizes[numHeard];
    uint64_t begin = std::accumulate(sizes.begin(), sizes.begin() + numHeard, uint64_t(0));
    for (uint64_t at = begin + size; at-- > begin;)
      if (landing.bytes[at] != testByte(peer, at))
        return rankError(StatusCode::SystemError, peer,
                         "the signal of rank {} came before byte {} of its put of {} bytes", peer, at - begin, size);
  }
  return {};
}

} // namespace kolo::runtime::fabric
