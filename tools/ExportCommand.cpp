// kolo export: an algorithm for a library that interprets it.
#include "tools/CommandLine.h"
#include "tools/Commands.h"
#include "tools/SourceOptions.h"
#include "tools/compile/ExportXml.h"

#include <fmt/format.h>

#include <map>

namespace kolo::tools {

namespace {

struct ExportCommand : SourceOptions {
  std::string format, profile, protocol = "simple", minBytes = "0", maxBytes, output;
  int64_t lanes = 1;
  bool isInPlace = false;

  void addFlagsTo(CLI::App &command);
  void run() const;

private:
  msccl::XmlOptions makeOptions() const;
};

const std::map<std::string, msccl::Protocol> protocols = {
    {"simple", msccl::Protocol::Simple}, {"ll", msccl::Protocol::LL}, {"ll128", msccl::Protocol::LL128}};

void ExportCommand::addFlagsTo(CLI::App &command) {
  command.add_option("algorithm", what, "a shipped algorithm, FILE.cpp or FILE.mlir")->required();
  command.add_option("--mesh", meshes, "ranks by dimension, slowest first: node=1,gpu=8");
  command.add_option("--program", program, "one choreography of FILE.cpp");
  command.add_option("--codec", codecs,
                     "NAME=CODEC for a codec that the choreography names; RCCL knows none: wire=none");
  command.add_option("--format", format, "msccl-xml: what RCCL's MSCCL reads")
      ->required()
      ->check(CLI::IsMember({"msccl-xml"}));
  command
      .add_option("--profile", profile,
                  "which RCCL: rccl-6.1 for ROCm 6.1 to 7.2, rccl-6.0 for ROCm 5.6 to 6.0; later ones\n"
                  "read no XML")
      ->required();
  command.add_flag("--in-place", isInPlace,
                   "for calls whose input and output are the same memory, instead of all others");
  command.add_option("--protocol", protocol, "how RCCL's connections carry data: simple, ll or ll128")
      ->check(CLI::IsMember({"simple", "ll", "ll128"}))
      ->capture_default_str();
  command.add_option("--lanes", lanes, "channels of RCCL; each moves its part of every chunk")
      ->check(CLI::Range(int64_t(1), msccl::maxChannels))
      ->capture_default_str();
  command
      .add_option("--min-bytes", minBytes, "the smallest call that RCCL takes it for, in bytes of the larger buffer")
      ->capture_default_str();
  command.add_option("--max-bytes", maxBytes, "the largest; without it, there is no limit");
  command.add_option("-o,--output", output, "the file; - or nothing: standard output");
}

msccl::XmlOptions ExportCommand::makeOptions() const {
  auto parsed = msccl::parseProfile(profile);
  if (auto *message = std::get_if<std::string>(&parsed))
    throw ToolError(ExitCode::Usage, "--profile: " + *message);
  msccl::XmlOptions options{.profile = std::get<msccl::Profile>(parsed),
                            .protocol = protocols.at(protocol),
                            .lanes = lanes,
                            .isInPlace = isInPlace,
                            .minBytes = parseSize(minBytes, "--min-bytes"),
                            .maxBytes = maxBytes.empty() ? 0 : parseSize(maxBytes, "--max-bytes")};
  if (!maxBytes.empty() && (options.maxBytes == 0 || options.maxBytes < options.minBytes))
    throw ToolError(ExitCode::Usage, "--max-bytes: " + maxBytes + " must be at least 1 byte and --min-bytes");
  return options;
}

void ExportCommand::run() const {
  msccl::XmlOptions options = makeOptions();
  bool toStandardOutput = output.empty() || output == "-";
  if (!toStandardOutput)
    checkRegular(output, "-o");
  checkWritable(output, "-o");
  msccl::Xml xml = exportXml(makeRequest(), options);
  for (const std::string &fault : msccl::knownFaults(options))
    fmt::print(stderr, "kolo: warning: {}\n", fault);
  if (toStandardOutput) {
    fmt::print("{}", xml.text);
    return;
  }
  writeWhole(output, xml.text, "-o");
  fmt::print("{}: {} ranks, {} channel{}, at most {} thread blocks per rank and {} steps per block\n"
             "RCCL takes it for counts that are a multiple of {}\n",
             output, xml.numRanks, xml.lanes, xml.lanes == 1 ? "" : "s", xml.mostBlocks, xml.mostSteps,
             xml.chunksPerBlock);
}

} // namespace

void addExportCommand(CLI::App &app) {
  CLI::App *command = addCommand(app, "export", "writes an algorithm for a library that interprets it: RCCL");
  auto options = std::make_shared<ExportCommand>();
  options->addFlagsTo(*command);
  command->callback([options] { options->run(); });
}

} // namespace kolo::tools
