// Logic, shifts, and bits by place.
#include "Computation.h"

namespace kolo::ptx {

bool Computation::logic() {
  auto combine = [&](auto a, auto b) -> decltype(a) {
    switch (instruction.op) {
    case Op::And:
      return a & b;
    case Op::Or:
      return a | b;
    case Op::Xor:
      return a ^ b;
    default:
      return ~a;
    }
  };
  const Operand &second = instruction.op == Op::Not ? instruction.src[0] : instruction.src[1];
  if (instruction.type == Type::Pred) {
    registers.setPred(instruction.dst.index, mask,
                      combine(registers.predOf(instruction.src[0]), registers.predOf(second)));
    return true;
  }
  return withInteger(instruction.type, [&]<class T>(T) {
    if constexpr (std::is_unsigned_v<T>) {
      if (instruction.op == Op::Not)
        unary<T>([](T a) { return T(~a); });
      else
        binary<T>([&](T a, T b) { return T(combine(Bits<T>(a), Bits<T>(b))); });
    }
  });
}

namespace {

/// Of `length` bits from `first` on; what lies beyond is the sign, or zeros.
template <class T> T field(T value, uint32_t first, uint32_t length) {
  constexpr uint32_t width = 8 * sizeof(T);
  using U = std::make_unsigned_t<T>;
  first = std::min(first & 0xff, width), length = std::min(length & 0xff, width);
  if (length == 0)
    return 0;
  bool sign = std::is_signed_v<T> && (U(value) >> std::min(first + length - 1, width - 1) & 1);
  U bits = first == width ? 0 : U(value) >> first;
  uint32_t kept = std::min(length, width - first);
  U known = kept == width ? ~U(0) : (U(1) << kept) - 1;
  return T((bits & known) | (sign ? ~known : 0));
}

} // namespace

bool Computation::bits() {
  constexpr auto clamped = [](uint32_t amount, size_t width) { return std::min<uint32_t>(amount, uint32_t(width)); };
  switch (instruction.op) {
  case Op::ShiftLeft:
    return withInteger(instruction.type, [&]<class T>(T) {
      shift<T>([&](T a, uint32_t by) { return by >= 8 * sizeof(T) ? T(0) : T(std::make_unsigned_t<T>(a) << by); });
    });
  case Op::ShiftRight:
    return withInteger(instruction.type, [&]<class T>(T) {
      shift<T>([&](T a, uint32_t by) {
        if (by >= 8 * sizeof(T))
          return std::is_signed_v<T> ? T(a >> (8 * sizeof(T) - 1)) : T(0);
        return T(a >> clamped(by, 8 * sizeof(T) - 1));
      });
    });
  case Op::Bfe:
    return withInteger(instruction.type, [&]<class T>(T) {
      const uint32_t *length = registers.narrowOf(instruction.src[2]);
      const Bits<T> *a = source<T>(0);
      const uint32_t *first = registers.narrowOf(instruction.src[1]);
      Bits<T> *to = target<T>();
      forLanes(mask, [&](int lane) { to[lane] = toBits<T>(field(toNumber<T>(a[lane]), first[lane], length[lane])); });
    });
  case Op::Clz:
  case Op::Popc: {
    bool isWide = instruction.type == Type::B64, isCount = instruction.op == Op::Popc;
    uint32_t *to = registers.narrow[instruction.dst.index].data();
    forLanes(mask, [&](int lane) {
      uint64_t value =
          isWide ? registers.wideOf(instruction.src[0])[lane] : registers.narrowOf(instruction.src[0])[lane];
      to[lane] = uint32_t(isCount ? std::popcount(value) : std::countl_zero(value) - (isWide ? 0 : 32));
    });
    return true;
  }
  case Op::Permute: {
    const uint32_t *a = registers.narrowOf(instruction.src[0]), *b = registers.narrowOf(instruction.src[1]),
                   *selector = registers.narrowOf(instruction.src[2]);
    uint32_t *to = registers.narrow[instruction.dst.index].data();
    forLanes(mask, [&](int lane) {
      uint64_t both = uint64_t(b[lane]) << 32 | a[lane];
      uint32_t result = 0;
      for (int byte = 0; byte < 4; ++byte) {
        uint32_t choice = selector[lane] >> 4 * byte & 15, value = both >> 8 * (choice & 7) & 0xff;
        result |= (choice & 8 ? (value & 0x80 ? 0xff : 0) : value) << 8 * byte;
      }
      to[lane] = result;
    });
    return true;
  }
  default:
    return false;
  }
}

} // namespace kolo::ptx
