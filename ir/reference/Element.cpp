// Arithmetic on elements in memory, by type.
#include "ir/reference/Element.h"

#include "llvm/Support/ErrorHandling.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace kolo::reference {

int64_t elementBytes(ElementType type) {
  static constexpr int64_t bytes[] = {2, 2, 4, 8, 1, 1, 4, 4, 8, 8};
  return bytes[size_t(type)];
}

llvm::StringRef nameOf(ElementType type) {
  static constexpr const char *names[] = {"f16", "bf16", "f32", "f64", "i8", "u8", "i32", "u32", "i64", "u64"};
  return names[size_t(type)];
}

llvm::StringRef nameOf(Reduction reduction) {
  static constexpr const char *names[] = {"sum", "product", "min", "max", "average"};
  return names[size_t(reduction)];
}

/// `value` shifted right, rounded to nearest, ties to even.
static uint32_t shiftRightRounding(uint32_t value, int shift) {
  uint32_t kept = value >> shift;
  uint32_t lost = value & ((1u << shift) - 1), half = 1u << (shift - 1);
  return kept + (lost > half || (lost == half && (kept & 1)));
}

uint16_t halfFromFloat(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = (bits >> 16) & 0x8000;
  int exponent = int((bits >> 23) & 0xff) - 127;
  uint32_t fraction = bits & 0x7fffff;
  if (exponent == 128)
    return sign | 0x7c00 | (fraction ? 0x200 | (fraction >> 13) : 0);
  if (exponent > 15)
    return sign | 0x7c00;
  if (exponent >= -14) // A carry out of the fraction raises the exponent, as it should, up to infinity.
    return sign | shiftRightRounding(uint32_t(exponent + 15) << 23 | fraction, 13);
  if (exponent < -25)
    return sign;
  return sign | shiftRightRounding(fraction | 0x800000, -exponent - 1); // subnormal: units of 2^-24
}

float floatFromHalf(uint16_t bits) {
  int exponent = (bits >> 10) & 0x1f;
  float fraction = float(bits & 0x3ff), magnitude = 0;
  if (exponent == 0)
    magnitude = std::ldexp(fraction, -24);
  else if (exponent < 31)
    magnitude = std::ldexp(fraction + 1024, exponent - 25);
  else
    magnitude = std::bit_cast<float>(0x7f800000u | uint32_t(bits & 0x3ff) << 13);
  return bits & 0x8000 ? -magnitude : magnitude;
}

uint16_t bfloat16FromFloat(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return uint16_t(bits >> 16) | 0x40;
  return uint16_t(shiftRightRounding(bits, 16));
}

float floatFromBfloat16(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

namespace {
/// How an element is kept in memory (`Bits`) and computed with (`Value`).
template <typename T> struct Plain {
  using Bits = T;
  using Value = T;
  static T load(T bits) { return bits; }
  static T save(T value) { return value; }
};
struct Half {
  using Bits = uint16_t;
  using Value = float;
  static float load(uint16_t bits) { return floatFromHalf(bits); }
  static uint16_t save(float value) { return halfFromFloat(value); }
};
struct Bfloat16 {
  using Bits = uint16_t;
  using Value = float;
  static float load(uint16_t bits) { return floatFromBfloat16(bits); }
  static uint16_t save(float value) { return bfloat16FromFloat(value); }
};
} // namespace

/// Calls `action` with the representation of `type`.
template <typename Action> static auto dispatch(ElementType type, Action action) {
  switch (type) {
  case ElementType::F16:
    return action(Half());
  case ElementType::BF16:
    return action(Bfloat16());
  case ElementType::F32:
    return action(Plain<float>());
  case ElementType::F64:
    return action(Plain<double>());
  case ElementType::I8:
    return action(Plain<int8_t>());
  case ElementType::U8:
    return action(Plain<uint8_t>());
  case ElementType::I32:
    return action(Plain<int32_t>());
  case ElementType::U32:
    return action(Plain<uint32_t>());
  case ElementType::I64:
    return action(Plain<int64_t>());
  case ElementType::U64:
    return action(Plain<uint64_t>());
  }
  llvm_unreachable("an element type");
}

template <typename Format> static typename Format::Value load(const std::byte *element) {
  typename Format::Bits bits;
  std::memcpy(&bits, element, sizeof bits);
  return Format::load(bits);
}

template <typename Format> static void save(std::byte *element, typename Format::Value value) {
  typename Format::Bits bits = Format::save(value);
  std::memcpy(element, &bits, sizeof bits);
}

/// IEEE 754-2019 minimum or maximum: a NaN wins, and -0 is below +0.
template <typename T> static T chosen(Reduction reduction, T left, T right) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(left) || std::isnan(right))
      return std::numeric_limits<T>::quiet_NaN();
    if (left == right)
      return std::signbit(left) == (reduction == Reduction::Min) ? left : right;
  }
  return (right < left) == (reduction == Reduction::Min) ? right : left;
}

