// The arithmetic of elements against LLVM's own soft floating point.
#include "ir/reference/Element.h"

#include "llvm/ADT/APFloat.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

using namespace kolo::reference;

namespace {
uint16_t rounded(float value, const llvm::fltSemantics &semantics) {
  llvm::APFloat number(value);
  bool losesInfo;
  number.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return uint16_t(number.bitcastToAPInt().getZExtValue());
}

float widened(uint16_t bits, const llvm::fltSemantics &semantics) {
  llvm::APFloat number(semantics, llvm::APInt(16, bits));
  bool losesInfo;
  number.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return number.convertToFloat();
}

/// One element of each of two 8-byte buffers combined.
template <typename T> T combined(ElementType type, Reduction reduction, T left, T right) {
  std::byte a[sizeof(T)], b[sizeof(T)];
  std::memcpy(a, &left, sizeof left);
  std::memcpy(b, &right, sizeof right);
  combine(type, reduction, a, b);
  std::memcpy(&left, a, sizeof left);
  return left;
}

template <typename T> T divided(ElementType type, T value, int64_t divisor) {
  std::byte bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof value);
  divide(type, bytes, divisor);
  std::memcpy(&value, bytes, sizeof value);
  return value;
}
} // namespace

TEST(Element, EveryHalfAndBfloat16WidensExactlyAndRoundsBackToItself) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    float half = floatFromHalf(bits), bfloat = floatFromBfloat16(bits);
    if (std::isnan(half)) {
      EXPECT_TRUE(std::isnan(floatFromHalf(halfFromFloat(half))));
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(half), std::bit_cast<uint32_t>(widened(bits, llvm::APFloat::IEEEhalf())));
      EXPECT_EQ(halfFromFloat(half), bits);
    }
    if (std::isnan(bfloat)) {
      EXPECT_TRUE(std::isnan(floatFromBfloat16(bfloat16FromFloat(bfloat))));
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(bfloat), std::bit_cast<uint32_t>(widened(bits, llvm::APFloat::BFloat())));
      EXPECT_EQ(bfloat16FromFloat(bfloat), bits);
    }
  }
}

TEST(Element, FloatsRoundToNearestEven) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300000; ++trial) {
    // Random bits; every third keeps few low bits, to meet ties, every third lies near the range of a half.
    uint32_t bits = random();
    if (trial % 3 == 1)
      bits &= 0xfffff000u;
    if (trial % 3 == 2)
      bits = (bits & 0x807fffffu) | (96 + random() % 50) << 23;
    float value = std::bit_cast<float>(bits);
    if (std::isnan(value))
      continue;
    ASSERT_EQ(halfFromFloat(value), rounded(value, llvm::APFloat::IEEEhalf())) << bits;
    ASSERT_EQ(bfloat16FromFloat(value), rounded(value, llvm::APFloat::BFloat())) << bits;
  }
}

TEST(Element, HalvesAreAddedInF32AndRoundedOnce) {
  EXPECT_EQ(combined<uint16_t>(ElementType::F16, Reduction::Sum, 0x3c00, 0x3c00), 0x4000);     // 1 + 1
  EXPECT_EQ(combined<uint16_t>(ElementType::F16, Reduction::Sum, 0x6800, 0x3c00), 0x6800);     // 2048 + 1, a tie
  EXPECT_EQ(combined<uint16_t>(ElementType::BF16, Reduction::Sum, 0x4380, 0x3f80), 0x4380);    // 256 + 1, a tie
  EXPECT_EQ(combined<uint16_t>(ElementType::F16, Reduction::Product, 0x7bff, 0x4000), 0x7c00); // overflows
}

TEST(Element, IntegersWrap) {
  EXPECT_EQ(combined<int8_t>(ElementType::I8, Reduction::Sum, 127, 2), -127);
  EXPECT_EQ(combined<uint8_t>(ElementType::U8, Reduction::Product, 16, 17), 16);
  EXPECT_EQ(combined<int32_t>(ElementType::I32, Reduction::Sum, INT32_MAX, 1), INT32_MIN);
  EXPECT_EQ(combined<int64_t>(ElementType::I64, Reduction::Product, INT64_MIN, 3), INT64_MIN);
}

