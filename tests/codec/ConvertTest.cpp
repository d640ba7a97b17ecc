// What holds of every codec: special values, bounds, quality, sizes, and independence of what lies beside a block.
#include "codec/Convert.h"
#include "codec/Elements.h"
#include "codec/Presets.h"
#include "codec/Quality.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>

namespace kolo::codec {
namespace {

using dsl::levels;

std::vector<Codec> codecs() {
  std::vector<Codec> result;
  for (const Preset &preset : presets())
    if (!isNone(preset.codec))
      result.push_back(preset.codec);
  for (const Codec &codec : {dsl::int8(64), dsl::int8(1024, Rule::Full), Codec(Element::I4).per(32, Scale::BF16),
                             Codec(Element::E3M2).per(128, Scale::F16), dsl::e4m3(16).stochastic(),
                             dsl::quick4().stochastic(), levels({-1, -0.25f, 0, 0.5f, 1}).per(64, Scale::BF16)})
    result.push_back(codec);
  return result;
}

std::vector<float> roundTrip(const Codec &codec, const std::vector<float> &values) {
  std::vector<std::byte> encoded(size_t(bytes(codec, int64_t(values.size()))));
  std::vector<float> decoded(values.size());
  encode(codec, values, encoded);
  decode(codec, encoded, decoded);
  return decoded;
}

TEST(Codec, ABlockOfZerosDecodesToZeros) {
  for (const Codec &codec : codecs())
    for (float value : roundTrip(codec, std::vector<float>(1500, 0.0f)))
      ASSERT_EQ(value, 0) << nameOf(codec);
}

TEST(Codec, ABlockWithANanOrAnInfinityDecodesToNanAndItsNeighboursDoNot) {
  for (const Codec &codec : codecs()) {
    if (!isScaled(codec) || codec.block() > 512)
      continue;
    for (float special : {NAN, INFINITY, -INFINITY}) {
      std::vector<float> values(1024, 1.0f);
      auto block = size_t(codec.block());
      values[block + 3] = special;
      std::vector<float> decoded = roundTrip(codec, values);
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(std::isnan(decoded[i]), i / block == 1) << nameOf(codec) << " " << i;
    }
  }
}

TEST(Codec, AnErrorIsAtMostTheBoundAndReachesAQuarterOfIt) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (const Codec &codec : codecs()) {
    double worst = 0, bound = worstError(codec);
    for (int round = 0; round < 200; ++round) {
      std::vector<float> values(1024);
      std::ranges::generate(values, [&] { return uniform(random); });
      if (round % 2 == 1) // also blocks whose largest element stands alone
        for (float &value : values)
          value = value * value * value * value;
      std::vector<float> decoded = roundTrip(codec, values);
      size_t block = codec.scale() == Scale::E4M3 ? 1024 : size_t(codec.block());
      for (size_t i = 0; i < values.size(); ++i) {
        double largest = std::fabs(values[i]);
        if (block > 0)
          for (size_t j = i / block * block; j < (i / block + 1) * block && round == 0; ++j)
            largest = std::max(largest, double(std::fabs(values[j])));
        if (block > 0 && round > 0)
          largest = 1;
        if (largest > 0x1p-14) // of casts: their normal range
          worst = std::max(worst, std::fabs(double(values[i]) - double(decoded[i])) / largest);
      }
    }
    EXPECT_LE(worst, bound * (1 + 1e-5)) << nameOf(codec);
    EXPECT_GE(worst, bound / 4) << nameOf(codec);
  }
}

/// Numbers of every size that f32 has. Beyond the codec's largest input an element may be no number, but never another
/// one than the bound allows.
TEST(Codec, TheBoundHoldsForEveryFiniteNumber) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<Codec> all = codecs();
  for (Element element : {Element::E4M3, Element::E5M2}) // casts
    all.emplace_back(element);
  for (const Codec &codec : all) {
    double u = worstError(codec) * (1 + 1e-5), w = leastError(codec), limit = largestInput(codec);
    size_t block = !isScaled(codec) ? 1 : codec.scale() == Scale::E4M3 ? 1024 : size_t(codec.block());
    int numFlagged = 0;
    for (int exponent = -148; exponent <= 128; exponent += 3) {
      std::vector<float> values(1024);
      auto draw = [&] {
        double value = std::ldexp(uniform(random), exponent), largest = std::numeric_limits<float>::max();
        return float(std::clamp(value, -largest, largest));
      };
      std::ranges::generate(values, draw);
      std::vector<float> decoded = roundTrip(codec, values);
      for (size_t i = 0; i < values.size(); ++i) {
        auto ofBlock = std::span(values).subspan(i / block * block, block);
        double largest = std::fabs(std::ranges::max(ofBlock, {}, [](float value) { return std::fabs(value); }));
        if (!std::isfinite(decoded[i]) && ++numFlagged)
          ASSERT_GT(largest, limit) << nameOf(codec) << " of 2^" << exponent;
        else
          ASSERT_LE(std::fabs(double(decoded[i]) - double(values[i])), u * largest + w)
              << nameOf(codec) << " of 2^" << exponent;
      }
    }
    EXPECT_TRUE(numFlagged > 0 || limit > 1e37) << nameOf(codec);
  }
}

