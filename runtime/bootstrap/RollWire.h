// RollWire: what ranks and the keeper of a roll say to each other, as bytes. All is of fixed size and little-endian.
//
// A rank sends an opening, the keeper answers with a nonce and a proof, and the rank sends a proof over both nonces.
// Then the keeper sends `entered`, and `complete` as soon as all ranks have entered. A rank that has not heard that
// asks, and the keeper answers that ranks are missing.
#pragma once

#include "kolo/runtime/Roll.h"
#include "network/Handshake.h"
#include "network/tcp/Wire.h"

#include <optional>

namespace kolo::runtime {

struct RollPlace {
  tcp::HostAddress host;
  WorldNumber number = {};
};
RollAddress write(const RollPlace &place);
/// Nothing: no address of a roll.
std::optional<RollPlace> parseRollAddress(const RollAddress &bytes);

/// A rank's first message.
struct RollOpening {
  WorldNumber number = {};
  int32_t rank = 0, size = 0;
  Nonce nonce = {};
};
inline constexpr size_t rollOpeningBytes = 64, rollAnswerBytes = sizeof(Nonce) + sizeof(SecretProof);
using RollOpeningBytes = std::array<std::byte, rollOpeningBytes>;
RollOpeningBytes write(const RollOpening &opening);
bool beginsRollOpening(std::span<const std::byte> bytes);
/// Nothing: no rank says so.
std::optional<RollOpening> parseRollOpening(std::span<const std::byte, rollOpeningBytes> bytes);

inline constexpr std::string_view rollAnswerLabel = "roll", rollLastLabel = "here";

/// One byte each. The lowest missing rank and the lowest present one follow the last of them.
enum class RollWord : uint8_t { Entered = 'E', Complete = 'C', Question = '?', Missing = 'M' };
inline constexpr size_t rollMissingBytes = 2 * sizeof(int32_t);

} // namespace kolo::runtime
