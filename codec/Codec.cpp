// Rules of codecs, sizes of encoded memory, and the text of a codec.
#include "codec/Codec.h"

#include "codec/Elements.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>

namespace kolo::codec {

std::string textOf(float value) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

namespace {

constexpr std::array elementNames = {"none", "f32",  "f16", "bf16", "e4m3", "e5m2", "e3m2",
                                     "e2m3", "e2m1", "i8",  "i6",   "i4",   "sign", "levels"};
constexpr std::array scaleNames = {"none", "f32", "f16", "bf16", "e4m3", "e8m0"};
constexpr std::array ruleNames = {"fit", "full", "signed", "power", "mean"};

template <typename Enum, size_t N>
std::optional<Enum> valueNamed(const std::array<const char *, N> &names, std::string_view name) {
  auto found = std::ranges::find(names, name);
  return found == names.end() ? std::nullopt : std::optional(Enum(found - names.begin()));
}

std::string nameOf(Element element) { return elementNames[size_t(element)]; }
std::string nameOf(Scale scale) { return scaleNames[size_t(scale)]; }
std::string nameOf(Rule rule) { return ruleNames[size_t(rule)]; }

std::string findLevelMistake(const std::vector<float> &levels) {
  if (levels.size() < 2 || levels.size() > 16)
    return "has a table of " + std::to_string(levels.size()) + " levels; a table has 2 to 16";
  if (!std::ranges::all_of(levels, [](float level) { return std::isfinite(level); }))
    return "has a level that is no number";
  for (size_t i = 1; i < levels.size(); ++i)
    if (levels[i] <= levels[i - 1])
      return "has level " + textOf(levels[i]) + " after " + textOf(levels[i - 1]) + "; levels increase";
  return std::ranges::find(levels, 0.0f) == levels.end() ? "has no level 0" : "";
}

std::string findCastMistake(const Codec &codec) {
  bool canCast = codec.element() <= Element::E5M2;
  if (!canCast)
    return "has no scale, which " + nameOf(codec.element()) + " needs: per(block)";
  return codec.scale() != Scale::None || codec.rule() != Rule::Fit ? "has a scale, but no block that it is for" : "";
}

bool suits(Element element, Rule rule) {
  switch (rule) {
  case Rule::Fit:
    return element != Element::Sign;
  case Rule::Full:
  case Rule::Signed:
    return isInteger(element);
  case Rule::Power:
    return isNarrowFloat(element) || element == Element::I8;
  case Rule::Mean:
    return element == Element::Sign;
  }
  return false;
}

} // namespace

std::string findMistake(const Codec &codec) {
  Element element = codec.element();
  if (std::string mistake = element == Element::Levels ? findLevelMistake(codec.levels()) : ""; !mistake.empty())
    return mistake;
  if (isNone(codec) && (codec.block() != 0 || codec.isStochastic()))
    return "has a scale or a rounding, but no element";
  if (codec.block() == 0)
    return findCastMistake(codec);
  if (element <= Element::BF16)
    return "has a scale, but " + nameOf(element) + " is a cast";
  if (codec.block() < 16 || codec.block() > granule || !std::has_single_bit(unsigned(codec.block())))
    return "has a block of " + std::to_string(codec.block()) + "; a block is a power of two from 16 to 1024";
  if (codec.scale() == Scale::None)
    return "has a block, but no scale";
  if (!suits(element, codec.rule()))
    return "has the rule " + nameOf(codec.rule()) + ", which " + nameOf(element) + " cannot have";
  if ((codec.rule() == Rule::Power) != (codec.scale() == Scale::E8M0))
    return "has the rule " + nameOf(codec.rule()) + " and a scale of type " + nameOf(codec.scale()) +
           "; the rule power and the type e8m0 come together";
  bool hasSmallLevels = element == Element::Levels && std::max(-codec.levels().front(), codec.levels().back()) < 0x1p-8;
  if (codec.scale() == Scale::E4M3 && hasSmallLevels)
    return "has no level of 1/256 or more, which a scale of type e4m3 needs to fit f32";
  if (codec.scale() == Scale::E4M3 && codec.rule() != Rule::Fit)
    return "has the rule " + nameOf(codec.rule()) + " and a scale of type e4m3, which needs fit";
  return "";
}

int64_t bytesOf(Scale scale) {
  switch (scale) {
  case Scale::None:
    return 0;
  case Scale::F32:
    return 4;
  case Scale::F16:
  case Scale::BF16:
    return 2;
  case Scale::E4M3:
  case Scale::E8M0:
    return 1;
  }
  return 0;
}

static int64_t round16(int64_t bytes) { return (bytes + 15) / 16 * 16; }

/// Of 0 < elements <= granule.
static int64_t granuleBytes(const Codec &codec, int64_t elements) {
  int64_t codes = round16((elements * bitsOf(codec.element()) + 7) / 8);
  if (!isScaled(codec))
    return codes;
  int64_t scales = (elements + codec.block() - 1) / codec.block() * bytesOf(codec.scale());
  return codes + round16(scales) + (codec.scale() == Scale::E4M3 ? 16 : 0);
}

int64_t bytes(const Codec &codec, int64_t elements) {
  int64_t rest = elements % granule;
  return elements / granule * granuleBytes(codec, granule) + (rest > 0 ? granuleBytes(codec, rest) : 0);
}

double bitsPerElement(const Codec &codec) { return double(granuleBytes(codec, granule)) * 8 / granule; }

std::string textOf(const Codec &codec) {
  std::string text = nameOf(codec.element());
  if (codec.element() == Element::Levels) {
    text += " [";
    for (size_t i = 0; i < codec.levels().size(); ++i)
      text += (i > 0 ? ", " : "") + textOf(codec.levels()[i]);
    text += "]";
  }
  if (codec.block() != 0)
    text += " per " + std::to_string(codec.block()) + " scale " + nameOf(codec.scale()) + " " + nameOf(codec.rule());
  return text + (codec.isStochastic() ? " stochastic" : "");
}

namespace {

/// Takes words and numbers off the front of a text. Any failure makes `isGood` false for good.
struct TextReader {
  std::string_view rest;
  bool isGood = true;

