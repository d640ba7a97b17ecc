#include "loader/TrustedFile.h"

#include "base/Error.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <deque>
#include <filesystem>
#include <fstream>

namespace kolo::runtime {
namespace {

bool isOwn(const struct stat &info) { return info.st_uid == geteuid() || info.st_uid == 0; }

/// Many systems give every user a group of the same number, for this user alone.
bool isWritableByOthers(const struct stat &info) {
  bool isOwnGroup = info.st_gid == 0 || info.st_gid == geteuid();
  return (info.st_mode & S_IWOTH) != 0 || ((info.st_mode & S_IWGRP) != 0 && !isOwnGroup);
}

/// In a user namespace the folders of root outside have the number of nobody. What lies in them is still looked at.
bool isOutsideOwner(const struct stat &info) {
  constexpr unsigned all = UINT_MAX;
  unsigned inside = 0, outside = 0, number = 0, nobody = 65534;
  std::ifstream("/proc/self/uid_map") >> inside >> outside >> number;
  std::ifstream("/proc/sys/kernel/overflowuid") >> nobody;
  return number != all && info.st_uid == nobody;
}

/// Follows a path from folder to folder, each opened before it is looked at.
class Walk {
public:
  explicit Walk(const std::string &path) : path(path) {}

  Result<OpenFile> run() {
    std::error_code problem;
    push(std::filesystem::absolute(path, problem).string());
    if (problem)
      return systemError(fmt::format("{}: cannot be opened", path), problem.value());
    if (Status status = startAtRoot(); !status.isOk())
      return status;
    while (!names.empty()) {
      std::string name = std::move(names.front());
      names.pop_front();
      bool isLast = names.empty();
      struct stat entry = {};
      if (fstatat(folder.descriptor(), name.c_str(), &entry, AT_SYMLINK_NOFOLLOW) != 0)
        return cannotOpen();
      if (Status status = checkEntry(name, entry); !status.isOk())
        return status;
      if (!S_ISLNK(entry.st_mode) && isLast)
        return openLast(name);
      if (Status status = S_ISLNK(entry.st_mode) ? follow(name) : enter(name); !status.isOk())
        return status;
    }
    return error(StatusCode::BadPlugin, "{}: is not a regular file", path);
  }

private:
  void push(const std::string &text) {
    std::deque<std::string> added;
    for (size_t at = 0; at < text.size();) {
      size_t end = std::min(text.find('/', at), text.size());
      if (std::string name = text.substr(at, end - at); !name.empty() && name != ".")
        added.push_back(name);
      at = end + 1;
    }
    names.insert(names.begin(), added.begin(), added.end());
  }

  Status cannotOpen() const { return limitError(fmt::format("{}: cannot be opened", path), errno); }

  Status startAtRoot() {
    where.clear();
    return adopt(OpenFile(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)));
  }

  Status enter(const std::string &name) {
    where += "/" + name;
    return adopt(OpenFile(openat(folder.descriptor(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)));
  }

  /// Checks who may put other things into the folder.
  Status adopt(OpenFile opened) {
    if (opened.descriptor() < 0 || fstat(opened.descriptor(), &info) != 0)
      return cannotOpen();
    folder = std::move(opened);
    if (!isOwn(info) && !isOutsideOwner(info))
      return error(StatusCode::BadPlugin, "{}: the folder {} belongs to user {}, who could put another file there",
                   path, folderName(), info.st_uid);
    if (isWritableByOthers(info) && (info.st_mode & S_ISVTX) == 0)
      return error(StatusCode::BadPlugin,
                   "{}: others may write the folder {}, so they could put another file there: chmod go-w it", path,
                   folderName());
    return {};
  }

  /// In a sticky folder, such as /tmp, everybody keeps what is his own.
  Status checkEntry(const std::string &name, const struct stat &entry) const {
    if (!isWritableByOthers(info) || isOwn(entry))
      return {};
    return error(StatusCode::BadPlugin, "{}: {}/{} belongs to user {}, in a folder where others may write", path, where,
                 name, entry.st_uid);
  }

  Status follow(const std::string &name) {
    constexpr int mostLinks = 40; // as the kernel's
    std::array<char, PATH_MAX> target;
    ssize_t length = readlinkat(folder.descriptor(), name.c_str(), target.data(), target.size());
    if (++numLinks > mostLinks)
      errno = ELOOP;
    if (length < 0 || numLinks > mostLinks)
      return cannotOpen();
    std::string text(target.data(), static_cast<size_t>(length));
    push(text);
    return text.starts_with('/') ? startAtRoot() : Status();
  }

  Result<OpenFile> openLast(const std::string &name) const {
    // O_NONBLOCK: a path that names a pipe must not hang.
    OpenFile file(openat(folder.descriptor(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    struct stat found = {};
    if (file.descriptor() < 0 || fstat(file.descriptor(), &found) != 0)
      return cannotOpen();
    if (!isOwn(found))
      return error(StatusCode::BadPlugin, "{}: belongs to user {}, not to user {} or root", path, found.st_uid,
                   geteuid());
    if (isWritableByOthers(found))
      return error(StatusCode::BadPlugin, "{}: others may write this file: chmod go-w it", path);
    return file;
  }

  std::string folderName() const { return where.empty() ? "/" : where; }

  const std::string &path;
  std::deque<std::string> names; // still to go
  std::string where;             // the folder, for messages
  OpenFile folder;
  struct stat info = {}; // of the folder
  int numLinks = 0;
};

} // namespace

OpenFile::~OpenFile() {
  if (fd >= 0)
    close(fd);
}

Result<OpenFile> openTrusted(const std::string &path) { return Walk(path).run(); }

} // namespace kolo::runtime
