// WatchedProcess: another process, as far as one sees whether it has ended. All communicators of this process share one
// for each, so their number does not matter to the limit of descriptors.
#pragma once

#include <sys/types.h>

#include <memory>

namespace kolo::runtime {

class WatchedProcess {
public:
  /// Of a process that lives; thread-safe. Null: the kernel has no pidfds (before Linux 5.3), or no descriptor is left.
  static std::shared_ptr<const WatchedProcess> watch(pid_t pid);

  ~WatchedProcess();
  WatchedProcess(const WatchedProcess &) = delete;
  WatchedProcess &operator=(const WatchedProcess &) = delete;

  /// Right also for a zombie, and if the kernel uses the number again. Makes a system call.
  bool hasEnded() const;

private:
  explicit WatchedProcess(int fd) : descriptor(fd) {}
  int descriptor;
};

} // namespace kolo::runtime
