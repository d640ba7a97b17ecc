// kolo with the commands alone that compile, run and measure, for the host: what `./run demo` builds.
#include "tools/CommandLine.h"
#include "tools/Commands.h"
#include "tools/compile/DeviceTarget.h"

using namespace kolo::tools;

std::span<const NamedDeviceTarget> kolo::tools::deviceTargets() { return {}; }

static void addCommands(CLI::App &app) {
  addListCommand(app);
  addCompileCommand(app);
  addInspectCommand(app);
  addRunCommand(app);
  addBenchCommand(app);
}

int main(int argc, char **argv) { return runCommandLine(argc, argv, addCommands); }
