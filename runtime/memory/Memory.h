// Memory: one mapping, private to this process or shared through a memfd. Nothing here has a name in any file system,
// so nothing is left behind when processes are killed.
#pragma once

#include "kolo/runtime/Status.h"

#include <sys/types.h>

#include <cstddef>

namespace kolo::runtime {

/// Owns a mapping and, where it was created shared, the descriptor that peers open it by.
class Memory {
public:
  Memory() = default;
  Memory(Memory &&other) noexcept { swap(other); }
  Memory &operator=(Memory &&other) noexcept {
    swap(other);
    return *this;
  }
  ~Memory();

  /// Zeroed, page aligned, already touched; from 2 MiB on, on huge pages where the kernel gives them (shared: from
  /// Linux 6.1 on, whatever its setting for shared memory is, if not "deny"). `sizeBytes` > 0. OutOfMemory: more than
  /// is available, found out before the kernel would have to kill somebody. SystemError.
  static Result<Memory> createPrivate(size_t sizeBytes);
  static Result<Memory> createShared(size_t sizeBytes);

  /// Maps what process `pid` created shared as descriptor `fd`, on the pages that it has there. SystemError,
  /// OutOfMemory.
  static Result<Memory> openPeer(pid_t pid, int fd, size_t sizeBytes);

  std::byte *data() const { return base; }
  size_t sizeBytes() const { return size; }
  /// -1 unless created shared.
  int fd() const { return descriptor; }

private:
  void swap(Memory &other) noexcept;
  Status map(size_t sizeBytes, int flags, int mappedFd);

  std::byte *base = nullptr;
  size_t size = 0;
  int descriptor = -1;
};

} // namespace kolo::runtime
