// kolo with the commands alone that compile, run and measure: what `./run demo` builds.
#include "tools/CommandLine.h"
#include "tools/Commands.h"

using namespace kolo::tools;

static void addCommands(CLI::App &app) {
  addListCommand(app);
  addCompileCommand(app);
  addInspectCommand(app);
  addRunCommand(app);
  addBenchCommand(app);
}

int main(int argc, char **argv) { return runCommandLine(argc, argv, addCommands); }
