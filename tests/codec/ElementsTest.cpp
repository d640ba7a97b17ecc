// Conversions of single elements against llvm::APFloat: every code, every f16 and bf16, and all f32 that are likely to
// matter.
#include "codec/Elements.h"

#include "llvm/ADT/APFloat.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>

namespace kolo::codec {
namespace {

struct Case {
  Element element;
  const llvm::fltSemantics &semantics;
};

std::vector<Case> cases() {
  return {{Element::F16, llvm::APFloat::IEEEhalf()},      {Element::BF16, llvm::APFloat::BFloat()},
          {Element::E4M3, llvm::APFloat::Float8E4M3FN()}, {Element::E5M2, llvm::APFloat::Float8E5M2()},
          {Element::E3M2, llvm::APFloat::Float6E3M2FN()}, {Element::E2M3, llvm::APFloat::Float6E2M3FN()},
          {Element::E2M1, llvm::APFloat::Float4E2M1FN()}};
}

std::string elementName(const Case &of) { return textOf(Codec(of.element)); }

TEST(Elements, EveryCodeStandsForWhatApFloatSays) {
  for (const Case &of : cases()) {
    FloatFormat format = formatOf(of.element);
    for (uint32_t code = 0; code < 2 * format.signBit(); ++code) {
      llvm::APFloat expected(of.semantics, llvm::APInt(unsigned(bitsOf(of.element)), code));
      bool losesInfo = false;
      expected.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
      float actual = decodeFloat(format, code);
      ASSERT_FALSE(losesInfo);
      if (expected.isNaN())
        ASSERT_TRUE(std::isnan(actual)) << elementName(of) << " " << code;
      else
        ASSERT_EQ(std::bit_cast<uint32_t>(actual), expected.bitcastToAPInt().getZExtValue())
            << elementName(of) << " " << code;
    }
  }
}

/// What the format makes of a finite number.
uint32_t expectedCode(const Case &of, float value, Overflow overflow) {
  llvm::APFloat number(value);
  bool losesInfo = false;
  auto status = number.convert(of.semantics, llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  FloatFormat format = formatOf(of.element);
  bool overflows = !number.isFinite() || (status & llvm::APFloat::opOverflow);
  if (overflows) {
    bool hasInfinity = format.special == FloatFormat::Special::InfinityAndNan;
    if (overflow == Overflow::ToInfinity && !hasInfinity)
      return format.nan();
    uint32_t largest = overflow == Overflow::ToInfinity ? format.infinity() : format.largest;
    return largest | (std::signbit(value) ? format.signBit() : 0);
  }
  return uint32_t(number.bitcastToAPInt().getZExtValue());
}

void compare(float value) {
  if (!std::isfinite(value))
    return;
  for (const Case &of : cases()) {
    for (Overflow overflow : {Overflow::ToInfinity, Overflow::Saturate}) {
      if (overflow == Overflow::ToInfinity && formatOf(of.element).special == FloatFormat::Special::None)
        continue;
      ASSERT_EQ(encodeFloat(formatOf(of.element), value, overflow), expectedCode(of, value, overflow))
          << elementName(of) << " of " << std::hexfloat << value;
    }
  }
}

TEST(Elements, EveryHalfAndBfloat16IsEncodedAsApFloatDoes) {
  for (uint32_t bits = 0; bits < 0x10000 && !HasFatalFailure(); ++bits) {
    compare(decodeFloat(formatOf(Element::F16), bits));
    compare(std::bit_cast<float>(bits << 16));
  }
}

/// Number `i` of 2^24, spread over all f32: their bits are i times an odd number.
float spread(uint32_t i) { return std::bit_cast<float>(i * 0x9e3779b1u); }

TEST(Elements, ASampleOfF32IsEncodedAsApFloatDoes) {
  for (uint32_t i = 0; i < 1u << 17 && !HasFatalFailure(); ++i)
    compare(spread(i));
}

TEST(Elements, Heavy16MillionF32AreEncodedAsApFloatDoes) {
  for (uint32_t i = 0; i < 1u << 24 && !HasFatalFailure(); ++i)
    compare(spread(i));
}

TEST(Elements, NeighboursOfTheMiddleOfTwoCodesAreEncodedAsApFloatDoes) {
  for (const Case &of : cases()) {
    FloatFormat format = formatOf(of.element);
    for (uint32_t code = 0; code < format.largest && !HasFatalFailure(); ++code) {
      float middle = decodeFloat(format, code) / 2 + decodeFloat(format, code + 1) / 2;
      for (float value : {middle, std::nextafterf(middle, 0), std::nextafterf(middle, INFINITY)}) {
        compare(value);
        compare(-value);
      }
    }
  }
}

TEST(Elements, NanAndInfinityBecomeWhatTheFormatHas) {
  using Row = std::tuple<Element, uint32_t, uint32_t>;
  for (auto [element, nan, infinity] : {Row{Element::F16, 0x7e00, 0x7c00}, Row{Element::BF16, 0x7fc0, 0x7f80},
                                        Row{Element::E4M3, 0x7f, 0x7f}, Row{Element::E5M2, 0x7e, 0x7c}}) {
    EXPECT_EQ(encodeFloat(formatOf(element), NAN, Overflow::Saturate), nan);
    EXPECT_EQ(encodeFloat(formatOf(element), INFINITY, Overflow::Saturate), infinity);
  }
}

TEST(Elements, PowersOfTwoOfScalesAreThoseOfApFloat) {
  for (uint32_t code = 0; code < 255; ++code) {
    llvm::APFloat expected(llvm::APFloat::Float8E8M0FNU(), llvm::APInt(8, code));
    bool losesInfo = false;
    expected.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
    EXPECT_EQ(expected.convertToDouble(), std::ldexp(1.0, int(code) - 127));
  }
}

} // namespace
} // namespace kolo::codec