TEST(Element, MinAndMaxKnowSigns) {
  EXPECT_EQ(combined<int8_t>(ElementType::I8, Reduction::Min, -1, 1), -1);
  EXPECT_EQ(combined<uint8_t>(ElementType::U8, Reduction::Min, 255, 1), 1);
  EXPECT_EQ(combined<uint64_t>(ElementType::U64, Reduction::Max, UINT64_MAX, 1), UINT64_MAX);
  EXPECT_EQ(combined<float>(ElementType::F32, Reduction::Max, -2, -3), -2);
}

template <typename T> void checkSpecial(ElementType type, T minusZero, T one, T infinity, std::vector<T> nans) {
  T zero = 0, minusInfinity = infinity | minusZero, nan = nans.front();
  for (auto [left, right] : {std::pair(zero, minusZero), {minusZero, zero}}) {
    EXPECT_EQ(combined(type, Reduction::Min, left, right), minusZero) << nameOf(type).str();
    EXPECT_EQ(combined(type, Reduction::Max, left, right), zero) << nameOf(type).str();
  }
  EXPECT_EQ(combined(type, Reduction::Sum, infinity, minusInfinity), nan);
  EXPECT_EQ(combined(type, Reduction::Product, minusZero, infinity), nan);
  for (T any : nans) {
    for (Reduction reduction : allReductions)
      for (T other : {zero, minusZero, one, infinity, minusInfinity, nan, nans.back()}) {
        EXPECT_EQ(combined(type, reduction, any, other), nan) << nameOf(type).str() << " " << nameOf(reduction).str();
        EXPECT_EQ(combined(type, reduction, other, any), nan) << nameOf(type).str() << " " << nameOf(reduction).str();
      }
    EXPECT_EQ(divided(type, any, 2), nan);
  }
}

TEST(Element, ANanWinsHasOneFormAndMinusZeroIsBelowZero) {
  // A quiet one without payload; negative; with payload; one that signals.
  checkSpecial<uint16_t>(ElementType::F16, 0x8000, 0x3c00, 0x7c00, {0x7e00, 0xfe00, 0x7e12, 0xfc01});
  checkSpecial<uint16_t>(ElementType::BF16, 0x8000, 0x3f80, 0x7f80, {0x7fc0, 0xffc0, 0x7fd2, 0xff81});
  checkSpecial<uint32_t>(ElementType::F32, 0x80000000, 0x3f800000, 0x7f800000,
                         {0x7fc00000, 0xffc00000, 0x7fc00123, 0xff800001});
  checkSpecial<uint64_t>(ElementType::F64, uint64_t(1) << 63, 0x3ff0000000000000, 0x7ff0000000000000,
                         {0x7ff8000000000000, 0xfff8000000000000, 0x7ff8000000000123, 0xfff0000000000001});
}

TEST(Element, AveragesTruncateIntegersTowardsZeroAndRoundFloats) {
  EXPECT_EQ(divided<int32_t>(ElementType::I32, -7, 2), -3);
  EXPECT_EQ(divided<int8_t>(ElementType::I8, -128, 300), 0);
  EXPECT_EQ(divided<uint64_t>(ElementType::U64, UINT64_MAX, 2), UINT64_MAX / 2);
  EXPECT_EQ(divided<float>(ElementType::F32, 1, 3), 1.0f / 3.0f);
  EXPECT_EQ(divided<double>(ElementType::F64, 1, 3), 1.0 / 3.0);
  EXPECT_EQ(divided<uint16_t>(ElementType::F16, 0x3c00, 3), 0x3555);
  EXPECT_EQ(divided<uint16_t>(ElementType::BF16, 0x3f80, 3), 0x3eab);
}
