// Names and texts of codecs, and what is no codec.
#include "codec/Presets.h"

#include <cmath>
#include <gtest/gtest.h>
#include <set>

namespace kolo::codec {
namespace {

using dsl::levels;

TEST(CodecText, EveryPresetIsACodecAndReadsBack) {
  for (const Preset &preset : presets()) {
    EXPECT_EQ(findMistake(preset.codec), "") << preset.name;
    EXPECT_EQ(parse(preset.name), preset.codec);
    EXPECT_EQ(parse(nameOf(preset.codec)), preset.codec);
    EXPECT_EQ(parseText(textOf(preset.codec)), preset.codec);
    EXPECT_EQ(nameOf(preset.codec).substr(0, preset.name.size()), preset.name);
  }
}

TEST(CodecText, APresetMayHaveAnotherBlock) {
  EXPECT_EQ(parse("int8(64)"), dsl::int8(64));
  EXPECT_EQ(nameOf(dsl::int8(64)), "int8(64)");
  EXPECT_EQ(parse("mxfp8()"), dsl::mxfp8());
  for (const char *text : {"mxfp8(64)", "int8(", "int8(64", "int8(x)", "int8(64))", "int9", "", "i8 per", "i8 per 32",
                           "i8 per 32 scale f16 fit fast", "levels [1", "levels [1 2]", "i8, per 32"})
    EXPECT_EQ(parse(text), std::nullopt) << text;
}

TEST(CodecText, CppMakesTheSameCodec) {
  EXPECT_EQ(sourceOf(dsl::int8()), "int8(256)");
  EXPECT_EQ(sourceOf(dsl::mxfp4()), "mxfp4()");
  EXPECT_EQ(sourceOf(dsl::int8(256, Rule::Full).stochastic()),
            "Codec(Element::I8).per(256, Scale::F32, Rule::Full).stochastic()");
  EXPECT_EQ(sourceOf(levels({-1, 0, 0.25f}).per(64, Scale::BF16)),
            "levels({-1, 0, 0.25}).per(64, Scale::BF16, Rule::Fit)");
}

TEST(CodecText, MistakesAreNamed) {
  auto mistake = [](const Codec &codec) { return findMistake(codec); };
  EXPECT_EQ(mistake(dsl::int8(48)), "has a block of 48; a block is a power of two from 16 to 1024");
  EXPECT_EQ(mistake(dsl::int8(2048)), "has a block of 2048; a block is a power of two from 16 to 1024");
  EXPECT_EQ(mistake(dsl::int8(-16)), "has a block of -16; a block is a power of two from 16 to 1024");
  EXPECT_EQ(mistake(dsl::bf16().per(32)), "has a scale, but bf16 is a cast");
  EXPECT_EQ(mistake(dsl::none().stochastic()), "has a scale or a rounding, but no element");
  EXPECT_EQ(mistake(Codec(Element::I8)), "has no scale, which i8 needs: per(block)");
  EXPECT_EQ(mistake(Codec(Element::I8).per(0)), "has no scale, which i8 needs: per(block)");
  EXPECT_EQ(mistake(Codec(Element::I8).per(32, Scale::None)), "has a block, but no scale");
  EXPECT_EQ(mistake(dsl::e4m3(32).per(32, Scale::F32, Rule::Full)), "has the rule full, which e4m3 cannot have");
  EXPECT_EQ(mistake(Codec(Element::Sign).per(32)), "has the rule fit, which sign cannot have");
  EXPECT_EQ(mistake(Codec(Element::I8).per(32, Scale::E8M0)),
            "has the rule fit and a scale of type e8m0; the rule power and the type e8m0 come together");
  EXPECT_EQ(mistake(Codec(Element::I4).per(32, Scale::E4M3, Rule::Full)),
            "has the rule full and a scale of type e4m3, which needs fit");
  EXPECT_EQ(mistake(levels({-1, 1}).per(32)), "has no level 0");
  EXPECT_EQ(mistake(levels({0, 1, 0.5f}).per(32)), "has level 0.5 after 1; levels increase");
  EXPECT_EQ(mistake(levels({0}).per(32)), "has a table of 1 levels; a table has 2 to 16");
  EXPECT_EQ(mistake(levels({0, INFINITY}).per(32)), "has a level that is no number");
}

TEST(CodecText, CodecsAreEqualIfTheyStoreElementsAlike) {
  EXPECT_EQ(dsl::int8(256), Codec(Element::I8).per(256, Scale::F32, Rule::Fit));
  std::set<std::string> texts;
  for (const Preset &preset : presets())
    EXPECT_TRUE(texts.insert(textOf(preset.codec)).second) << preset.name;
  EXPECT_NE(dsl::int8(), dsl::int8().stochastic());
  EXPECT_NE(levels({0, 1}).per(32), levels({0, 2}).per(32));
}

} // namespace
} // namespace kolo::codec
