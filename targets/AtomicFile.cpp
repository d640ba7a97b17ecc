#include "targets/AtomicFile.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

using namespace llvm;

namespace kolo {
namespace {

std::error_code lastError() { return {errno, std::generic_category()}; }

std::error_code write(int file, ArrayRef<StringRef> pieces) {
  raw_fd_ostream stream(file, /*shouldClose=*/false);
  for (StringRef piece : pieces)
    stream << piece;
  stream.flush();
  std::error_code code = stream.error();
  stream.clear_error(); // or its destructor ends the process
  return code;
}

/// Gives a file without a name this one. One that has it is replaced by way of another name, which a kill between two
/// system calls leaves.
std::error_code giveName(int file, const std::string &path) {
  const std::string unnamed = "/proc/self/fd/" + std::to_string(file);
  auto link = [&](const std::string &name) {
    return linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0 ? std::error_code()
                                                                                             : lastError();
  };
  std::error_code code = link(path);
  if (code != std::errc::file_exists)
    return code;
  SmallString<128> between;
  do {
    sys::fs::createUniquePath(path + ".temp-stream-%%%%%%", between, /*MakeAbsolute=*/false);
    code = link(between.str().str());
  } while (code == std::errc::file_exists);
  if (!code && rename(between.c_str(), path.c_str()) != 0) {
    code = lastError();
    (void)unlink(between.c_str());
  }
  return code;
}

Error writeByName(StringRef path, ArrayRef<StringRef> pieces, unsigned mode) {
  Expected<sys::fs::TempFile> file = sys::fs::TempFile::create(path + ".temp-stream-%%%%%%", mode);
  if (!file)
    return file.takeError();
  if (std::error_code code = write(file->FD, pieces)) {
    consumeError(file->discard());
    return errorCodeToError(code);
  }
  return file->keep(path);
}

} // namespace

Error writeAtomically(StringRef path, ArrayRef<StringRef> pieces, unsigned mode) {
  const StringRef folder = sys::path::parent_path(path);
  const int file = open(folder.empty() ? "." : folder.str().c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
  if (file < 0) // a file system or kernel that gives every file a name, or another error, which is then met again
    return writeByName(path, pieces, mode);
  const scope_exit closed([&] { close(file); });
  std::error_code code = write(file, pieces);
  return errorCodeToError(code ? code : giveName(file, path.str()));
}

} // namespace kolo
