#include "tools/CommandLine.h"
#include "tools/compile/ToolError.h"

#include <cstdio>
#include <exception>

namespace kolo::tools {

CLI::App *addCommand(CLI::App &app, const std::string &name, const std::string &description) {
  return app.add_subcommand(name, description);
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

static int failToWrite() { return fail("kolo: cannot write to standard output", ExitCode::Usage); }

static int run(int argc, char **argv, void (*addCommands)(CLI::App &app), CheckOfWords check) {
  CLI::App app("Compiles, runs and measures collectives.", "kolo");
  app.require_subcommand(1);
  app.set_version_flag("--version", "kolo " KOLO_VERSION);
  app.footer(
      "Exit codes: 0 success; 1 the program has mistakes, is refuted, or its result is wrong; 2 a flag, a file or the\n"
      "environment is not as it must be; 3 ranks could not run to the end.");
  addCommands(app);
  try {
    if (check)
      check(app, argc, argv);
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
    if (std::ferror(stdout)) // {fmt} throws for that
      return failToWrite();
    return fail((std::string("kolo: ") + error.what()).c_str(), ExitCode::Failed);
  }
  return int(ExitCode::Ok);
}

int runCommandLine(int argc, char **argv, void (*addCommands)(CLI::App &app), CheckOfWords check) {
  const int code = run(argc, argv, addCommands, check);
  const bool isWritten = std::fflush(stdout) == 0 && !std::ferror(stdout);
  return isWritten || code != int(ExitCode::Ok) ? code : failToWrite();
}

} // namespace kolo::tools
