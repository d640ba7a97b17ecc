// A file that is gone when nobody needs it any more.
#pragma once

#include "targets/TemporaryFolder.h"

#include <string>

namespace kolo::tools {

/// A path where no file is yet, in a TemporaryFolder of its own. What is written there may be loaded as code.
class TemporaryFile {
public:
  /// Throws ToolError (Usage) when the folder cannot be made.
  explicit TemporaryFile(const char *suffix);

  const std::string &path() const { return filePath; }
  /// For other files beside it.
  const std::string &folder() const { return directory.path(); }

private:
  TemporaryFolder directory;
  std::string filePath;
};

} // namespace kolo::tools
