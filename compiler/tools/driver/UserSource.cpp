// A user's C++ file becomes choreographies in this process: compiled by the host's compiler, opened like a plug-in.
#include "driver/Compile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <cstdlib>
#include <dlfcn.h>

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

static std::string hostCompiler() {
  const char *named = std::getenv("CXX");
  std::string name = named && *named ? named : "c++";
  llvm::ErrorOr<std::string> path = llvm::sys::findProgramByName(name);
  if (!path)
    throw ToolError(ExitCode::Usage, "cannot find the C++ compiler '" + name + "'; set CXX to one");
  return *path;
}

static std::string temporaryFile(const char *suffix) {
  llvm::SmallString<128> path;
  if (std::error_code problem = llvm::sys::fs::createTemporaryFile("kolo-source", suffix, path))
    throw ToolError(ExitCode::Usage, "cannot write a temporary file: " + problem.message());
  return std::string(path.str());
}

static void buildLibrary(const std::string &source, const std::string &library) {
  std::string compiler = hostCompiler(), include = "-I" + includeDirectory(), log = temporaryFile("log");
  llvm::FileRemover removeLog(log);
  llvm::StringRef arguments[] = {compiler, "-std=c++20", "-shared", "-fPIC", "-O0", include, source, "-o", library};
  std::optional<llvm::StringRef> redirects[] = {std::nullopt, llvm::StringRef(log), llvm::StringRef(log)};
  int result = llvm::sys::ExecuteAndWait(compiler, arguments, std::nullopt, redirects);
  if (result == 0)
    return;
  auto text = llvm::MemoryBuffer::getFile(log);
  throw ToolError(ExitCode::Refused, source + " does not compile:\n" + (text ? (*text)->getBuffer().rtrim().str() : ""));
}

std::vector<dsl::Definition> loadUserSource(const std::string &path) {
  if (!llvm::sys::fs::is_regular_file(path))
    throw ToolError(ExitCode::Usage, "there is no file " + path);
  std::string library = temporaryFile("so");
  llvm::FileRemover removeLibrary(library);
  buildLibrary(path, library);
  size_t numBefore = dsl::registeredChoreographies().size();
  // Never closed: the definitions point into it.
  if (!dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL))
    throw ToolError(ExitCode::Refused, path + " cannot be loaded: " + dlerror());
  const std::vector<dsl::Definition> &all = dsl::registeredChoreographies();
  std::vector<dsl::Definition> added(all.begin() + ptrdiff_t(numBefore), all.end());
  if (added.empty())
    throw ToolError(ExitCode::Refused, path + " registers no choreography; use KOLO_COLLECTIVE");
  return added;
}

} // namespace kolo::tools
