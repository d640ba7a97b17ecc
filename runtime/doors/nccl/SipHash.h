// SipHash-2-4: a hash under a secret key. Who sees hashes learns neither the key nor other hashes under it.
// Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace kolo::nccl {

using SipKey = std::array<uint64_t, 2>;

uint64_t sipHash(const SipKey &key, std::span<const std::byte> message);

} // namespace kolo::nccl
