#include "tools/CommandLine.h"
#include "tools/compile/ToolError.h"

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

namespace kolo::tools {

CLI::App *addCommand(CLI::App &app, const std::string &name, const std::string &description) {
  return app.add_subcommand(name, description);
}

/// How to ask for help about the command that was chosen.
static std::string helpHint(const CLI::App &app) {
  const auto chosen = app.get_subcommands();
  return " (kolo " + (chosen.empty() ? "" : chosen.front()->get_name() + " ") + "--help)";
}

/// Messages quote files that nobody vouches for, and a terminal obeys control characters: those of ASCII and of
/// Latin-1, the latter in UTF-8. Lines and tabs stay. Not `runtime::printable`: this program starts without the
/// runtime.
static std::string withoutControls(std::string_view message) {
  std::string shown;
  for (size_t at = 0; at < message.size(); ++at) {
    const auto byte = static_cast<unsigned char>(message[at]);
    const auto next = static_cast<unsigned char>(at + 1 < message.size() ? message[at + 1] : 0);
    const bool isLong = byte == 0xc2 && next >= 0x80 && next < 0xa0;
    const bool isControl = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f || isLong;
    char escaped[8];
    std::snprintf(escaped, sizeof(escaped), "\\u%04x", isLong ? next : byte);
    shown += isControl ? escaped : std::string(1, message[at]);
    at += isLong ? 1 : 0;
  }
  return shown;
}

static int fail(const std::string &message, ExitCode code) {
  std::fprintf(stderr, "%s\n", withoutControls(message).c_str());
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
    return fail(std::string("kolo: ") + error.what() + helpHint(app), ExitCode::Usage);
  } catch (const ToolError &error) {
    std::string text = error.what();
    if (text.empty())
      return int(error.code());
    // An author's mistakes begin with their own place, so that editors find it.
    return fail(error.code() == ExitCode::Refused ? text : "kolo: " + text, error.code());
  } catch (const std::exception &error) {
    if (std::ferror(stdout)) // {fmt} throws for that
      return failToWrite();
    return fail(std::string("kolo: ") + error.what(), ExitCode::Failed);
  }
  return int(ExitCode::Ok);
}

int runCommandLine(int argc, char **argv, void (*addCommands)(CLI::App &app), CheckOfWords check) {
  const int code = run(argc, argv, addCommands, check);
  const bool isWritten = std::fflush(stdout) == 0 && !std::ferror(stdout);
  return isWritten || code != int(ExitCode::Ok) ? code : failToWrite();
}

} // namespace kolo::tools
