#include "driver/TemporaryFile.h"
#include "driver/ToolError.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"

namespace kolo::tools {

TemporaryFile::TemporaryFile(const char *suffix) {
  llvm::SmallString<128> path;
  if (std::error_code problem = llvm::sys::fs::createTemporaryFile("kolo", suffix, path)) {
    llvm::SmallString<128> directory;
    llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, directory);
    throw ToolError(ExitCode::Usage, "cannot write a temporary file in " + std::string(directory.str()) + ": " +
                                         problem.message() + "; set TMPDIR to another directory");
  }
  filePath = path.str();
  llvm::sys::RemoveFileOnSignal(filePath);
}

TemporaryFile::~TemporaryFile() {
  (void)llvm::sys::fs::remove(filePath);
  llvm::sys::DontRemoveFileOnSignal(filePath);
}

} // namespace kolo::tools
