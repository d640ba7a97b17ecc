#include "SharedMemory.h"

#include "SipHash.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace kolo::nccl {

using runtime::Result;
using runtime::Status;
using runtime::StatusCode;

namespace {

enum class Purpose : uint64_t { Id, Child, Name };

/// Two hashes, of different messages.
Key hash(const SipKey &key, Purpose purpose, std::span<const std::byte> bytes) {
  std::vector<std::byte> message(sizeof(uint64_t));
  message.insert(message.end(), bytes.begin(), bytes.end());
  Key result;
  for (uint64_t half = 0; half < result.size(); ++half) {
    const uint64_t head = static_cast<uint64_t>(purpose) << 1 | half;
    std::memcpy(message.data(), &head, sizeof(head));
    result[half] = sipHash(key, message);
  }
  return result;
}

/// Everybody may list the names, so a name tells nothing of the key, from which those of its children come.
std::string nameOf(const Key &key, uint64_t host) {
  const Key shown = hash(key, Purpose::Name, std::as_bytes(std::span(&host, 1)));
  char name[96];
  std::snprintf(name, sizeof(name), "/kolo-nccl-%u-%016llx%016llx", geteuid(),
                static_cast<unsigned long long>(shown[0]), static_cast<unsigned long long>(shown[1]));
  return name;
}

/// An errno. New memory is zero. Where the file system is full, this fails, and not the first access.
int reserve(int file, size_t sizeBytes) {
  int code = 0;
  do
    code = posix_fallocate(file, 0, static_cast<off_t>(sizeBytes));
  while (code == EINTR);
  return code;
}

/// An errno. Another user may have made a file of this name, and would then write what the ranks read.
int checkOwner(int file) {
  struct stat info = {};
  if (fstat(file, &info) != 0)
    return errno;
  bool isOwn = info.st_uid == geteuid() && (info.st_mode & (S_IRWXG | S_IRWXO)) == 0;
  return isOwn && S_ISREG(info.st_mode) && info.st_nlink == 1 ? 0 : EPERM;
}

} // namespace

Key keyOf(const UniqueId &id) { return hash({}, Purpose::Id, std::as_bytes(std::span(&id, 1))); }

Key childOf(const Key &parent, Descent how, int64_t number, int64_t color) {
  const uint64_t all[] = {static_cast<uint64_t>(how), static_cast<uint64_t>(number), static_cast<uint64_t>(color)};
  return hash(parent, Purpose::Child, std::as_bytes(std::span(all)));
}

std::optional<Key> freshKey() {
  Key key = {};
  ssize_t got = 0;
  do
    got = getrandom(key.data(), sizeof(key), 0);
  while (got < 0 && errno == EINTR);
  return got == sizeof(key) ? std::optional(key) : std::nullopt;
}

Result<SharedMemory> SharedMemory::open(const Key &key, uint64_t host, size_t sizeBytes) {
  std::string name = nameOf(key, host);
  int file = shm_open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  int code = file < 0 ? errno : checkOwner(file);
  if (code == 0)
    code = reserve(file, sizeBytes);
  void *mapped = MAP_FAILED;
  if (code == 0) {
    mapped = mmap(nullptr, sizeBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    code = errno;
  }
  if (file >= 0)
    close(file);
  if (mapped != MAP_FAILED)
    return SharedMemory(mapped, sizeBytes, std::move(name));
  shm_unlink(name.c_str()); // without this rank the others forward their calls, whichever memory they find
  std::string why = code == EPERM ? "it was made by another user, or for others" : std::strerror(code);
  return Status(StatusCode::SystemError, "shared memory " + name + ": " + why);
}

SharedMemory::SharedMemory(SharedMemory &&other) noexcept
    : mapped(std::exchange(other.mapped, nullptr)), sizeBytes(other.sizeBytes), name(std::move(other.name)) {}

SharedMemory::~SharedMemory() {
  if (mapped)
    munmap(mapped, sizeBytes);
}

void SharedMemory::hide() { shm_unlink(name.c_str()); }

} // namespace kolo::nccl
