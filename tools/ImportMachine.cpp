#include "tools/ImportMachine.h"
#include "tools/Options.h"
#include "tools/compile/ToolError.h"

#include "compiler/import/Topology.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdio>
#include <filesystem>
#include <variant>

namespace kolo::tools {

/// The name of a machine: that of its file, with '-' for what is no letter or digit.
static std::string machineName(const std::string &path) {
  std::string name = std::filesystem::path(path).stem();
  for (char &character : name)
    if (!std::isalnum(static_cast<unsigned char>(character)))
      character = '-';
  return name.empty() ? "imported" : name;
}

static foreign::ImportedMachine importFrom(const std::string &path) {
  auto refuse = [&](const foreign::Refusal &refusal, ExitCode code) {
    std::string place = refusal.line > 0 ? fmt::format("{}:{}:1", path, refusal.line) : path;
    throw ToolError(code, fmt::format("{}: error: {}", place, refusal.message));
  };
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored))
    throw ToolError(ExitCode::Usage, "--import: there is no file " + path);
  auto source = foreign::ForeignText::read(path);
  if (auto *refusal = std::get_if<foreign::Refusal>(&source))
    refuse(*refusal, ExitCode::Usage);
  auto made = foreign::importMachine(std::get<foreign::ForeignText>(source), machineName(path));
  if (auto *refusal = std::get_if<foreign::Refusal>(&made))
    refuse(*refusal, ExitCode::Refused);
  return std::get<foreign::ImportedMachine>(std::move(made));
}

void importMachineFile(const std::string &path, const std::string &output, std::FILE *report) {
  bool toStandardOutput = output.empty() || output == "-";
  if (!toStandardOutput)
    checkRegular(output, "-o");
  checkWritable(output, "-o");
  foreign::ImportedMachine machine = importFrom(path);
  if (toStandardOutput)
    fmt::print("{}", machine.json);
  else
    writeWhole(output, machine.json, "-o");
  if (!report)
    report = toStandardOutput ? stderr : stdout;
  for (const auto &[what, lines] : {std::pair("took", &machine.taken), std::pair("assumed", &machine.assumed),
                                    std::pair("cannot know", &machine.unknown)})
    for (const std::string &line : *lines)
      fmt::print(report, "{}: {}\n", what, line);
}

} // namespace kolo::tools
