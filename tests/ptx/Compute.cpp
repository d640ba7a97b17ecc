#include "Computation.h"

namespace kolo::ptx {

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

namespace {

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

} // namespace

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

bool compute(const Instruction &instruction, Registers &registers, uint32_t mask) {
  return Computation(instruction, registers, mask).run();
}

} // namespace kolo::ptx
