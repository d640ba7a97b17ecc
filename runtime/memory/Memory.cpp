#include "memory/Memory.h"

#include "base/Error.h"
#include "memory/ControlGroups.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace kolo::runtime {
namespace {

/// Bytes that this process can touch before the kernel kills processes: MemAvailable, or less where a control group has
/// a limit. What cannot be read counts as unlimited. A snapshot: others allocate at the same time.
uint64_t availableMemoryBytes() {
  std::optional<uint64_t> kilobytes = readNumber("/proc/meminfo", "MemAvailable:");
  return std::min(kilobytes ? *kilobytes * 1024 : UINT64_MAX, leftInControlGroups());
}

constexpr size_t hugePageBytes = size_t(2) << 20;
constexpr size_t populateStepBytes = size_t(64) << 20;
constexpr uint64_t reserveBytes = uint64_t(64) << 20; // left to other processes

Status checkAvailable(size_t neededBytes, size_t sizeBytes) {
  uint64_t available = availableMemoryBytes();
  uint64_t usable = available - std::min(available, reserveBytes);
  if (neededBytes <= usable)
    return {};
  return error(StatusCode::OutOfMemory, "cannot allocate {} bytes: {} more are needed, {} are available", sizeBytes,
               neededBytes, usable);
}

/// Touches a range where the kernel lacks MADV_POPULATE_WRITE. For a memfd it calls fallocate first, because touching a
/// page that the kernel cannot allocate is a fatal signal, not an error.
Status populateByHand(std::byte *begin, size_t sizeBytes, int fd, size_t offset) {
  if (fd >= 0 && fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(sizeBytes)) != 0)
    return limitError("fallocate", errno);
  const auto pageBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (size_t at = 0; at < sizeBytes; at += pageBytes)
    *reinterpret_cast<volatile char *>(begin + at) = 0;
  return {};
}

/// Puts whole huge pages under a range of a memfd. Most kernels have `shmem_enabled` "never" and ignore advice, but
/// they collapse existing small pages on request. So this allocates small pages first, which is cheap because the
/// kernel does not clear them yet. It is no error if the kernel has no huge pages, or no such request (before
/// Linux 6.1).
void collapseIntoHugePages(std::byte *begin, size_t sizeBytes, int fd, size_t offset) {
  size_t wholeBytes = sizeBytes / hugePageBytes * hugePageBytes;
  if (wholeBytes > 0 && fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(wholeBytes)) == 0)
    (void)madvise(begin, wholeBytes, MADV_COLLAPSE);
}

/// Touches all memory step by step, and checks before each step what is available. fallocate and page faults do not
/// fail when memory runs out: the kernel kills a process instead.
Status populate(const Memory &memory) {
  for (size_t at = 0; at < memory.sizeBytes(); at += populateStepBytes) {
    size_t step = std::min(populateStepBytes, memory.sizeBytes() - at);
    if (Status status = checkAvailable(step, memory.sizeBytes()); !status.isOk())
      return status;
    if (memory.fd() >= 0)
      collapseIntoHugePages(memory.data() + at, step, memory.fd(), at);
    if (madvise(memory.data() + at, step, MADV_POPULATE_WRITE) == 0)
      continue;
    if (errno != EINVAL)
      return error(StatusCode::OutOfMemory, "cannot touch {} bytes of memory: {}", memory.sizeBytes(),
                   strerrordesc_np(errno));
    if (Status status = populateByHand(memory.data() + at, step, memory.fd(), at); !status.isOk())
      return status;
  }
  return {};
}

/// Reserves addresses for `sizeBytes` at the alignment of a huge page, and maps nothing there yet.
Result<std::byte *> reserveForHugePages(size_t sizeBytes) {
  const auto pageBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t neededBytes = (sizeBytes + pageBytes - 1) / pageBytes * pageBytes;
  const size_t reservedBytes = neededBytes + hugePageBytes;
  void *reserved = mmap(nullptr, reservedBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED)
    return systemError(fmt::format("reserving addresses for {} bytes", sizeBytes), errno);
  auto *begin = static_cast<std::byte *>(reserved);
  const size_t before = (hugePageBytes - reinterpret_cast<uintptr_t>(begin) % hugePageBytes) % hugePageBytes;
  const size_t after = hugePageBytes - before;
  if (before > 0)
    munmap(begin, before);
  munmap(begin + before + neededBytes, after);
  return begin + before;
}

} // namespace

Memory::~Memory() {
  if (base)
    munmap(base, size);
  closeDescriptor();
}

void Memory::closeDescriptor() {
  if (descriptor >= 0)
    close(descriptor);
  descriptor = -1;
}

void Memory::giveBack() const { (void)madvise(base, size, isShared ? MADV_REMOVE : MADV_DONTNEED); }

Status Memory::takeAgain() const { return checkAvailable(size, size); }

