// What is known of a codec without data: whether it is one, its sizes, and how it is written. See README.md.
#pragma once

#include <kolo/dsl/Codec.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kolo::codec {

using dsl::Codec;
using dsl::Element;
using dsl::Rule;
using dsl::Scale;

/// Elements of the unit in which encoded memory is laid out. Blocks and pieces of encoded buffers begin at multiples.
inline constexpr int64_t granule = 1024;

/// Why this is no codec, as the end of a sentence about it ("has a block of 48; ..."); empty when it is one.
std::string findMistake(const Codec &codec);

// Of the functions below, all but `textOf` take a codec without mistakes.

inline bool isNone(const Codec &codec) { return codec.element() == Element::None; }
/// Whether blocks have scales; otherwise the codec is none or a cast of every element by itself.
inline bool isScaled(const Codec &codec) { return codec.block() > 0; }

int bitsOf(Element element);               ///< Of one code.
int64_t bytesOf(Scale scale);              ///< Of one stored scale.
double bitsPerElement(const Codec &codec); ///< Scales and padding included, of whole granules.

/// Bytes of `elements` encoded elements that begin at a multiple of `granule` in their block of `count`. A multiple of
/// 16. The codec is not none.
int64_t bytes(const Codec &codec, int64_t elements);

/// As IR has it: "i8 per 256 scale f32 fit", "bf16", "levels [-1, 0, 1] per 64 scale bf16 fit stochastic".
std::string textOf(const Codec &codec);
/// The shortest text that reads back as the same number.
std::string textOf(float value);
/// What `textOf` gave of a codec; nothing for anything else. The codec may have mistakes.
std::optional<Codec> parseText(std::string_view text);

} // namespace kolo::codec
