// The commands of `kolo`. Each adds itself to the command line, and runs when it was chosen.
#pragma once

#include <CLI/CLI.hpp>

namespace kolo::tools {

void addListCommand(CLI::App &app);
void addCompileCommand(CLI::App &app);
void addCheckCommand(CLI::App &app);
void addCodecCommand(CLI::App &app);
void addCostCommand(CLI::App &app);
void addImportCommand(CLI::App &app);
void addInspectCommand(CLI::App &app);
void addRunCommand(CLI::App &app);
void addSimulateCommand(CLI::App &app);
void addBenchCommand(CLI::App &app);
void addMachineCommand(CLI::App &app);
void addProbeCommand(CLI::App &app);
void addTuneCommand(CLI::App &app);
void addExportCommand(CLI::App &app);
void addExploreCommand(CLI::App &app);
void addPreloadCommand(CLI::App &app);
void addDoctorCommand(CLI::App &app);

} // namespace kolo::tools
