// Memory: one mapping, private to this process or shared through a memfd. It has no name in any file system, so nothing
// remains when processes are killed.
#pragma once

#include "kolo/runtime/Status.h"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace kolo::runtime {

/// Owns a mapping and, if it was created shared, the descriptor through which peers open it.
class Memory {
public:
  Memory() = default;
  Memory(Memory &&other) noexcept { swap(other); }
  Memory &operator=(Memory &&other) noexcept {
    swap(other);
    return *this;
  }
  ~Memory();

  /// Make zeroed, page-aligned memory and touch all of it. `sizeBytes` > 0. From 2 MiB on it is on huge pages where the
  /// kernel gives them. For shared memory that is Linux 6.1 or later, with any `shmem_enabled` but "deny".
  /// OutOfMemory: less is available, because the runtime asks before the kernel would kill a process; or there is no
  /// descriptor left, or the limit of file sizes is smaller. SystemError.
  static Result<Memory> createPrivate(size_t sizeBytes);
  static Result<Memory> createShared(size_t sizeBytes);

  /// As createShared, but touches nothing: the kernel gives a page when somebody first uses it. Whoever uses more than
  /// there is gets killed, as with malloc. OutOfMemory as above, but for what is available. SystemError.
  static Result<Memory> reserveShared(size_t sizeBytes);

  /// The same on small pages, of which the first `touchedBytes` are touched. OutOfMemory, also if less than those are
  /// available. SystemError.
  static Result<Memory> createSparse(size_t sizeBytes, size_t touchedBytes);

  /// Maps memory that process `pid` created shared with descriptor `fd`; `isSparse`: by createSparse. SystemError,
  /// OutOfMemory.
  static Result<Memory> openPeer(pid_t pid, int fd, size_t sizeBytes, bool isSparse = false);

  std::byte *data() const { return base; }
  size_t sizeBytes() const { return size; }
  /// -1 unless created shared.
  int fd() const { return descriptor; }
  /// Afterwards no other process can open it any more. Those that have, keep it.
  void closeDescriptor();

  /// Gives the pages back to the kernel. All mappings stay, and whoever touches a page gets a new one of zeros.
  void giveBack() const;
  /// Whether there is memory for all pages, which may have been given back. OutOfMemory.
  Status takeAgain() const;

private:
  enum class Pages : uint8_t { Huge, Small };
  static Result<Memory> mapShared(size_t sizeBytes, Pages pages);
  void swap(Memory &other) noexcept;
  Status map(size_t sizeBytes, int flags, int mappedFd, Pages pages);

  std::byte *base = nullptr;
  size_t size = 0;
  int descriptor = -1;
  bool isShared = false;
};

} // namespace kolo::runtime
