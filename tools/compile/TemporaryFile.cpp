#include "tools/compile/TemporaryFile.h"
#include "tools/compile/ToolError.h"

namespace kolo::tools {

static TemporaryFolder makeFolder() {
  llvm::Expected<TemporaryFolder> made = TemporaryFolder::create();
  if (!made)
    throw ToolError(ExitCode::Usage, llvm::toString(made.takeError()));
  return std::move(*made);
}

TemporaryFile::TemporaryFile(const char *suffix)
    : directory(makeFolder()), filePath(directory.path() + "/file." + suffix) {}

} // namespace kolo::tools
