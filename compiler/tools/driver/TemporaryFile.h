// A file that is gone when nobody needs it any more.
#pragma once

#include <string>

namespace kolo::tools {

/// An empty file where temporary files belong ($TMPDIR, else /tmp); removed with this object, and when a signal ends
/// the process.
class TemporaryFile {
public:
  /// Throws ToolError (Usage) when it cannot be made.
  explicit TemporaryFile(const char *suffix);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile &) = delete;
  TemporaryFile &operator=(const TemporaryFile &) = delete;

  const std::string &path() const { return filePath; }

private:
  std::string filePath;
};

} // namespace kolo::tools
