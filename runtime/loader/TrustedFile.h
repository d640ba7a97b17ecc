// TrustedFile: opens a file whose code this process will run. PluginFile reads it.
#pragma once

#include "kolo/runtime/Status.h"

#include <string>
#include <utility>

namespace kolo::runtime {

/// A file that is open for reading; closed with this object.
class OpenFile {
public:
  explicit OpenFile(int descriptor = -1) : fd(descriptor) {}
  OpenFile(OpenFile &&other) noexcept : fd(std::exchange(other.fd, -1)) {}
  OpenFile &operator=(OpenFile &&other) noexcept {
    std::swap(fd, other.fd);
    return *this;
  }
  ~OpenFile();
  int descriptor() const { return fd; }

private:
  int fd;
};

/// Opens the file if nobody but the user of this process and root can have written it, or can put another one in its
/// place. So it must belong to one of the two, and each folder on the way, through links too. Others may write a folder
/// only if it is sticky and what lies there belongs to one of the two. A group counts as others, but for root's and one
/// with the user's own number. Looks at what it has opened, so nobody can swap files in between.
///   BadPlugin    somebody else can; the message names the file or the folder, and what to do
///   SystemError  it cannot be opened
/// The message begins with the path.
Result<OpenFile> openTrusted(const std::string &path);

} // namespace kolo::runtime
