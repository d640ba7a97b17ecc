#include "targets/TemporaryFolder.h"

#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <mutex>

using namespace llvm;

namespace kolo {

namespace {

constexpr StringLiteral prefix = "kolo-temporary-", suffix = "XXXXXX";

/// Folders in use, for signal handlers: owned copies of their paths, never freed while they stand here.
constexpr size_t mostFolders = 64;
std::array<std::atomic<const char *>, mostFolders> folders;
std::atomic<int> creator;

constexpr int endingSignals[] = {SIGHUP, SIGINT, SIGTERM};
std::array<struct sigaction, std::size(endingSignals)> previous;

/// Only calls that a signal handler may make.
void empty(int folder) {
  alignas(dirent64) char entries[4096];
  while (true) {
    long bytes = syscall(SYS_getdents64, folder, entries, sizeof(entries));
    if (bytes <= 0)
      return;
    for (long at = 0; at < bytes;) {
      auto *entry = reinterpret_cast<dirent64 *>(entries + at);
      unlinkat(folder, entry->d_name, 0); // of "." and "..": fails
      at += entry->d_reclen;
    }
  }
}

void removeFolder(const char *path) {
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0)
    return;
  empty(folder);
  close(folder);
  rmdir(path);
}

void removeAll() {
  if (creator.load() == getpid())
    for (auto &entry : folders)
      if (const char *path = entry.exchange(nullptr))
        removeFolder(path);
}

/// Removes the folders, and has the signal do what it did before.
void onSignal(int number) {
  int code = errno;
  removeAll();
  for (size_t index = 0; index < std::size(endingSignals); ++index)
    if (endingSignals[index] == number)
      sigaction(number, &previous[index], nullptr);
  raise(number);
  errno = code;
}

/// LLVM handles the signals of crashes, on a stack of their own.
void handleSignals() {
  sys::AddSignalHandler([](void *) { removeAll(); }, nullptr);
  struct sigaction action = {};
  action.sa_handler = onSignal;
  for (size_t index = 0; index < std::size(endingSignals); ++index) {
    sigaction(endingSignals[index], nullptr, &previous[index]);
    if (previous[index].sa_handler != SIG_IGN)
      sigaction(endingSignals[index], &action, nullptr);
  }
}

/// Locked by whoever uses it; a process that is killed loses its locks. Some file systems have none: then nobody takes
/// the folder for one that was left.
enum class Lock : uint8_t { Held, Taken, None };
Lock lockFolder(int folder) {
  struct stat info = {};
  if (flock(folder, LOCK_EX | LOCK_NB) != 0)
    return errno == EWOULDBLOCK ? Lock::Taken : Lock::None;
  return fstat(folder, &info) == 0 && info.st_nlink > 0 ? Lock::Held : Lock::Taken;
}

/// Removes folders of this user that no process has locked.
void removeStale(const std::string &directory) {
  std::error_code ignored;
  for (const auto &entry : std::filesystem::directory_iterator(directory, ignored)) {
    std::string path = entry.path().string(), name = entry.path().filename().string();
    if (name.size() != prefix.size() + suffix.size() || !StringRef(name).starts_with(prefix))
      continue;
    int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat info = {};
    if (folder >= 0 && fstat(folder, &info) == 0 && info.st_uid == geteuid() && lockFolder(folder) == Lock::Held) {
      empty(folder);
      rmdir(path.c_str());
    }
    if (folder >= 0)
      close(folder);
  }
}

Error cannotMake(const std::string &directory, int code) {
  return createStringError("cannot write a temporary file in " + directory + ": " + std::strerror(code) +
                           "; set TMPDIR to another directory");
}

} // namespace

Expected<TemporaryFolder> TemporaryFolder::create() {
  SmallString<128> directory;
  sys::path::system_temp_directory(/*ErasedOnReboot=*/true, directory);
  std::error_code problem;
  directory = std::filesystem::absolute(directory.str().str(), problem).string(); // programs take -d for an option
  if (problem)
    return cannotMake(directory.str().str(), problem.value());
  static std::once_flag isPrepared;
  std::call_once(isPrepared, [&] {
    removeStale(directory.str().str());
    handleSignals();
  });
  if (creator.exchange(getpid()) != getpid()) // a forked child removes nothing of its parent
    for (auto &entry : folders)
      entry.store(nullptr);
  while (true) {
    std::string path = (directory + "/" + prefix + suffix).str();
    if (!mkdtemp(path.data()))
      return cannotMake(directory.str().str(), errno);
    int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int code = errno;
    bool isTaken = folder < 0 ? code == ENOENT : lockFolder(folder) == Lock::Taken;
    if (isTaken) { // another process took it for one that was left, and may have removed it before it was opened here
      if (folder >= 0)
        close(folder);
      continue;
    }
    if (folder < 0) {
      rmdir(path.c_str());
      return cannotMake(directory.str().str(), code);
    }
    char *copy = strdup(path.c_str());
    const char *none = nullptr;
    bool isKept = std::any_of(folders.begin(), folders.end(), [&](auto &entry) {
      none = nullptr;
      return entry.compare_exchange_strong(none, copy);
    });
    if (!isKept)
      free(copy);
    return TemporaryFolder(std::move(path), folder);
  }
}

TemporaryFolder::TemporaryFolder(TemporaryFolder &&other) noexcept
    : folder(std::move(other.folder)), lock(std::exchange(other.lock, -1)) {}

TemporaryFolder::~TemporaryFolder() {
  if (lock < 0)
    return;
  if (creator.load() == getpid()) {
    removeFolder(folder.c_str());
    for (auto &entry : folders)
      if (const char *path = entry.load(); path && folder == path && entry.exchange(nullptr))
        break; // its text stays: a signal handler may be reading it
  }
  close(lock);
}

} // namespace kolo
