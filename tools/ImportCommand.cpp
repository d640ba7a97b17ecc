// kolo import: a schedule of another library in channel form.
#include "tools/Commands.h"
#include "tools/Options.h"
#include "tools/compile/Compile.h"
#include "tools/compile/ForeignFile.h"

#include <fmt/format.h>

namespace kolo::tools {

namespace {

struct ImportCommand {
  std::string path, output;
  void run() const;
};

void ImportCommand::run() const {
  if (!isForeignFile(path))
    throw ToolError(ExitCode::Usage, path + " ends neither in .xml, as MSCCL's, nor in .json, as plans of MSCCL++");
  bool toStandardOutput = output.empty() || output == "-";
  if (!toStandardOutput)
    checkRegular(output, "-o");
  checkWritable(output, "-o");
  foreign::Schedule schedule = readForeign(path);
  CompileRequest request;
  request.irPath = path;
  StageText text = emitStage(request, Stage::Channel);
  if (toStandardOutput) {
    fmt::print("{}", text.text);
    return;
  }
  writeWhole(output, text.text, "-o");
  fmt::print("{}: {} of {} on {} ranks, {} thread blocks\n", output, schedule.name, schedule.interpreter, schedule.numRanks,
             schedule.threads.size());
  for (const std::string &note : schedule.notes)
    fmt::print("{}\n", note);
}

} // namespace

void addImportCommand(CLI::App &app) {
  CLI::App *command =
      app.add_subcommand("import", "reads a schedule of another library, and writes it in channel form");
  auto options = std::make_shared<ImportCommand>();
  command->add_option("file", options->path, "XML of MSCCL, X.xml, or an execution plan of MSCCL++, X.json")->required();
  command->add_option("-o,--output", options->output, "the file of IR; - or nothing: standard output");
  command->callback([options] { options->run(); });
}

} // namespace kolo::tools