void Memory::swap(Memory &other) noexcept {
  std::swap(base, other.base);
  std::swap(size, other.size);
  std::swap(descriptor, other.descriptor);
  std::swap(isShared, other.isShared);
}

Status Memory::map(size_t sizeBytes, int flags, int mappedFd, Pages pages) {
  const bool isLarge = sizeBytes >= hugePageBytes && pages == Pages::Huge;
  std::byte *wanted = nullptr;
  if (isLarge) {
    Result<std::byte *> reserved = reserveForHugePages(sizeBytes);
    if (!reserved.isOk())
      return reserved.status();
    wanted = *reserved;
  }
  void *address = mmap(wanted, sizeBytes, PROT_READ | PROT_WRITE, flags | (isLarge ? MAP_FIXED : 0), mappedFd, 0);
  if (address == MAP_FAILED) {
    Status status = systemError(fmt::format("mapping {} bytes", sizeBytes), errno);
    if (isLarge)
      munmap(wanted, sizeBytes);
    return status;
  }
  base = static_cast<std::byte *>(address);
  size = sizeBytes;
  isShared = mappedFd >= 0;
  if (isLarge || pages == Pages::Small)
    (void)madvise(base, size, isLarge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE); // only advice
  return {};
}

Result<Memory> Memory::createPrivate(size_t sizeBytes) {
  if (Status status = checkAvailable(sizeBytes, sizeBytes); !status.isOk())
    return status;
  Memory memory;
  Status status = memory.map(sizeBytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, Pages::Huge);
  if (status.isOk())
    status = populate(memory);
  if (!status.isOk())
    return status;
  return memory;
}

Result<Memory> Memory::mapShared(size_t sizeBytes, Pages pages) {
  Memory memory;
  // Where vm.memfd_noexec is 2, the kernel makes no other ones.
  memory.descriptor = memfd_create("kolo", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (memory.descriptor < 0 && errno == EINVAL) // kernels before 6.3
    memory.descriptor = memfd_create("kolo", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory.descriptor < 0)
    return limitError("memfd_create", errno);
  rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < sizeBytes) // ftruncate would be a fatal signal
    return error(StatusCode::OutOfMemory, "sizing a memfd to {} bytes: the limit of file sizes is {} (ulimit -f)",
                 sizeBytes, limit.rlim_cur);
  if (ftruncate(memory.descriptor, static_cast<off_t>(sizeBytes)) != 0)
    return systemError(fmt::format("sizing a memfd to {} bytes", sizeBytes), errno);
  // The size cannot change any more, so an access through a mapping is never a fatal signal.
  if (fcntl(memory.descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return systemError("sealing a memfd", errno);
  if (Status status = memory.map(sizeBytes, MAP_SHARED, memory.descriptor, pages); !status.isOk())
    return status;
  return memory;
}

Result<Memory> Memory::createShared(size_t sizeBytes) {
  if (Status status = checkAvailable(sizeBytes, sizeBytes); !status.isOk())
    return status;
  Result<Memory> memory = mapShared(sizeBytes, Pages::Huge);
  if (!memory.isOk())
    return memory;
  if (Status status = populate(*memory); !status.isOk())
    return status;
  return memory;
}

Result<Memory> Memory::reserveShared(size_t sizeBytes) { return mapShared(sizeBytes, Pages::Huge); }

Result<Memory> Memory::createSparse(size_t sizeBytes, size_t touchedBytes) {
  if (Status status = checkAvailable(touchedBytes, touchedBytes); !status.isOk())
    return status;
  Result<Memory> memory = mapShared(sizeBytes, Pages::Small);
  if (!memory.isOk() || touchedBytes == 0)
    return memory;
  if (Status status = populateByHand(memory->data(), touchedBytes, memory->fd(), 0); !status.isOk())
    return status;
  return memory;
}

Result<Memory> Memory::openPeer(pid_t pid, int fd, size_t sizeBytes, bool isSparse) {
  std::string path = fmt::format("/proc/{}/fd/{}", pid, fd);
  int opened = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0)
    return limitError(fmt::format("opening {}, a peer's memory", path), errno);
  Memory memory;
  struct stat info = {};
  Status status;
  if (fstat(opened, &info) != 0 || static_cast<uint64_t>(info.st_size) != sizeBytes)
    status = error(StatusCode::SystemError, "{} is not the {} bytes that the peer announced", path, sizeBytes);
  else
    status = memory.map(sizeBytes, MAP_SHARED, opened, isSparse ? Pages::Small : Pages::Huge);
  close(opened);
  if (!status.isOk())
    return status;
  constexpr uint64_t blockBytes = 512;                                              // of st_blocks
  if (!isSparse && static_cast<uint64_t>(info.st_blocks) * blockBytes >= sizeBytes) // else it was only reserved
    (void)madvise(memory.base, memory.size, MADV_POPULATE_WRITE);                   // saves page faults later
  return memory;
}

} // namespace kolo::runtime
