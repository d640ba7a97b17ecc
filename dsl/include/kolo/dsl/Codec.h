// How the elements of a buffer are stored: see dsl/README.md for what it means, codec/README.md for the arithmetic.
#pragma once

#include <utility>
#include <vector>

namespace kolo::dsl {

/// What one element becomes. `None`: it stays as the call gives it. `Sign`: 1 bit. `Levels`: an index of a table.
enum class Element { None, F32, F16, BF16, E4M3, E5M2, E3M2, E2M3, E2M1, I8, I6, I4, Sign, Levels };

/// How the scale of a block is stored. An E4M3 scale is in units of one f32 per 1024 elements.
enum class Scale { None, F32, F16, BF16, E4M3, E8M0 };

/// The scale s of a block whose largest magnitude is A, for codes of b bits and the largest value q.
enum class Rule {
  Fit,    ///< A / q
  Full,   ///< A / 2^(b-1), with codes from -2^(b-1) to 2^(b-1)-1
  Signed, ///< -m / 2^(b-1), m being the element of largest magnitude with its sign
  Power,  ///< a power of two, as OCP MX has it
  Mean    ///< the mean magnitude, of `Sign` alone
};

/// A value; two codecs are equal if they store elements alike. A mistake in one is reported where a buffer gets it.
class Codec {
public:
  explicit Codec(Element element) : elementKind(element) {}
  /// The levels are increasing, at most 16, and 0 is one of them.
  explicit Codec(std::vector<float> levels) : elementKind(Element::Levels), levelTable(std::move(levels)) {}

  /// One scale for every `block` elements: 16 to 1024, a power of two.
  Codec per(int block, Scale scale = Scale::F32, Rule rule = Rule::Fit) const {
    Codec result = copy();
    result.blockSize = block;
    result.scaleType = scale;
    result.scaleRule = rule;
    return result;
  }
  /// Rounds at random to one of the two neighbours, by a hash of call, rank and element, instead of to the nearest.
  Codec stochastic() const {
    Codec result = copy();
    result.isRandom = true;
    return result;
  }

  Element element() const { return elementKind; }
  int block() const { return blockSize; } ///< 0: no scale, a cast.
  Scale scale() const { return scaleType; }
  Rule rule() const { return scaleRule; }
  bool isStochastic() const { return isRandom; }
  const std::vector<float> &levels() const { return levelTable; }

  friend bool operator==(const Codec &a, const Codec &b) {
    return a.elementKind == b.elementKind && a.blockSize == b.blockSize && a.scaleType == b.scaleType &&
           a.scaleRule == b.scaleRule && a.isRandom == b.isRandom && a.levelTable == b.levelTable;
  }

private:
  friend class Choreography;
  friend class Buffer;
  Codec copy() const {
    Codec result = *this;
    result.parameter = -1;
    return result;
  }
  Element elementKind;
  int blockSize = 0;
  Scale scaleType = Scale::None;
  Rule scaleRule = Rule::Fit;
  bool isRandom = false;
  std::vector<float> levelTable = {};
  int parameter = -1; // of the choreography that gave this codec; -1: none
};

/// A table of levels: `levels({-1, -0.5, 0, 0.5, 1}).per(64, Scale::BF16)`.
inline Codec levels(std::vector<float> table) { return Codec(std::move(table)); }

// Presets, by the names under which they are published. codec/Presets.cpp lists them for the command line.
inline Codec none() { return Codec(Element::None); }
inline Codec f32() { return Codec(Element::F32); } ///< The exact accumulator of a call with f16 or bf16.
inline Codec f16() { return Codec(Element::F16); }
inline Codec bf16() { return Codec(Element::BF16); }
inline Codec e4m3(int block = 128) { return Codec(Element::E4M3).per(block); }
inline Codec e5m2(int block = 128) { return Codec(Element::E5M2).per(block); }
inline Codec mxfp8() { return Codec(Element::E4M3).per(32, Scale::E8M0, Rule::Power); }
inline Codec mxfp6() { return Codec(Element::E2M3).per(32, Scale::E8M0, Rule::Power); }
inline Codec mxfp4() { return Codec(Element::E2M1).per(32, Scale::E8M0, Rule::Power); }
inline Codec mxint8() { return Codec(Element::I8).per(32, Scale::E8M0, Rule::Power); }
inline Codec nvfp4() { return Codec(Element::E2M1).per(16, Scale::E4M3); }
inline Codec fp4(int block = 32) { return Codec(Element::E2M1).per(block, Scale::F16); }
inline Codec int8(int block = 256, Rule rule = Rule::Fit) { return Codec(Element::I8).per(block, Scale::F32, rule); }
inline Codec int4(int block = 256, Rule rule = Rule::Full) { return Codec(Element::I4).per(block, Scale::F32, rule); }
inline Codec quick8() { return Codec(Element::I8).per(32, Scale::F16, Rule::Signed); }
inline Codec quick6() { return Codec(Element::I6).per(32, Scale::F16, Rule::Signed); }
inline Codec quick4() { return Codec(Element::I4).per(32, Scale::F16, Rule::Signed); }
inline Codec sign(int block = 1024) { return Codec(Element::Sign).per(block, Scale::F32, Rule::Mean); }

} // namespace kolo::dsl
