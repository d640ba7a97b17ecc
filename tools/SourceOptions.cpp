#include "tools/SourceOptions.h"
#include "tools/Options.h"
#include "tools/compile/ForeignImport.h"

#include "codec/Presets.h"
#include "compiler/check/Verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace kolo::tools {

void SourceOptions::addTo(CLI::App &command) {
  command.add_option("algorithm", what, "a shipped algorithm, FILE.cpp or FILE.mlir")->required();
  command.add_option("--mesh", meshes, "ranks by dimension, slowest first: node=2,gpu=4; may repeat");
  command.add_option("--codec", codecs, "NAME=CODEC for a codec that the choreography names: wire=mxfp8; may repeat");
  command.add_option("--program", program, "one choreography of FILE.cpp; without it, all");
  command.add_option("--budget", budget, "bytes, and time in proportion, that the proof of one mesh may take");
  command.add_flag("--no-optimization", noOptimization, "required passes only");
  scheduleOptions.addTo(command);
}

/// The choreographies that were asked for. Throws ToolError.
static std::vector<dsl::Definition> chooseDefinitions(const SourceOptions &options, bool isSource) {
  std::vector<dsl::Definition> all = isSource ? loadUserSource(options.what) : std::vector{findShipped(options.what)};
  if (options.program.empty())
    return all;
  std::vector<std::string> names;
  for (const dsl::Definition &definition : all)
    names.push_back(definition.name);
  std::erase_if(all, [&](const dsl::Definition &definition) { return definition.name != options.program; });
  if (all.empty())
    throw ToolError(ExitCode::Usage, fmt::format("--program: there is no '{}'; {} has {}", options.program,
                                                 options.what, fmt::join(names, ", ")));
  return all;
}

static std::vector<runtime::Mesh> parseMeshes(const std::vector<std::string> &texts) {
  std::vector<runtime::Mesh> meshes;
  for (const std::string &text : texts)
    if (runtime::Mesh mesh = parseMesh(text); std::ranges::find(meshes, mesh) == meshes.end())
      meshes.push_back(std::move(mesh));
  if (meshes.empty())
    throw ToolError(ExitCode::Usage, "--mesh is needed, for example --mesh node=2,gpu=4");
  return meshes;
}

std::map<std::string, dsl::Codec> parseCodecs(const std::vector<std::string> &texts) {
  std::map<std::string, dsl::Codec> codecs;
  for (const std::string &text : texts) {
    size_t equal = std::min(text.find('='), text.size());
    std::string name = text.substr(0, equal), value = text.substr(std::min(equal + 1, text.size()));
    std::optional<dsl::Codec> codec = codec::parse(value);
    if (equal == text.size() || !codec)
      throw ToolError(ExitCode::Usage, "--codec: " + text + " is not NAME=CODEC, for example wire=mxfp8 (kolo codec)");
    if (std::string mistake = codec::findMistake(*codec); !mistake.empty())
      throw ToolError(ExitCode::Usage, "--codec: " + text + " " + mistake);
    if (!codecs.emplace(name, *codec).second)
      throw ToolError(ExitCode::Usage, "--codec: " + name + " is given twice");
  }
  return codecs;
}

std::optional<int64_t> SourceOptions::parseBudget() const {
  if (budget.empty())
    return std::nullopt;
  int64_t numBytes = parseSize(budget, "--budget");
  if (numBytes < 1 || numBytes > largestBudget)
    throw ToolError(ExitCode::Usage, "--budget: " + budget + " must be at least 1 byte and at most 16T");
  return numBytes;
}

bool isSourceFile(const std::string &name) {
  const std::string extension = std::filesystem::path(name).extension();
  return extension == ".cpp" || extension == ".cc" || extension == ".cxx";
}

bool namesItsMeshes(const std::string &name) {
  return std::filesystem::path(name).extension() == ".mlir" || isForeignFile(name);
}

CompileRequest SourceOptions::makeRequest() const {
  const bool isSource = isSourceFile(what), isIr = namesItsMeshes(what);
  if (!isSource && !isIr && what.find_first_of("./") != std::string::npos)
    throw ToolError(ExitCode::Usage,
                    what + " is neither an algorithm nor a file that ends in .cpp, .cc, .cxx, .mlir, .xml or .json");
  if (isIr && !meshes.empty())
    throw ToolError(ExitCode::Usage, "--mesh: not with " + what + "; it names its ranks itself");
  if (isIr && !program.empty())
    throw ToolError(ExitCode::Usage, "--program: not with " + what + "; all of its programs are compiled");
  CompileRequest request;
  request.optimize = !noOptimization;
  request.schedule = scheduleOptions.schedule();
  request.budget = parseBudget();
  request.codecs = parseCodecs(codecs);
  if (isIr) {
    request.irPath = what;
  } else {
    request.meshes = parseMeshes(meshes);
    request.definitions = chooseDefinitions(*this, isSource);
  }
  return request;
}

} // namespace kolo::tools
