// The executor's arithmetic of f16, bf16 and conversions is that of LLVM's APFloat.
#include "Compute.h"
#include "Floats.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/APSInt.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

using namespace kolo::ptx;
using llvm::APFloat;

namespace {

constexpr auto nearest = APFloat::rmNearestTiesToEven;

template <class Format> const llvm::fltSemantics &semantics() {
  return std::is_same_v<Format, Half> ? APFloat::IEEEhalf() : APFloat::BFloat();
}
template <class Format> APFloat valueOf(uint16_t bits) { return APFloat(semantics<Format>(), llvm::APInt(16, bits)); }
uint16_t bitsOf(const APFloat &value) { return uint16_t(value.bitcastToAPInt().getZExtValue()); }
uint16_t canonicalBits(const APFloat &value) { return value.isNaN() ? Half::quietNan : bitsOf(value); }

uint16_t rounded(APFloat value, const llvm::fltSemantics &to) {
  bool losesInfo = false;
  value.convert(to, nearest, &losesInfo);
  return canonicalBits(value);
}

template <class Format> void compareAll() {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    APFloat value = valueOf<Format>(uint16_t(bits));
    bool losesInfo = false;
    APFloat wide = value;
    wide.convert(APFloat::IEEEsingle(), nearest, &losesInfo);
    if (!value.isNaN()) {
      ASSERT_EQ(std::bit_cast<uint32_t>(Format::toFloat(uint16_t(bits))), wide.bitcastToAPInt().getZExtValue()) << bits;
      ASSERT_EQ(Format::narrow(Format::widen(uint16_t(bits))), bits);
    } else {
      ASSERT_TRUE(std::isnan(Format::toFloat(uint16_t(bits))));
    }
  }
  std::mt19937_64 random(3);
  for (int i = 0; i < 400000; ++i) {
    auto a = uint16_t(random()), b = uint16_t(random());
    if (i % 4 == 0) // of nearly the same size
      b = uint16_t((a & 0xff00) ^ (random() & 0x83ff));
    APFloat sum = valueOf<Format>(a), product = sum;
    sum.add(valueOf<Format>(b), nearest), product.multiply(valueOf<Format>(b), nearest);
    ASSERT_EQ(Format::add(a, b), canonicalBits(sum)) << a << " + " << b;
    ASSERT_EQ(Format::multiply(a, b), canonicalBits(product)) << a << " * " << b;
    auto single = uint32_t(random());
    if (i % 2) // in the range of the format, near the middle of two numbers
      single = std::bit_cast<uint32_t>(Format::toFloat(a)) + uint32_t(random() % 3) - 1 +
               (1u << (22 - (std::is_same_v<Format, Half> ? 10 : 7)));
    ASSERT_EQ(Format::narrow(std::bit_cast<float>(single)),
              rounded(APFloat(APFloat::IEEEsingle(), llvm::APInt(32, single)), semantics<Format>()))
        << single;
  }
}

/// What one instruction makes of one thread's sources.
uint64_t computeOne(const Instruction &instruction, uint64_t a, uint64_t b = 0) {
  std::vector<Row<uint32_t>> narrow(3);
  std::vector<Row<uint64_t>> wide(3);
  uint32_t preds = 0, carry = 0;
  Constants constants;
  Registers registers{&preds, narrow.data(), wide.data(), &carry, &constants};
  narrow[0][5] = uint32_t(a), narrow[1][5] = uint32_t(b), wide[0][5] = a, wide[1][5] = b;
  EXPECT_TRUE(compute(instruction, registers, 1u << 5));
  return instruction.dst.bank == Bank::Wide ? wide[2][5] : narrow[2][5];
}

Instruction makeInstruction(Op op, Type type, Type from) {
  auto bankOf = [](Type of) { return sizeOf(of) == 8 ? Bank::Wide : Bank::Narrow; };
  Instruction instruction;
  instruction.op = op, instruction.type = type, instruction.from = from;
  instruction.dst = {2, false, bankOf(type)};
  instruction.src[0] = {0, false, bankOf(from)}, instruction.src[1] = {1, false, bankOf(from)};
  return instruction;
}

} // namespace

TEST(Floats, OfHalfPrecisionAreThoseOfApfloat) { compareAll<Half>(); }

TEST(Floats, OfBf16AreThoseOfApfloat) { compareAll<BFloat>(); }

TEST(Floats, OfIntegersAreThoseOfApfloat) {
  std::mt19937_64 random(5);
  struct Kind {
    Type from;
    unsigned numBits;
    bool isSigned;
  };
  for (Kind kind : {Kind{Type::S16, 16, true},
                    {Type::S32, 32, true},
                    {Type::S64, 64, true},
                    {Type::U32, 32, false},
                    {Type::U64, 64, false}})
    for (Type to : {Type::F32, Type::F64})
      for (int i = 0; i < 20000; ++i) {
        uint64_t bits = random() >> random() % 64;
        APFloat expected(to == Type::F32 ? APFloat::IEEEsingle() : APFloat::IEEEdouble());
        llvm::APInt number = llvm::APInt(64, bits).trunc(kind.numBits);
        expected.convertFromAPInt(number, kind.isSigned, nearest);
        ASSERT_EQ(computeOne(makeInstruction(Op::Convert, to, kind.from), bits),
                  expected.bitcastToAPInt().getZExtValue())
            << bits;
      }
}

TEST(Floats, OfSinglePrecisionDivideAsApfloatDoes) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 100000; ++i) {
    auto a = uint32_t(random()), b = uint32_t(random());
    for (Op op : {Op::Div, Op::Add, Op::MulLow}) {
      APFloat expected(APFloat::IEEEsingle(), llvm::APInt(32, a)), other(APFloat::IEEEsingle(), llvm::APInt(32, b));
      if (op == Op::Div)
        expected.divide(other, nearest);
      else if (op == Op::Add)
        expected.add(other, nearest);
      else
        expected.multiply(other, nearest);
      uint64_t bits = expected.isNaN() ? 0x7fffffff : expected.bitcastToAPInt().getZExtValue();
      ASSERT_EQ(computeOne(makeInstruction(op, Type::F32, Type::F32), a, b), bits);
    }
  }
}

TEST(Integers, AreCutAndExtended) {
  auto convert = [](Type to, Type from, uint64_t value) {
    return computeOne(makeInstruction(Op::Convert, to, from), value);
  };
  EXPECT_EQ(convert(Type::U64, Type::U32, 0xfffffffff), 0xffffffff);
  EXPECT_EQ(uint16_t(convert(Type::S8, Type::S32, 0x1ff)), 0xffff);
  EXPECT_EQ(convert(Type::S32, Type::S16, 0x18000), 0xffff8000);
  EXPECT_EQ(uint16_t(convert(Type::U16, Type::U32, 0x12345)), 0x2345);
}
