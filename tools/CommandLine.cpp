#include "tools/CommandLine.h"
#include "tools/compile/Compile.h"

#include <algorithm>
#include <cstdio>
#include <exception>

namespace kolo::tools {

CLI::App *addCommand(CLI::App &app, const std::string &name, const std::string &description) {
  return app.add_subcommand(name, description);
}

static std::vector<std::string> commandsOf(const CLI::App &app) {
  std::vector<std::string> names;
  for (const CLI::App *command : app.get_subcommands({}))
    names.push_back(command->get_name());
  return names;
}

/// The command line's parser would only say that a command is missing.
static void checkCommand(const CLI::App &app, int argc, char **argv) {
  std::vector<std::string> names = commandsOf(app);
  std::string all = CLI::detail::join(names, ", ");
  if (argc < 2)
    throw ToolError(ExitCode::Usage, "a command is missing, one of " + all + " (kolo --help)");
  std::string word = argv[1];
  if (!word.starts_with('-') && !std::ranges::count(names, word))
    throw ToolError(ExitCode::Usage,
                    "there is no command '" + word + "'" + didYouMean(word, names) + " (one of " + all + ")");
}

/// How to ask for help about the command that was chosen.
static std::string helpHint(const CLI::App &app) {
  const auto chosen = app.get_subcommands();
  return " (kolo " + (chosen.empty() ? "" : chosen.front()->get_name() + " ") + "--help)";
}

static int fail(const char *message, ExitCode code) {
  std::fprintf(stderr, "%s\n", message);
  return int(code);
}

int runCommandLine(int argc, char **argv, void (*addCommands)(CLI::App &app)) {
  CLI::App app("Compiles, runs and measures collectives.", "kolo");
  app.require_subcommand(1);
  app.set_version_flag("--version", "kolo " KOLO_VERSION);
  app.footer(
      "Exit codes: 0 success; 1 the program has mistakes, is refuted, or its result is wrong; 2 a flag, a file or the\n"
      "environment is not as it must be; 3 ranks could not run to the end.");
  addCommands(app);
  try {
    checkCommand(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::Success &success) {
    return app.exit(success); // --help and --version
  } catch (const CLI::ParseError &error) {
    return fail((std::string("kolo: ") + error.what() + helpHint(app)).c_str(), ExitCode::Usage);
  } catch (const ToolError &error) {
    std::string text = error.what();
    if (text.empty())
      return int(error.code());
    // An author's mistakes begin with their own place, so that editors find it.
    return fail(error.code() == ExitCode::Refused ? text.c_str() : ("kolo: " + text).c_str(), error.code());
  } catch (const std::exception &error) {
    return fail((std::string("kolo: ") + error.what()).c_str(), ExitCode::Failed);
  }
  return int(ExitCode::Ok);
}

} // namespace kolo::tools
