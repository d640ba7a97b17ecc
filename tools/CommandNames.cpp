#include "tools/CommandLine.h"
#include "tools/compile/Compile.h"

#include <algorithm>

namespace kolo::tools {

static std::vector<std::string> commandsOf(const CLI::App &app) {
  std::vector<std::string> names;
  for (const CLI::App *command : app.get_subcommands({}))
    names.push_back(command->get_name());
  return names;
}

void checkCommand(const CLI::App &app, int argc, char **argv) {
  std::vector<std::string> names = commandsOf(app);
  std::string all = CLI::detail::join(names, ", ");
  if (argc < 2)
    throw ToolError(ExitCode::Usage, "a command is missing, one of " + all + " (kolo --help)");
  std::string word = argv[1];
  if (!word.starts_with('-') && !std::ranges::count(names, word))
    throw ToolError(ExitCode::Usage,
                    "there is no command '" + word + "'" + didYouMean(word, names) + " (one of " + all + ")");
}

} // namespace kolo::tools
