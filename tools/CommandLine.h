// The command line of `kolo`: what all its commands have in common. Used by the commands and by the programs that have
// them.
#pragma once

#include <CLI/CLI.hpp>

namespace kolo::tools {

/// A command with this name. Compiled once: all of the command line's parser comes with it.
CLI::App *addCommand(CLI::App &app, const std::string &name, const std::string &description);

/// Looks at the words before the parser does.
using CheckOfWords = void (*)(const CLI::App &app, int argc, char **argv);
/// ToolError where the first word is no command: it names them, and the one that was perhaps meant. The parser would
/// only say that a command is missing.
void checkCommand(const CLI::App &app, int argc, char **argv);

/// Runs the command that the words name, after `addCommands` has added the commands that there are, in the order of the
/// help. Prints a failure as one message. Returns the exit code.
int runCommandLine(int argc, char **argv, void (*addCommands)(CLI::App &app), CheckOfWords check = &checkCommand);

} // namespace kolo::tools
