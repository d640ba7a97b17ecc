// kolo with the commands alone that compile, run and measure, for the host: what `./run demo` builds.
#include "tools/CommandLine.h"
#include "tools/Commands.h"
#include "tools/compile/DeviceTarget.h"
#include "tools/compile/ForeignImport.h"
#include "tools/compile/ToolError.h"

using namespace kolo::tools;

std::span<const NamedDeviceTarget> kolo::tools::deviceTargets() { return {}; }

mlir::OwningOpRef<mlir::ModuleOp> kolo::tools::importForeign(mlir::MLIRContext &, const std::string &path) {
  throw ToolError(ExitCode::Usage, path + ": kolo-core imports no files of other libraries, as kolo does");
}

static void addCommands(CLI::App &app) {
  addListCommand(app);
  addCompileCommand(app);
  addRunCommand(app);
  addBenchCommand(app);
}

int main(int argc, char **argv) { return runCommandLine(argc, argv, addCommands); }
