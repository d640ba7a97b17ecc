// A folder for files that are gone when nobody needs them any more. The linker and the tools use it.
#pragma once

#include "llvm/Support/Error.h"

#include <string>

namespace kolo {

/// A new folder where temporary files belong ($TMPDIR, else /tmp), that only this user may enter. It holds files and no
/// folders, and is removed with this object, and when SIGHUP, SIGINT, SIGTERM or a crash end the process. What a
/// process left that was killed is removed by the next one that makes such a folder there.
class TemporaryFolder {
public:
  static llvm::Expected<TemporaryFolder> create();
  TemporaryFolder(TemporaryFolder &&other) noexcept;
  TemporaryFolder &operator=(TemporaryFolder &&) = delete;
  /// Does nothing in a forked child.
  ~TemporaryFolder();

  const std::string &path() const { return folder; }

private:
  TemporaryFolder(std::string path, int descriptor) : folder(std::move(path)), lock(descriptor) {}
  std::string folder;
  int lock; // of the folder; held as long as it is used. -1: moved from
};

} // namespace kolo
