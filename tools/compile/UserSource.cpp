// A user's C++ file becomes choreographies in this process: compiled by the host's compiler, opened like a plug-in.
#include "tools/compile/Compile.h"
#include "tools/compile/TemporaryFile.h"
#include "tools/compile/UserCode.h"

#include "dsl/Collectives.h"
#include "kolo/runtime/Plugin.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace kolo::tools {

/// The headers lie beside the program, in the build tree as where it is installed.
static std::string includeDirectory() {
  std::string program = llvm::sys::fs::getMainExecutable(nullptr, nullptr);
  llvm::SmallString<128> path(llvm::sys::path::parent_path(llvm::sys::path::parent_path(program)));
  llvm::sys::path::append(path, "include");
  if (!llvm::sys::fs::exists(path + "/kolo/dsl/Language.h"))
    throw ToolError(ExitCode::Usage, "cannot find kolo/dsl/Language.h under " + std::string(path.str()) +
                                         ": the language's headers are not installed beside this program");
  return std::string(path.str());
}

/// $CXX, which may carry arguments, as in CXX="ccache g++".
static std::vector<std::string> hostCompiler() {
  const char *named = std::getenv("CXX");
  llvm::SmallVector<llvm::StringRef> words;
  llvm::SplitString(named ? named : "", words);
  if (words.empty())
    words.push_back("c++");
  llvm::ErrorOr<std::string> path = llvm::sys::findProgramByName(words.front());
  if (!path)
    throw ToolError(ExitCode::Usage, "cannot find the C++ compiler '" + words.front().str() + "'; set CXX to one");
  std::vector<std::string> command = {*path};
  for (llvm::StringRef word : llvm::ArrayRef(words).drop_front())
    command.push_back(word.str());
  return command;
}

/// Where the compiler keeps its own temporary files, which are gone then, however it ends.
static std::vector<std::string> environmentWith(const std::string &temporaryFolder) {
  std::vector<std::string> variables = {"TMPDIR=" + temporaryFolder};
  for (char **variable = environ; *variable; ++variable)
    if (!llvm::StringRef(*variable).starts_with("TMPDIR="))
      variables.emplace_back(*variable);
  return variables;
}

/// Why the macro makes no sense to the compiler, where its second argument is no collective; else empty.
static std::string findUnknownCollective(const std::string &source) {
  llvm::SmallVector<llvm::StringRef> collectives;
  for (const dsl::CollectiveTraits &each : dsl::collectiveTraits)
    collectives.push_back(each.name);
  auto file = llvm::MemoryBuffer::getFile(source);
  llvm::StringRef text = file ? (*file)->getBuffer() : "";
  constexpr llvm::StringLiteral macro = "KOLO_COLLECTIVE(";
  for (size_t at = text.find(macro); at != llvm::StringRef::npos; at = text.find(macro, at + 1)) {
    llvm::StringRef name = text.substr(at).split(',').second.ltrim();
    name = name.take_while([](char letter) { return llvm::isAlnum(letter) || letter == '_'; });
    if (!name.empty() && !llvm::is_contained(collectives, name))
      return source + ":" + std::to_string(text.take_front(at).count('\n') + 1) + ": '" + name.str() +
             "' may be meant as a collective; there are " + llvm::join(collectives, ", ") + "\n";
  }
  return "";
}

/// Runs the compiler with these words. Throws what it says where it fails.
static void runCompiler(const std::string &source, const TemporaryFile &library, llvm::ArrayRef<std::string> words) {
  const std::string log = library.folder() + "/log";
  std::vector<std::string> command = hostCompiler();
  command.insert(command.end(), words.begin(), words.end());
  std::vector<llvm::StringRef> arguments(command.begin(), command.end());
  std::optional<llvm::StringRef> redirects[] = {std::nullopt, log, log};
  std::vector<std::string> variables = environmentWith(library.folder());
  std::vector<llvm::StringRef> environment(variables.begin(), variables.end());
  std::string problem;
  int result = llvm::sys::ExecuteAndWait(command.front(), arguments, environment, redirects, 0, 0, &problem);
  if (result == 0)
    return;
  if (result < 0)
    throw ToolError(ExitCode::Usage, "cannot run the C++ compiler " + command.front() + ": " + problem);
  auto text = llvm::MemoryBuffer::getFile(log);
  throw ToolError(ExitCode::Refused, source + " does not compile:\n" + findUnknownCollective(source) +
                                         (text ? (*text)->getBuffer().rtrim().str() : ""));
}

/// In two steps: compilers' caches keep what does not link.
static void buildLibrary(const std::string &source, const TemporaryFile &library) {
  const std::string object = library.folder() + "/code.o";
  const std::string name = source.starts_with('-') ? "./" + source : source; // else an option
  runCompiler(source, library, {"-std=c++20", "-fPIC", "-O0", "-I" + includeDirectory(), "-c", name, "-o", object});
  runCompiler(source, library, {"-shared", object, "-o", library.path()});
}

/// Why the loader refused a library, without the library's name, which means nothing to the user.
static std::string loaderProblem() {
  const char *reason = dlerror();
  llvm::StringRef text = reason ? reason : "unknown reason";
  static constexpr llvm::StringLiteral undefined = "undefined symbol: ";
  if (size_t at = text.find(undefined); at != llvm::StringRef::npos)
    return "it uses " + llvm::demangle(text.substr(at + undefined.size()).str()) + ", which it does not define";
  return text.str();
}

std::vector<dsl::Definition> loadUserSource(const std::string &path) {
  if (!llvm::sys::fs::is_regular_file(path))
    throw ToolError(ExitCode::Usage, "there is no file " + path);
  if (llvm::sys::path::filename(path).starts_with('@'))
    throw ToolError(ExitCode::Usage,
                    path + ": compilers take a name that begins with @ for a list of options: rename it");
  if (std::string shown = runtime::printable(path); shown != path)
    throw ToolError(ExitCode::Usage, shown + ": a file's name with control characters: messages would repeat it");
  TemporaryFile library("so");
  buildLibrary(path, library);
  size_t numBefore = dsl::registeredChoreographies().size();
  UserCode guard(path + ":1:1");
  // Never closed: the definitions point into it.
  if (!dlopen(library.path().c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (struct statvfs info; statvfs(library.path().c_str(), &info) == 0 && (info.f_flag & ST_NOEXEC) != 0)
      throw ToolError(ExitCode::Usage, library.folder() +
                                           " is in a file system that is mounted noexec: set TMPDIR to a "
                                           "directory from which code can be loaded");
    throw ToolError(ExitCode::Refused, path + ":1:1: error: " + loaderProblem());
  }
  const std::vector<dsl::Definition> &all = dsl::registeredChoreographies();
  std::vector<dsl::Definition> added(all.begin() + ptrdiff_t(numBefore), all.end());
  if (added.empty())
    throw ToolError(ExitCode::Refused, path + ":1:1: error: it registers no choreography; use KOLO_COLLECTIVE");
  for (const dsl::Definition &definition : added)
    if (auto end = all.begin() + ptrdiff_t(numBefore);
        std::find_if(all.begin(), end, [&](const auto &each) { return each.name == definition.name; }) != end)
      std::fprintf(stderr, "kolo: warning: %s of %s has the name of a shipped algorithm\n", definition.name.c_str(),
                   path.c_str());
  return added;
}

} // namespace kolo::tools
