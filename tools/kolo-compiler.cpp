// kolo-compiler: all commands of kolo, which runs it.
#include "tools/CommandLine.h"
#include "tools/Commands.h"

using namespace kolo::tools;

static void addCommands(CLI::App &app) {
  addListCommand(app);
  addCompileCommand(app);
  addCheckCommand(app);
  addInspectCommand(app);
  addRunCommand(app);
  addBenchCommand(app);
  addTuneCommand(app);
  addMachineCommand(app);
  addCostCommand(app);
  addProbeCommand(app);
  addSimulateCommand(app);
  addExploreCommand(app);
  addExportCommand(app);
  addImportCommand(app);
  addPreloadCommand(app);
  addDoctorCommand(app);
  addCodecCommand(app);
}

int main(int argc, char **argv) { return runCommandLine(argc, argv, addCommands); }
