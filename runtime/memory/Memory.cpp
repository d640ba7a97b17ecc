#include "memory/Memory.h"

#include "Error.h"
#include "memory/AvailableMemory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace kolo::runtime {
namespace {

constexpr size_t hugePageBytes = size_t(2) << 20;
constexpr size_t populateStepBytes = size_t(64) << 20;
constexpr uint64_t reserveBytes = uint64_t(64) << 20; // left to the rest of the machine

Status checkAvailable(size_t neededBytes, size_t sizeBytes) {
  uint64_t available = availableMemoryBytes();
  uint64_t usable = available - std::min(available, reserveBytes);
  if (neededBytes <= usable)
    return {};
  return error(StatusCode::OutOfMemory, "cannot allocate {} bytes: {} more are needed, {} are available", sizeBytes,
               neededBytes, usable);
}

/// Touches a range where the kernel lacks MADV_POPULATE_WRITE. A memfd is allocated first, because to touch a page of
/// it that cannot be had is a fatal signal rather than an error.
Status populateByHand(std::byte *begin, size_t sizeBytes, int fd, size_t offset) {
  if (fd >= 0 && fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(sizeBytes)) != 0)
    return systemError("fallocate", errno);
  const auto pageBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (size_t at = 0; at < sizeBytes; at += pageBytes)
    *reinterpret_cast<volatile char *>(begin + at) = 0;
  return {};
}

/// Puts whole huge pages under a range of a memfd. A kernel whose setting for shared memory is "never", which is what
/// most have, gives it none on advice, but does when asked to collapse small pages, which have to be there: to allocate
/// them is cheap, since nothing clears them yet. Not an error where there are no huge pages, or no such request (before
/// Linux 6.1).
void collapseIntoHugePages(std::byte *begin, size_t sizeBytes, int fd, size_t offset) {
  size_t wholeBytes = sizeBytes / hugePageBytes * hugePageBytes;
  if (wholeBytes > 0 && fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(wholeBytes)) == 0)
    (void)madvise(begin, wholeBytes, MADV_COLLAPSE);
}

/// Touches everything, step by step, looking at what is left before each step: neither fallocate nor a page fault ever
/// says no, they go on until the kernel kills a process.
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

/// Addresses for `sizeBytes` that begin where a huge page can; nothing is mapped there yet.
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
  if (descriptor >= 0)
    close(descriptor);
}

void Memory::swap(Memory &other) noexcept {
  std::swap(base, other.base);
  std::swap(size, other.size);
  std::swap(descriptor, other.descriptor);
}

Status Memory::map(size_t sizeBytes, int flags, int mappedFd) {
  const bool isLarge = sizeBytes >= hugePageBytes;
  std::byte *place = nullptr;
  if (isLarge) {
    Result<std::byte *> reserved = reserveForHugePages(sizeBytes);
    if (!reserved.isOk())
      return reserved.status();
    place = *reserved;
  }
  void *address = mmap(place, sizeBytes, PROT_READ | PROT_WRITE, flags | (isLarge ? MAP_FIXED : 0), mappedFd, 0);
  if (address == MAP_FAILED) {
    Status status = systemError(fmt::format("mapping {} bytes", sizeBytes), errno);
    if (isLarge)
      munmap(place, sizeBytes);
    return status;
  }
  base = static_cast<std::byte *>(address);
  size = sizeBytes;
  if (isLarge)
    (void)madvise(base, size, MADV_HUGEPAGE); // advice: no huge pages is no error
  return {};
}

Result<Memory> Memory::createPrivate(size_t sizeBytes) {
  if (Status status = checkAvailable(sizeBytes, sizeBytes); !status.isOk())
    return status;
  Memory memory;
  Status status = memory.map(sizeBytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (status.isOk())
    status = populate(memory);
  if (!status.isOk())
    return status;
  return memory;
}

Result<Memory> Memory::createShared(size_t sizeBytes) {
  if (Status status = checkAvailable(sizeBytes, sizeBytes); !status.isOk())
    return status;
  Memory memory;
  memory.descriptor = memfd_create("kolo", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory.descriptor < 0)
    return systemError("memfd_create", errno);
  if (ftruncate(memory.descriptor, static_cast<off_t>(sizeBytes)) != 0)
    return systemError(fmt::format("sizing a memfd to {} bytes", sizeBytes), errno);
  // The size can no longer change, so no access through any mapping of it can be a fatal signal.
  if (fcntl(memory.descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return systemError("sealing a memfd", errno);
  Status status = memory.map(sizeBytes, MAP_SHARED, memory.descriptor);
  if (status.isOk())
    status = populate(memory);
  if (!status.isOk())
    return status;
  return memory;
}

Result<Memory> Memory::openPeer(pid_t pid, int fd, size_t sizeBytes) {
  std::string path = fmt::format("/proc/{}/fd/{}", pid, fd);
  int opened = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0)
    return systemError(fmt::format("opening {}, a peer's memory", path), errno);
  Memory memory;
  struct stat info = {};
  Status status;
  if (fstat(opened, &info) != 0 || static_cast<uint64_t>(info.st_size) != sizeBytes)
    status = error(StatusCode::SystemError, "{} is not the {} bytes that the peer announced", path, sizeBytes);
  else
    status = memory.map(sizeBytes, MAP_SHARED, opened);
  close(opened);
  if (!status.isOk())
    return status;
  (void)madvise(memory.base, memory.size, MADV_POPULATE_WRITE); // saves faults later; the pages exist already
  return memory;
}

} // namespace kolo::runtime
