// Conversions, products that are wider than their factors, vectors, and sums with a carry.
#include "Computation.h"

namespace kolo::ptx {

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

} // namespace kolo::ptx
