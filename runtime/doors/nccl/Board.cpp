#include "Board.h"

#include "SipHash.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

namespace kolo::nccl {

using runtime::Result;
using runtime::Status;
using runtime::StatusCode;

namespace {

constexpr size_t slotBytes = 512;
constexpr uint32_t numRounds = 2;
constexpr auto longestWait = std::chrono::minutes(2); // between ranks that have all returned from the real library

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

struct BoardMemory {
  struct Entry {
    Note note;
    std::atomic<int32_t> isPinned;
  };
  std::atomic<uint32_t> numPinned;
  std::atomic<uint32_t> numArrived[numRounds];
  Entry entries[Board::mostRanks];
  std::byte slots[numRounds][Board::mostRanks][slotBytes];
};

Key keyOf(const UniqueId &id) { return hash({}, Purpose::Id, std::as_bytes(std::span(&id, 1))); }

Key childOf(const Key &parent, uint64_t how, int64_t number, int64_t color) {
  const uint64_t all[] = {how, static_cast<uint64_t>(number), static_cast<uint64_t>(color)};
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

Result<std::shared_ptr<Board>> Board::pin(const Key &key, const Note &own) {
  std::string name = nameOf(key, own.host);
  int file = shm_open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  int code = file < 0 ? errno : checkOwner(file);
  if (code == 0)
    code = reserve(file, sizeof(BoardMemory));
  void *mapped = MAP_FAILED;
  if (code == 0) {
    mapped = mmap(nullptr, sizeof(BoardMemory), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    code = errno;
  }
  if (file >= 0)
    close(file);
  if (mapped == MAP_FAILED) {
    shm_unlink(name.c_str()); // without this rank the others forward their calls, whichever memory they find
    std::string why = code == EPERM ? "it was made by another user, or for others" : std::strerror(code);
    return Status(StatusCode::SystemError, "shared memory " + name + ": " + why);
  }
  auto *memory = static_cast<BoardMemory *>(mapped);
  uint32_t number = memory->numPinned.fetch_add(1);
  if (number < mostRanks) {
    memory->entries[number].note = own;
    memory->entries[number].isPinned.store(1, std::memory_order_release);
  }
  return std::shared_ptr<Board>(new Board(memory, name));
}

Board::~Board() { munmap(memory, sizeof(BoardMemory)); }

std::vector<Note> Board::notes() const {
  std::vector<Note> all;
  for (const BoardMemory::Entry &entry : memory->entries)
    if (entry.isPinned.load(std::memory_order_acquire))
      all.push_back(entry.note);
  return all;
}

void Board::hide() { shm_unlink(name.c_str()); } // the other ranks have opened it

Status Board::gather(int rank, int numRanks, const void *own, size_t sizeBytes, void *all) {
  if (sizeBytes > slotBytes || round >= numRounds)
    return {StatusCode::InvalidArgument, "a board gathers twice, and 512 bytes"};
  auto &slots = memory->slots[round];
  std::memcpy(slots[rank], own, sizeBytes);
  std::atomic<uint32_t> &numArrived = memory->numArrived[round++];
  numArrived.fetch_add(1, std::memory_order_acq_rel);
  auto until = std::chrono::steady_clock::now() + longestWait;
  while (numArrived.load(std::memory_order_acquire) < static_cast<uint32_t>(numRanks)) {
    if (std::chrono::steady_clock::now() > until)
      return {StatusCode::Timeout, "a rank that was there does not come to the exchange"};
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  for (int peer = 0; peer < numRanks; ++peer)
    std::memcpy(static_cast<std::byte *>(all) + static_cast<size_t>(peer) * sizeBytes, slots[peer], sizeBytes);
  return {};
}

} // namespace kolo::nccl