TEST(Codec, QualityIsWhatTheTableSays) {
  struct Row {
    Codec codec;
    double normal, laplace;
  };
  for (const Row &row :
       {Row{dsl::bf16(), 55.6, 55.6}, Row{dsl::f16(), 73.7, 73.7}, Row{dsl::e4m3(128), 31.8, 32.1},
        Row{dsl::e4m3(256), 31.7, 31.9}, Row{dsl::e5m2(128), 25.8, 26.1}, Row{dsl::mxfp8(), 30.7, 30.0},
        Row{dsl::mxfp6(), 31.0, 30.3}, Row{dsl::mxfp4(), 18.8, 18.0}, Row{dsl::mxint8(), 41.7, 40.0},
        Row{dsl::nvfp4(), 20.4, 20.7}, Row{dsl::fp4(32), 19.9, 19.8}, Row{dsl::int8(256), 43.2, 40.0},
        Row{dsl::int8(1024, Rule::Full), 42.1, 38.3}, Row{dsl::int4(256), 19.0, 15.9},
        Row{dsl::int4(256, Rule::Fit), 18.0, 14.9}, Row{dsl::quick8(), 45.5, 43.5}, Row{dsl::quick6(), 33.4, 31.5},
        Row{dsl::quick4(), 21.3, 19.4}, Row{dsl::sign(1024), 4.4, 3.0}}) {
    EXPECT_NEAR(signalToNoise(row.codec, Distribution::Normal, 1 << 20), row.normal, 0.1) << nameOf(row.codec);
    EXPECT_NEAR(signalToNoise(row.codec, Distribution::Laplace, 1 << 20), row.laplace, 0.1) << nameOf(row.codec);
  }
}

TEST(Codec, StochasticRoundingCostsThreeDecibelAndHasNoBias) {
  double nearest = signalToNoise(dsl::int8(), Distribution::Normal, 1 << 18);
  EXPECT_NEAR(signalToNoise(dsl::int8().stochastic(), Distribution::Normal, 1 << 18), nearest - 3.0, 0.1);

  std::vector<float> values(1 << 18, 0.3f);
  for (size_t i = 0; i < values.size(); i += 256)
    values[i] = 1;
  double sum = 0;
  for (float value : roundTrip(Codec(Element::I4).per(256).stochastic(), values))
    sum += double(value);
  double expected = 0.3 * double(values.size()) + 0.7 * std::floor(double(values.size()) / 256);
  EXPECT_NEAR(sum / expected, 1, 1e-3);
}

