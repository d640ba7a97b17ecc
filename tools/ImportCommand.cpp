// kolo import: a schedule of another library in channel form.
#include "tools/Commands.h"
#include "tools/Options.h"
#include "tools/compile/Compile.h"
#include "tools/compile/ForeignFile.h"

#include <fmt/format.h>

namespace kolo::tools {

namespace {

struct ImportCommand {
  std::string path, output, format = "mlir";
  void run() const;

private:
  std::string text() const;
};

/// The program, or the file again. Throws ToolError.
std::string ImportCommand::text() const {
  if (format == "msccl-xml")
    return rewriteMscclXml(path);
  CompileRequest request;
  request.irPath = path;
  return emitStage(request, Stage::Channel).text;
}

void ImportCommand::run() const {
  if (!isForeignFile(path))
    throw ToolError(ExitCode::Usage, path + " ends neither in .xml, as MSCCL's, nor in .json, as plans of MSCCL++");
  bool toStandardOutput = output.empty() || output == "-";
  if (!toStandardOutput)
    checkRegular(output, "-o");
  checkWritable(output, "-o");
  foreign::ForeignSchedule schedule = readForeign(path);
  std::string made = text();
  if (toStandardOutput) {
    fmt::print("{}", made);
    return;
  }
  writeWhole(output, made, "-o");
  fmt::print("{}: {} of {} on {} ranks, {} thread blocks\n", output, schedule.name, schedule.interpreter,
             schedule.numRanks, schedule.threads.size());
  for (const std::string &note : schedule.notes)
    fmt::print("{}\n", note);
}

} // namespace

void addImportCommand(CLI::App &app) {
  CLI::App *command =
      app.add_subcommand("import", "reads a schedule of another library, and writes it in channel form");
  auto options = std::make_shared<ImportCommand>();
  command->add_option("file", options->path, "XML of MSCCL, X.xml, or an execution plan of MSCCL++, X.json")
      ->required();
  command
      ->add_option("--format", options->format,
                   "mlir: channel form, which is proved; msccl-xml: the same file as RCCL's reader takes it, a line\n"
                   "for each element and nothing else")
      ->check(CLI::IsMember({"mlir", "msccl-xml"}))
      ->capture_default_str();
  command->add_option("-o,--output", options->output, "the file; - or nothing: standard output");
  command->callback([options] { options->run(); });
}

} // namespace kolo::tools
