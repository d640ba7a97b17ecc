#include "SipHash.h"

#include <bit>
#include <cstring>

namespace kolo::nccl {
namespace {

struct SipState {
  uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1, v1 = std::rotl(v1, 13) ^ v0, v0 = std::rotl(v0, 32);
    v2 += v3, v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3, v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1, v1 = std::rotl(v1, 17) ^ v2, v2 = std::rotl(v2, 32);
  }
  void add(uint64_t word) {
    v3 ^= word;
    round(), round();
    v0 ^= word;
  }
};

static_assert(std::endian::native == std::endian::little); // words are read as they lie

} // namespace

uint64_t sipHash(const SipKey &key, std::span<const std::byte> message) {
  SipState state = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
                    key[1] ^ 0x7465646279746573};
  uint64_t last = static_cast<uint64_t>(message.size()) << 56;
  for (; message.size() >= sizeof(uint64_t); message = message.subspan(sizeof(uint64_t))) {
    uint64_t word;
    std::memcpy(&word, message.data(), sizeof(word));
    state.add(word);
  }
  for (size_t i = 0; i < message.size(); ++i)
    last |= std::to_integer<uint64_t>(message[i]) << 8 * i;
  state.add(last);
  state.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i)
    state.round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

} // namespace kolo::nccl
