// The table of presets: a new one is a line here and a line in kolo/dsl/Codec.h.
#include "codec/Presets.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace kolo::codec {

std::span<const Preset> presets() {
  static const std::array table = {Preset{"none", dsl::none(), false, "elements as the call gives them"},
                                   Preset{"f32", dsl::f32(), false, "exact accumulator of a call with f16 or bf16"},
                                   Preset{"f16", dsl::f16(), false, "activations"},
                                   Preset{"bf16", dsl::bf16(), false, "gradients of f32"},
                                   Preset{"e4m3", dsl::e4m3(), true, "DeepEP (128), FlashInfer (256)"},
                                   Preset{"e5m2", dsl::e5m2(), true, "FP8 with more range"},
                                   Preset{"mxfp8", dsl::mxfp8(), false, "OCP MX 1.0"},
                                   Preset{"mxfp6", dsl::mxfp6(), false, "OCP MX 1.0"},
                                   Preset{"mxfp4", dsl::mxfp4(), false, "OCP MX 1.0"},
                                   Preset{"mxint8", dsl::mxint8(), false, "OCP MX 1.0"},
                                   Preset{"nvfp4", dsl::nvfp4(), false, "NVIDIA"},
                                   Preset{"fp4", dsl::fp4(), true, "QuickReduce on MI355"},
                                   Preset{"int8", dsl::int8(), true, "the default of shipped algorithms"},
                                   Preset{"int4", dsl::int4(), true, "ZeRO++ qgZ"},
                                   Preset{"quick8", dsl::quick8(), false, "QuickReduce"},
                                   Preset{"quick6", dsl::quick6(), false, "QuickReduce"},
                                   Preset{"quick4", dsl::quick4(), false, "QuickReduce"},
                                   Preset{"sign", dsl::sign(), true, "1-bit Adam"}};
  return table;
}

/// The preset with another block.
static Codec withBlock(const Preset &preset, int block) {
  return preset.codec.per(block, preset.codec.scale(), preset.codec.rule());
}

std::optional<Codec> parse(std::string_view text) {
  size_t open = std::min(text.find('('), text.size());
  std::string_view name = text.substr(0, open), argument = text.substr(open);
  auto found = std::ranges::find(presets(), name, &Preset::name);
  if (found == presets().end())
    return parseText(text);
  if (argument.empty() || argument == "()")
    return found->codec;
  int block = 0;
  auto [end, error] = std::from_chars(argument.data() + 1, argument.data() + argument.size(), block);
  bool isWhole = error == std::errc() && std::string_view(end, argument.data() + argument.size()) == ")";
  return isWhole && found->takesBlock ? std::optional(withBlock(*found, block)) : std::nullopt;
}

/// The preset that the codec is, for its own block.
static const Preset *findPreset(const Codec &codec) {
  auto found = std::ranges::find_if(presets(), [&](const Preset &preset) {
    return preset.codec == codec || (preset.takesBlock && withBlock(preset, codec.block()) == codec);
  });
  return found == presets().end() ? nullptr : &*found;
}

static std::string callOf(const Preset &preset, const Codec &codec) {
  return std::string(preset.name) + (preset.takesBlock ? "(" + std::to_string(codec.block()) + ")" : "");
}

std::string nameOf(const Codec &codec) {
  const Preset *preset = findPreset(codec);
  return preset ? callOf(*preset, codec) : textOf(codec);
}

/// In C++, of a number that `textOf` wrote.
static std::string levelsSource(const Codec &codec) {
  std::string text = textOf(codec);
  return "levels({" + text.substr(text.find('[') + 1, text.find(']') - text.find('[') - 1) + "})";
}

std::string sourceOf(const Codec &codec) {
  static constexpr std::array elements = {"None", "F32",  "F16", "BF16", "E4M3", "E5M2", "E3M2",
                                          "E2M3", "E2M1", "I8",  "I6",   "I4",   "Sign", "Levels"};
  static constexpr std::array scales = {"None", "F32", "F16", "BF16", "E4M3", "E8M0"};
  static constexpr std::array rules = {"Fit", "Full", "Signed", "Power", "Mean"};
  if (const Preset *preset = findPreset(codec))
    return callOf(*preset, codec) + (preset->takesBlock ? "" : "()");
  std::string text = codec.element() == Element::Levels
                         ? levelsSource(codec)
                         : "Codec(Element::" + std::string(elements[size_t(codec.element())]) + ")";
  if (codec.block() != 0)
    text += ".per(" + std::to_string(codec.block()) + ", Scale::" + scales[size_t(codec.scale())] +
            ", Rule::" + rules[size_t(codec.rule())] + ")";
  return text + (codec.isStochastic() ? ".stochastic()" : "");
}

} // namespace kolo::codec
