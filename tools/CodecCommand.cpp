// kolo codec: the presets, and what one codec costs and loses.
#include "tools/CommandLine.h"
#include "tools/Commands.h"
#include "tools/compile/ToolError.h"

#include "codec/Presets.h"
#include "codec/Quality.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace kolo::tools {

using Json = nlohmann::ordered_json;

namespace {

/// Random numbers that a signal-to-noise ratio is measured on.
constexpr int64_t numValues = int64_t(1) << 20;

/// "43.2 dB"; exact codecs have none.
std::string decibels(const codec::Codec &codec, codec::Distribution distribution) {
  double ratio = codec::signalToNoise(codec, distribution, numValues);
  return std::isinf(ratio) ? "exact" : fmt::format("{:.1f} dB", ratio);
}

void list() {
  fmt::print("{:<12} {:<34} {:>6} {:>11}  {}\n", "preset", "codec", "bits", "bytes/1024", "used by");
  for (const codec::Preset &preset : codec::presets()) {
    bool isNone = codec::isNone(preset.codec);
    fmt::print("{:<12} {:<34} {:>6} {:>11}  {}\n", codec::nameOf(preset.codec), codec::textOf(preset.codec),
               isNone ? "" : fmt::format("{:.3g}", codec::bitsPerElement(preset.codec)),
               isNone ? "" : std::to_string(codec::bytes(preset.codec, codec::granule)), preset.use);
  }
}

void listAsJson() {
  auto rows = Json::array();
  for (const codec::Preset &preset : codec::presets()) {
    Json row = {{"name", codec::nameOf(preset.codec)}, {"codec", codec::textOf(preset.codec)}};
    if (!codec::isNone(preset.codec)) {
      row["bitsPerElement"] = codec::bitsPerElement(preset.codec);
      row["bytesPer1024"] = codec::bytes(preset.codec, codec::granule);
      row["worstError"] = codec::worstError(preset.codec);
      row["leastError"] = codec::leastError(preset.codec);
      row["largestInput"] = codec::largestInput(preset.codec);
    }
    rows.push_back(std::move(row));
  }
  fmt::print("{}\n", rows.dump(2));
}

codec::Codec parseCodec(const std::string &text) {
  std::optional<codec::Codec> codec = codec::parse(text);
  if (!codec)
    throw ToolError(ExitCode::Usage, "there is no codec '" + text + "' (kolo codec)");
  if (std::string mistake = codec::findMistake(*codec); !mistake.empty())
    throw ToolError(ExitCode::Usage, "codec '" + text + "' " + mistake);
  if (codec::isNone(*codec))
    throw ToolError(ExitCode::Usage, "codec 'none' stores elements as the call gives them");
  return *codec;
}

void show(const codec::Codec &codec) {
  // Of a cast the error is relative to the element itself, and of a granule's scale to the largest in the granule.
  const char *largest = !codec::isScaled(codec)               ? "of the element"
                        : codec.scale() == codec::Scale::E4M3 ? "of the largest of 1024 elements"
                                                              : "of the largest element of the block";
  fmt::print("{}: {}\n", codec::nameOf(codec), codec::textOf(codec));
  fmt::print("  bits per element      {:.4g}\n", codec::bitsPerElement(codec));
  fmt::print("  bytes per 1024        {}\n", codec::bytes(codec, codec::granule));
  fmt::print("  worst error           {:.3g} {}\n", codec::worstError(codec), largest);
  if (double least = codec::leastError(codec); least > 0)
    fmt::print("  of small numbers      {:.3g} more\n", least);
  fmt::print("  largest number        {:.3g}; beyond it, {}\n", codec::largestInput(codec),
             codec::isScaled(codec) ? "blocks may decode to NaN or infinity" : "infinity or NaN");
  fmt::print("  signal to noise       {} on normal, {} on Laplacian numbers\n",
             decibels(codec, codec::Distribution::Normal), decibels(codec, codec::Distribution::Laplace));
}

struct CodecCommand {
  std::string text;
  bool asJson = false;
};

} // namespace

void addCodecCommand(CLI::App &app) {
  CLI::App *command = addCommand(app, "codec", "shows the codecs that have names, or one codec");
  auto options = std::make_shared<CodecCommand>();
  command->add_option("codec", options->text, "mxfp4, \"int8(64)\" or \"i8 per 64 scale bf16 full\"; without it, all");
  command->add_flag("--json", options->asJson, "all of them as JSON: an array of {name, codec, bitsPerElement, ...}");
  command->callback([options] {
    if (!options->text.empty() && options->asJson)
      throw ToolError(ExitCode::Usage, "--json: only without a codec");
    if (!options->text.empty())
      show(parseCodec(options->text));
    else
      options->asJson ? listAsJson() : list();
  });
}

} // namespace kolo::tools
