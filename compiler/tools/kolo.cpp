// kolo: compiles, runs and measures collectives.
#include "Commands.h"

#include "driver/ToolError.h"

#include <cstdio>
#include <exception>

using namespace kolo::tools;

static int fail(const char *message, ExitCode code) {
  std::fprintf(stderr, "%s\n", message);
  return int(code);
}

int main(int argc, char **argv) {
  CLI::App app("Compiles, runs and measures collectives.", "kolo");
  app.require_subcommand(1);
  app.set_version_flag("--version", KOLO_VERSION);
  app.footer("Exit codes: 0 success; 1 the program has mistakes or its result is wrong; 2 a flag, a file or the\n"
             "environment is not as it must be; 3 ranks could not run to the end.");
  addListCommand(app);
  addCompileCommand(app);
  addInspectCommand(app);
  addRunCommand(app);
  addBenchCommand(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &success) {
    return app.exit(success); // --help and --version
  } catch (const CLI::ParseError &error) {
    return fail((std::string("kolo: ") + error.what() + " (kolo --help)").c_str(), ExitCode::Usage);
  } catch (const ToolError &error) {
    std::string text = error.what();
    // An author's mistakes begin with their own place, so that editors find it.
    return fail(error.code() == ExitCode::Refused ? text.c_str() : ("kolo: " + text).c_str(), error.code());
  } catch (const std::exception &error) {
    return fail((std::string("kolo: ") + error.what()).c_str(), ExitCode::Failed);
  }
  return int(ExitCode::Ok);
}