TEST(Codec, AStochasticEncodingDependsOnCallRankAndElement) {
  Codec codec = dsl::int8().stochastic();
  std::vector<float> values(1024);
  std::ranges::generate(values, [n = 0]() mutable { return float(n++ % 97) * 0.0123f; });
  auto encodeAt = [&](DrawKey key) {
    std::vector<std::byte> encoded(size_t(bytes(codec, 1024)));
    encode(codec, values, encoded, key);
    return encoded;
  };
  auto first = encodeAt({1, 2, 3});
  EXPECT_EQ(first, encodeAt({1, 2, 3}));
  for (DrawKey other : {DrawKey{2, 2, 3}, DrawKey{1, 3, 3}, DrawKey{1, 2, 1027}, DrawKey{uint64_t(1) << 32 | 1, 2, 3}})
    EXPECT_NE(first, encodeAt(other));
}

/// A granule is encoded by itself, so a piece may end anywhere at a multiple of 1024.
TEST(Codec, PiecesAtMultiplesOfTheGranuleGiveTheSameBytes) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const Codec &codec : codecs())
    for (int64_t count : {1025, 3000, 4096}) {
      std::vector<float> values{};
      std::generate_n(std::back_inserter(values), count, [&] { return normal(random); });
      std::vector<std::byte> whole(size_t(bytes(codec, count))), cut(whole.size());
      encode(codec, values, whole);
      size_t first = size_t(bytes(codec, granule));
      encode(codec, std::span(values).first(size_t(granule)), std::span(cut).first(first));
      encode(codec, std::span(values).subspan(size_t(granule)), std::span(cut).subspan(first), {0, 0, granule});
      ASSERT_EQ(whole, cut) << nameOf(codec);
    }
}

/// With inputs that are factors of +-127, sums are exact: the same integers times the sum of the factors.
TEST(Codec, MultiplesOfIntegersWithTheLargestCodeInEveryBlockAreExact) {
  for (const Codec &codec : {dsl::int8(), dsl::int8(32), Codec(Element::I8).per(128, Scale::F16)})
    for (int factor : {1, 2, 3, 7, 29, 120}) {
      std::vector<float> values(2000);
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = float(factor * (i % 16 == 0 ? 127 : int(i * 37 % 255) - 127));
      ASSERT_EQ(roundTrip(codec, values), values) << nameOf(codec) << " " << factor;
    }
}

TEST(Codec, AGranuleHasTheBytesOfTheTable) {
  using Row = std::pair<Codec, int64_t>;
  for (const auto &[codec, size] :
       {Row{dsl::int8(), 1040}, Row{Codec(Element::I8).per(32, Scale::F16), 1088},
        Row{Codec(Element::I6).per(32, Scale::F16), 832}, Row{dsl::quick4(), 576}, Row{dsl::mxfp8(), 1056},
        Row{dsl::mxfp6(), 800}, Row{dsl::mxfp4(), 544}, Row{dsl::nvfp4(), 592}, Row{dsl::e4m3(128), 1056},
        Row{dsl::sign(1024), 144}, Row{dsl::bf16(), 2048}, Row{dsl::f32(), 4096}}) {
    EXPECT_EQ(bytes(codec, 1024), size) << nameOf(codec);
    EXPECT_EQ(bytes(codec, 3 * 1024), 3 * size) << nameOf(codec);
    EXPECT_EQ(bytes(codec, 0), 0);
  }
  EXPECT_EQ(bytes(dsl::int8(), 1025), 1040 + 16 + 16);
  EXPECT_EQ(bytes(dsl::mxfp6(), 21), 16 + 16);
  EXPECT_EQ(bytes(dsl::nvfp4(), 17), 16 + 16 + 16);
  EXPECT_DOUBLE_EQ(bitsPerElement(dsl::nvfp4()), 4.625);
}

} // namespace
} // namespace kolo::codec