  void skipSpaces() {
    while (rest.starts_with(' '))
      rest.remove_prefix(1);
  }
  bool takes(std::string_view token) {
    skipSpaces();
    bool does = rest.starts_with(token);
    if (does)
      rest.remove_prefix(token.size());
    return does;
  }
  void expect(std::string_view token) { isGood &= takes(token); }
  std::string_view word() {
    skipSpaces();
    size_t end = 0;
    while (end < rest.size() && std::isalnum(static_cast<unsigned char>(rest[end])))
      ++end;
    std::string_view result = rest.substr(0, end);
    rest.remove_prefix(end);
    return result;
  }
  template <typename Number> Number number() {
    skipSpaces();
    Number value = 0;
    auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    isGood &= error == std::errc();
    rest.remove_prefix(size_t(end - rest.data()));
    return value;
  }
  template <typename Enum, size_t N> Enum name(const std::array<const char *, N> &names) {
    std::optional<Enum> value = valueNamed<Enum>(names, word());
    isGood &= value.has_value();
    return value.value_or(Enum(0));
  }
};

} // namespace

std::optional<Codec> parseText(std::string_view text) {
  TextReader reader{text};
  Codec codec(reader.name<Element>(elementNames));
  if (codec.element() == Element::Levels) {
    std::vector<float> levels;
    reader.expect("[");
    while (reader.isGood && !reader.takes("]")) {
      if (!levels.empty())
        reader.expect(",");
      levels.push_back(reader.number<float>());
    }
    codec = Codec(std::move(levels));
  }
  if (reader.takes("per")) {
    int block = reader.number<int>();
    reader.expect("scale");
    Scale scale = reader.name<Scale>(scaleNames);
    codec = codec.per(block, scale, reader.name<Rule>(ruleNames));
  }
  if (reader.takes("stochastic"))
    codec = codec.stochastic();
  reader.skipSpaces();
  return reader.isGood && reader.rest.empty() ? std::optional(codec) : std::nullopt;
}

} // namespace kolo::codec
