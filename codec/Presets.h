// The presets of kolo/dsl/Codec.h by name, for the command line and for messages.
#pragma once

#include "codec/Codec.h"

#include <span>

namespace kolo::codec {

struct Preset {
  std::string_view name;
  Codec codec;          ///< With the block that it has by itself.
  bool takesBlock;      ///< `name(block)` is one too.
  std::string_view use; ///< Who uses it, or what for.
};
std::span<const Preset> presets();

/// A preset, `mxfp8` or `int8(512)`, or what `textOf` gives. Nothing for anything else; the codec may have mistakes.
std::optional<Codec> parse(std::string_view text);

/// "int8(256)", "mxfp4", where that is what it is, or `textOf`.
std::string nameOf(const Codec &codec);
/// C++ that makes it, in namespace kolo::dsl: "int8(256)", "Codec(Element::I8).per(64, Scale::BF16, Rule::Full)".
std::string sourceOf(const Codec &codec);

} // namespace kolo::codec
