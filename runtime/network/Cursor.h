// Cursor: writes or reads little-endian numbers, one after the other, in bytes of known size. All wire formats use it.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace kolo::runtime {

/// Writes or reads numbers one after the other.
template <class Byte> class Cursor {
public:
  explicit Cursor(std::span<Byte> all) : bytes(all) {}

  template <std::unsigned_integral Number> void put(Number number) {
    for (size_t i = 0; i < sizeof(Number); ++i)
      bytes[at++] = static_cast<std::byte>(number >> (8 * i));
  }
  template <std::unsigned_integral Number> Number get() {
    Number number = 0;
    for (size_t i = 0; i < sizeof(Number); ++i)
      number = static_cast<Number>(number | static_cast<Number>(static_cast<Number>(bytes[at++]) << (8 * i)));
    return number;
  }
  template <std::signed_integral Number> void put(Number number) {
    put(static_cast<std::make_unsigned_t<Number>>(number));
  }
  template <std::signed_integral Number> Number get() {
    return static_cast<Number>(get<std::make_unsigned_t<Number>>());
  }
  /// Text in a field of `sizeBytes` bytes that ends with a zero; what is longer is cut.
  void putText(std::string_view text, size_t sizeBytes) {
    std::span<Byte> field = next(sizeBytes);
    for (size_t i = 0; i < sizeBytes; ++i)
      field[i] = i < std::min(text.size(), sizeBytes - 1) ? static_cast<std::byte>(text[i]) : std::byte(0);
  }
  std::string getText(size_t sizeBytes) {
    std::string text;
    for (std::byte byte : next(sizeBytes)) {
      if (byte == std::byte(0))
        break;
      text += static_cast<char>(byte);
    }
    return text;
  }
  /// The bytes of a field. Requires that so many are left.
  std::span<Byte> next(size_t sizeBytes) {
    at += sizeBytes;
    return bytes.subspan(at - sizeBytes, sizeBytes);
  }
  size_t position() const { return at; }
  bool isRestZero() const {
    return std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end(),
                       [](std::byte byte) { return byte == std::byte(0); });
  }

private:
  std::span<Byte> bytes;
  size_t at = 0;
};
using Writer = Cursor<std::byte>;
using Reader = Cursor<const std::byte>;

} // namespace kolo::runtime
