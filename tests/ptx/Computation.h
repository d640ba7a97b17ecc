// One instruction that computes, and the registers that it computes on, for the parts of Compute.
#pragma once

#include "Compute.h"
#include "Floats.h"

#include <algorithm>
#include <initializer_list>
#include <type_traits>

namespace kolo::ptx {

template <class T> using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

/// Registers hold numbers of 16 bits in 32, whose upper half nobody reads.
template <class T> T toNumber(Bits<T> bits) {
  if constexpr (std::is_floating_point_v<T>)
    return std::bit_cast<T>(bits);
  else
    return T(bits);
}
template <class T> Bits<T> toBits(T number) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<uint32_t>(canonical(number));
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<uint64_t>(number);
  else
    return Bits<T>(std::make_unsigned_t<T>(number));
}

/// Calls body(number) with a number of the type. False: it is none of integers.
template <class Body> bool withInteger(Type type, Body &&body) {
  auto tryTypes = [&]<class... Numbers>(std::initializer_list<Type> integers, Numbers... numbers) {
    auto tryOne = [&](auto number) {
      using T = decltype(number);
      if (std::is_signed_v<T> != isSigned(type) || std::ranges::find(integers, type) == integers.end() ||
          int(sizeof(T)) != sizeOf(type))
        return false;
      body(number);
      return true;
    };
    return (tryOne(numbers) || ...);
  };
  return tryTypes({Type::B16, Type::U16, Type::S16, Type::B32, Type::U32, Type::S32, Type::B64, Type::U64, Type::S64},
                  uint16_t(), int16_t(), uint32_t(), int32_t(), uint64_t(), int64_t());
}

template <class Body> bool withNumber(Type type, Body &&body) {
  if (type == Type::F32)
    return body(float()), true;
  if (type == Type::F64)
    return body(double()), true;
  return withInteger(type, body);
}

class Computation {
public:
  Computation(const Instruction &of, Registers &on, uint32_t threads) : instruction(of), registers(on), mask(threads) {}

  bool run();

private:
  template <class T> const Bits<T> *source(size_t number) const {
    if constexpr (sizeof(T) == 8)
      return registers.wideOf(instruction.src[number]);
    else
      return registers.narrowOf(instruction.src[number]);
  }
  template <class T> Bits<T> *target() const {
    if constexpr (sizeof(T) == 8)
      return registers.wide[instruction.dst.index].data();
    else
      return registers.narrow[instruction.dst.index].data();
  }
  template <class T, class F> void unary(F &&f) const {
    const Bits<T> *a = source<T>(0);
    Bits<T> *to = target<T>();
    forLanes(mask, [&](int lane) { to[lane] = toBits<T>(T(f(toNumber<T>(a[lane])))); });
  }
  template <class T, class F> void binary(F &&f) const {
    const Bits<T> *a = source<T>(0), *b = source<T>(1);
    Bits<T> *to = target<T>();
    forLanes(mask, [&](int lane) { to[lane] = toBits<T>(T(f(toNumber<T>(a[lane]), toNumber<T>(b[lane])))); });
  }
  /// The second source is 32 bits wide.
  template <class T, class F> void shift(F &&f) const {
    const Bits<T> *a = source<T>(0);
    const uint32_t *b = registers.narrowOf(instruction.src[1]);
    Bits<T> *to = target<T>();
    forLanes(mask, [&](int lane) { to[lane] = toBits<T>(T(f(toNumber<T>(a[lane]), b[lane]))); });
  }
  bool arithmetic();
  bool small();
  template <class Format> bool smallOf(bool isPair);
  bool logic();
  bool bits();
  bool select();
  bool compare();
  template <class T> void compareAs();
  template <class Format> void compareSmall();
  bool convert();
  uint64_t converted(uint64_t bits) const;
  bool widening();
  bool vectors();
  bool carries();

  const Instruction &instruction;
  Registers &registers;
  uint32_t mask;
};

} // namespace kolo::ptx
