#include "bootstrap/RollWire.h"

#include "kolo/runtime/Communicator.h"
#include "network/Cursor.h"

#include <algorithm>

namespace kolo::runtime {
namespace {

constexpr uint32_t rollAddressMagic = 0x314c524b;  // "KRL1"
constexpr uint64_t rollMagic = 0x4c4c4f524f4c4f4b; // "KOLOROLL"

template <size_t Size> void putBytes(Writer &writer, const std::array<std::byte, Size> &bytes) {
  std::ranges::copy(bytes, writer.next(Size).begin());
}

template <size_t Size> void getBytes(Reader &reader, std::array<std::byte, Size> &bytes) {
  std::ranges::copy(reader.next(Size), bytes.begin());
}

} // namespace

RollAddress write(const RollPlace &place) {
  RollAddress bytes = {};
  Writer writer(bytes);
  writer.put(rollAddressMagic);
  writer.put(static_cast<uint16_t>(place.host.isIpv6 ? 6 : 4));
  writer.put(place.host.port);
  writer.put(place.host.scope);
  putBytes(writer, place.host.host);
  putBytes(writer, place.number);
  return bytes;
}

std::optional<RollPlace> parseRollAddress(const RollAddress &bytes) {
  Reader reader(bytes);
  const auto magic = reader.get<uint32_t>();
  const auto family = reader.get<uint16_t>();
  RollPlace place;
  place.host.isIpv6 = family == 6;
  place.host.port = reader.get<uint16_t>();
  place.host.scope = reader.get<uint32_t>();
  getBytes(reader, place.host.host);
  getBytes(reader, place.number);
  const bool isRight = magic == rollAddressMagic && (family == 4 || family == 6) && place.host.port != 0;
  return isRight && reader.isRestZero() ? std::optional(place) : std::nullopt;
}

RollOpeningBytes write(const RollOpening &opening) {
  RollOpeningBytes bytes = {};
  Writer writer(bytes);
  writer.put(rollMagic);
  putBytes(writer, opening.number);
  writer.put(opening.rank);
  writer.put(opening.size);
  putBytes(writer, opening.nonce);
  return bytes;
}

bool beginsRollOpening(std::span<const std::byte> bytes) {
  std::array<std::byte, sizeof(rollMagic)> known = {};
  Writer(known).put(rollMagic);
  return std::ranges::equal(bytes.first(std::min(bytes.size(), known.size())),
                            std::span(known).first(std::min(bytes.size(), known.size())));
}

std::optional<RollOpening> parseRollOpening(std::span<const std::byte, rollOpeningBytes> bytes) {
  Reader reader(bytes);
  const auto magic = reader.get<uint64_t>();
  RollOpening opening;
  getBytes(reader, opening.number);
  opening.rank = reader.get<int32_t>();
  opening.size = reader.get<int32_t>();
  getBytes(reader, opening.nonce);
  const bool isRight = magic == rollMagic && opening.size >= 1 && opening.size <= maxRanks && opening.rank >= 0 &&
                       opening.rank < opening.size;
  return isRight ? std::optional(opening) : std::nullopt;
}

} // namespace kolo::runtime