/// The one NaN of its type, without sign and payload, for any NaN.
template <typename T> static T withOneNan(T value) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(value))
      return std::numeric_limits<T>::quiet_NaN();
  return value;
}

/// Integers wrap: computed as 64-bit unsigned numbers, of which the caller keeps the low bits.
template <typename T> static T apply(Reduction reduction, T left, T right) {
  using Wide = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  switch (reduction) {
  case Reduction::Sum:
  case Reduction::Average:
    return withOneNan(T(Wide(left) + Wide(right)));
  case Reduction::Product:
    return withOneNan(T(Wide(left) * Wide(right)));
  case Reduction::Min:
  case Reduction::Max:
    return chosen(reduction, left, right);
  }
  llvm_unreachable("a reduction");
}

void combine(ElementType type, Reduction reduction, llvm::MutableArrayRef<std::byte> destination,
             llvm::ArrayRef<std::byte> source) {
  dispatch(type, [&]<typename Format>(Format) {
    for (size_t at = 0; at < destination.size(); at += sizeof(typename Format::Bits))
      save<Format>(&destination[at], apply(reduction, load<Format>(&destination[at]), load<Format>(&source[at])));
  });
}

void divide(ElementType type, llvm::MutableArrayRef<std::byte> elements, int64_t divisor) {
  dispatch(type, [&]<typename Format>(Format) {
    using Value = typename Format::Value;
    // An 8-bit type may not hold the divisor, so integers divide in 64 bits.
    using Wide = std::conditional_t<std::is_floating_point_v<Value>, Value,
                                    std::conditional_t<std::is_signed_v<Value>, int64_t, uint64_t>>;
    for (size_t at = 0; at < elements.size(); at += sizeof(typename Format::Bits))
      save<Format>(&elements[at], withOneNan(Value(Wide(load<Format>(&elements[at])) / Wide(divisor))));
  });
}

std::vector<std::byte> widened(ElementType type, llvm::ArrayRef<std::byte> elements) {
  std::vector<std::byte> wide(elements.size() * 2);
  for (size_t at = 0; at < elements.size(); at += sizeof(uint16_t))
    save<Plain<float>>(&wide[2 * at],
                       type == ElementType::F16 ? load<Half>(&elements[at]) : load<Bfloat16>(&elements[at]));
  return wide;
}

void narrow(ElementType type, llvm::ArrayRef<std::byte> wide, llvm::MutableArrayRef<std::byte> elements) {
  for (size_t at = 0; at < elements.size(); at += sizeof(uint16_t)) {
    float value = load<Plain<float>>(&wide[2 * at]);
    type == ElementType::F16 ? save<Half>(&elements[at], value) : save<Bfloat16>(&elements[at], value);
  }
}

void storeInteger(ElementType type, std::byte *element, int64_t value) {
  dispatch(type, [&]<typename Format>(Format) { save<Format>(element, typename Format::Value(value)); });
}

std::string show(ElementType type, const std::byte *element) {
  return dispatch(type, [&]<typename Format>(Format) { return std::to_string(load<Format>(element)); });
}

} // namespace kolo::reference
