#include "Compute.h"

#include "Floats.h"

#include <algorithm>
#include <initializer_list>
#include <type_traits>

namespace kolo::ptx {

namespace {

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

bool Computation::select() {
  uint32_t condition = registers.predOf(instruction.src[2]);
  auto choose = [&](auto *to, const auto *a, const auto *b) {
    forLanes(mask, [&](int lane) { to[lane] = condition >> lane & 1 ? a[lane] : b[lane]; });
  };
  if (instruction.dst.bank == Bank::Wide)
    choose(target<uint64_t>(), source<uint64_t>(0), source<uint64_t>(1));
  else
    choose(target<uint32_t>(), source<uint32_t>(0), source<uint32_t>(1));
  return true;
}

template <class T> bool holds(Comparison comparison, T a, T b) {
  bool isUnordered = false;
  if constexpr (std::is_floating_point_v<T>)
    isUnordered = std::isnan(a) || std::isnan(b);
  switch (comparison) {
  case Comparison::Eq:
    return a == b;
  case Comparison::Ne:
    return !isUnordered && a != b;
  case Comparison::Lt:
    return a < b;
  case Comparison::Le:
    return a <= b;
  case Comparison::Gt:
    return a > b;
  case Comparison::Ge:
    return a >= b;
  case Comparison::Nan:
    return isUnordered;
  case Comparison::Neu:
    return isUnordered || a != b;
  }
  return false;
}

template <class T> void Computation::compareAs() {
  const Bits<T> *a = source<T>(0), *b = source<T>(1);
  uint32_t result = 0;
  forLanes(mask, [&](int lane) {
    result |= uint32_t(holds(instruction.comparison, toNumber<T>(a[lane]), toNumber<T>(b[lane]))) << lane;
  });
  registers.setPred(instruction.dst.index, mask, result);
}

template <class Format> void Computation::compareSmall() {
  const uint32_t *a = registers.narrowOf(instruction.src[0]), *b = registers.narrowOf(instruction.src[1]);
  uint32_t result = 0;
  forLanes(mask, [&](int lane) {
    result |=
        uint32_t(holds(instruction.comparison, Format::widen(uint16_t(a[lane])), Format::widen(uint16_t(b[lane]))))
        << lane;
  });
  registers.setPred(instruction.dst.index, mask, result);
}

bool Computation::compare() {
  if (instruction.type == Type::F16)
    return compareSmall<Half>(), true;
  if (instruction.type == Type::BF16)
    return compareSmall<BFloat>(), true;
  return withNumber(instruction.type, [&]<class T>(T) { compareAs<T>(); });
}

uint64_t Computation::converted(uint64_t bits) const {
  auto ofReal = [&](double value) -> uint64_t {
    switch (instruction.type) {
    case Type::F16:
      return Half::narrow(value);
    case Type::BF16:
      return BFloat::narrow(value);
    case Type::F64:
      return std::bit_cast<uint64_t>(value);
    default:
      return std::bit_cast<uint32_t>(canonical(float(value)));
    }
  };
  switch (instruction.from) {
  case Type::F16:
    return std::bit_cast<uint32_t>(Half::toFloat(uint16_t(bits)));
  case Type::BF16:
    return std::bit_cast<uint32_t>(BFloat::toFloat(uint16_t(bits)));
  case Type::F32:
    return ofReal(std::bit_cast<float>(uint32_t(bits)));
  default:
    break;
  }
  // An integer: extended from its own size, then converted, or cut and extended again.
  auto extended = [](uint64_t value, Type type) {
    int unused = 64 - 8 * sizeOf(type);
    return isSigned(type) ? uint64_t(int64_t(value << unused) >> unused) : value << unused >> unused;
  };
  uint64_t value = extended(bits, instruction.from);
  if (instruction.type == Type::F32) // straight, as rounding twice would not do
    return std::bit_cast<uint32_t>(isSigned(instruction.from) ? float(int64_t(value)) : float(value));
  if (instruction.type == Type::F64)
    return std::bit_cast<uint64_t>(isSigned(instruction.from) ? double(int64_t(value)) : double(value));
  return extended(value, instruction.type);
}

bool Computation::convert() {
  if (instruction.op == Op::ConvertPair) { // the first source is the upper half
    const uint32_t *high = registers.narrowOf(instruction.src[0]), *low = registers.narrowOf(instruction.src[1]);
    uint32_t *to = registers.narrow[instruction.dst.index].data();
    auto narrow = instruction.type == Type::F16x2 ? Half::narrow : BFloat::narrow;
    forLanes(mask, [&](int lane) {
      to[lane] = uint32_t(narrow(std::bit_cast<float>(high[lane]))) << 16 | narrow(std::bit_cast<float>(low[lane]));
    });
    return true;
  }
  forLanes(mask, [&](int lane) {
    registers.set(instruction.dst, lane, converted(registers.valueOf(instruction.src[0], lane)));
  });
  return true;
}

bool Computation::widening() {
  forLanes(mask, [&](int lane) {
    uint64_t a = registers.valueOf(instruction.src[0], lane), b = registers.valueOf(instruction.src[1], lane);
    uint64_t product = instruction.type == Type::U16   ? uint32_t(uint16_t(a)) * uint16_t(b)
                       : instruction.type == Type::S16 ? uint32_t(int32_t(int16_t(a)) * int16_t(b))
                       : instruction.type == Type::U32 ? uint64_t(uint32_t(a)) * uint32_t(b)
                                                       : uint64_t(int64_t(int32_t(a)) * int32_t(b));
    registers.set(instruction.dst, lane, product);
  });
  return true;
}

bool Computation::vectors() {
  int elementBits = 8 * sizeOf(instruction.type) / instruction.numElements;
  uint64_t elementMask = elementBits == 64 ? ~uint64_t(0) : (uint64_t(1) << elementBits) - 1;
  forLanes(mask, [&](int lane) {
    uint64_t whole = instruction.op == Op::Unpack ? registers.valueOf(instruction.src[0], lane) : 0;
    for (int element = 0; element < instruction.numElements; ++element) {
      const Operand &part = instruction.elements[size_t(element)];
      if (instruction.op == Op::Pack)
        whole |= (registers.valueOf(part, lane) & elementMask) << element * elementBits;
      else if (part.index != nowhere)
        registers.set(part, lane, whole >> element * elementBits & elementMask);
    }
    if (instruction.op == Op::Pack)
      registers.set(instruction.dst, lane, whole);
  });
  return true;
}

bool Computation::carries() {
  const uint64_t *a = source<uint64_t>(0), *b = source<uint64_t>(1);
  uint64_t *to = target<uint64_t>();
  forLanes(mask, [&](int lane) {
    uint64_t in = instruction.op == Op::AddWithCarry ? *registers.carry >> lane & 1 : 0, result = 0;
    bool carries = __builtin_add_overflow(a[lane], b[lane], &result);
    carries |= __builtin_add_overflow(result, in, &result);
    to[lane] = result;
    *registers.carry = (*registers.carry & ~(1u << lane)) | uint32_t(carries) << lane;
  });
  return true;
}

bool Computation::run() {
  switch (instruction.op) {
  case Op::Add:
  case Op::MulLow:
  case Op::Abs:
    return small() || arithmetic();
  case Op::Sub:
  case Op::Div:
  case Op::Reciprocal:
  case Op::Min:
  case Op::Max:
  case Op::Neg:
  case Op::Mad:
  case Op::MulHigh:
    return arithmetic();
  case Op::And:
  case Op::Or:
  case Op::Xor:
  case Op::Not:
    return logic();
  case Op::Select:
    return select();
  case Op::Compare:
    return compare();
  case Op::Convert:
  case Op::ConvertPair:
    return convert();
  case Op::MulWide:
    return widening();
  case Op::Pack:
  case Op::Unpack:
    return vectors();
  case Op::AddCarry:
  case Op::AddWithCarry:
    return carries();
  case Op::Mov:
    if (instruction.type == Type::Pred)
      registers.setPred(instruction.dst.index, mask, registers.predOf(instruction.src[0]));
    else if (instruction.dst.bank == Bank::Wide)
      unary<uint64_t>([](uint64_t a) { return a; });
    else
      unary<uint32_t>([](uint32_t a) { return a; });
    return true;
  case Op::MoveParam: {
    uint64_t kept = sizeOf(instruction.type) == 8 ? ~uint64_t(0) : (uint64_t(1) << 8 * sizeOf(instruction.type)) - 1;
    forLanes(mask, [&](int lane) {
      registers.set(instruction.dst, lane, registers.valueOf(instruction.src[0], lane) & kept);
    });
    return true;
  }
  default:
    return bits();
  }
}

} // namespace

bool compute(const Instruction &instruction, Registers &registers, uint32_t mask) {
  return Computation(instruction, registers, mask).run();
}

} // namespace kolo::ptx
