// Arithmetic of integers and of floating-point numbers.
#include "Computation.h"

namespace kolo::ptx {

namespace {

template <class T> T divided(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0)
      return T(-1);
    if (std::is_signed_v<T> && b == T(-1))
      return T(0 - std::make_unsigned_t<T>(a));
  }
  return T(a / b);
}

template <class T> T least(T a, T b, bool isMost) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b))
      return std::isnan(a) ? b : a;
    if (a == b)
      return std::signbit(a) == isMost ? b : a; // zeros of either sign
  }
  return (a < b) == isMost ? b : a;
}

template <class T> T highHalf(T a, T b) {
  if constexpr (std::is_signed_v<T>)
    return T((__int128(a) * __int128(b)) >> 64);
  else
    return T((static_cast<unsigned __int128>(a) * b) >> 64);
}

} // namespace

bool Computation::arithmetic() {
  return withNumber(instruction.type, [&]<class T>(T) {
    using U = std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
    using Wide = std::conditional_t<sizeof(U) < 4, uint32_t, U>; // products of 16 bits would be signed
    switch (instruction.op) {
    case Op::Add:
      return binary<T>([](T a, T b) { return T(Wide(U(a)) + Wide(U(b))); });
    case Op::Sub:
      return binary<T>([](T a, T b) { return T(Wide(U(a)) - Wide(U(b))); });
    case Op::MulLow:
      return binary<T>([](T a, T b) { return T(Wide(U(a)) * Wide(U(b))); });
    case Op::Div:
      return binary<T>([](T a, T b) { return divided(a, b); });
    case Op::Reciprocal:
      return unary<T>([](T a) { return divided(T(1), a); });
    case Op::Min:
      return binary<T>([](T a, T b) { return least(a, b, false); });
    case Op::Max:
      return binary<T>([](T a, T b) { return least(a, b, true); });
    case Op::Neg:
      return unary<T>([](T a) { return T(Wide(0) - Wide(U(a))); });
    case Op::Abs:
      return unary<T>([](T a) { return a < T(0) ? T(Wide(0) - Wide(U(a))) : a; });
    case Op::Mad: {
      const Bits<T> *a = source<T>(0), *b = source<T>(1), *c = source<T>(2);
      Bits<T> *to = target<T>();
      forLanes(mask, [&](int lane) { to[lane] = toBits<T>(T(U(a[lane]) * U(b[lane]) + U(c[lane]))); });
      return;
    }
    default:
      if constexpr (sizeof(T) == 8 && std::is_integral_v<T>)
        binary<T>([](T a, T b) { return highHalf(a, b); });
    }
  });
}

template <class Format> bool Computation::smallOf(bool isPair) {
  auto one = [&](uint16_t a, uint16_t b) {
    return instruction.op == Op::Add      ? Format::add(a, b)
           : instruction.op == Op::MulLow ? Format::multiply(a, b)
                                          : Format::absolute(a);
  };
  const uint32_t *a = registers.narrowOf(instruction.src[0]),
                 *b = instruction.op == Op::Abs ? a : registers.narrowOf(instruction.src[1]);
  uint32_t *to = registers.narrow[instruction.dst.index].data();
  forLanes(mask, [&](int lane) {
    uint32_t high = isPair ? one(uint16_t(a[lane] >> 16), uint16_t(b[lane] >> 16)) : 0;
    to[lane] = high << 16 | one(uint16_t(a[lane]), uint16_t(b[lane]));
  });
  return true;
}

bool Computation::small() {
  switch (instruction.type) {
  case Type::F16:
  case Type::F16x2:
    return smallOf<Half>(instruction.type == Type::F16x2);
  case Type::BF16:
  case Type::BF16x2:
    return smallOf<BFloat>(instruction.type == Type::BF16x2);
  default:
    return false;
  }
}

} // namespace kolo::ptx
