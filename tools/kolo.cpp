// kolo: the program that users start. Commands that compile or measure are those of kolo-compiler, beside it. This
// program needs no LLVM, which takes some 25 ms to load: nothing that runs under `kolo preload` should wait for that.
#include "tools/CommandLine.h"
#include "tools/Commands.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

using namespace kolo::tools;

int main(int argc, char **argv) {
  if (argc > 1 && std::string_view(argv[1]) == "preload")
    return runCommandLine(argc, argv, addPreloadCommand, nullptr);
  std::error_code problem;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", problem);
  const std::string compiler = own.parent_path() / "kolo-compiler";
  execv(compiler.c_str(), argv);
  std::fprintf(stderr, "kolo: cannot run %s: %s\n", compiler.c_str(), std::strerror(errno));
  return 2;
}
