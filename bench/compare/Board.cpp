#include "Board.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <ctime>

namespace kolo::bench {
namespace {

cpu_set_t allowedCores() {
  static const cpu_set_t cores = [] {
    cpu_set_t found;
    CPU_ZERO(&found);
    if (sched_getaffinity(0, sizeof(found), &found) != 0)
      CPU_SET(0, &found);
    return found;
  }();
  return cores;
}

uint32_t *wordOf(std::atomic<uint32_t> &value) { return reinterpret_cast<uint32_t *>(&value); }

void pauseOnce() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

} // namespace

Board::Board(BoardMemory *memory, int rankNumber, int numberOfRanks)
    : shared(memory), ownRank(rankNumber), size(numberOfRanks), isOversubscribed(numberOfRanks > numCores()) {
  shared->pids[rankNumber] = getpid();
}

void Board::barrier() {
  const uint32_t spinsBeforeYield = isOversubscribed ? 32 : 1 << 20;
  uint32_t phase = shared->phase.load(std::memory_order_relaxed);
  if (shared->arrived.fetch_add(1, std::memory_order_acq_rel) == static_cast<uint32_t>(size - 1)) {
    shared->arrived.store(0, std::memory_order_relaxed);
    shared->phase.store(phase + 1, std::memory_order_release);
    return;
  }
  for (uint32_t spins = 0; shared->phase.load(std::memory_order_acquire) == phase; ++spins) {
    if (spins < spinsBeforeYield)
      pauseOnce();
    else
      sched_yield();
    if (shared->hasFailed.load(std::memory_order_acquire))
      throw Failure(shared->failure);
  }
}

void Board::post(const Command &command) {
  shared->command = command;
  shared->numCommands.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, wordOf(shared->numCommands), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

Command Board::await() {
  while (shared->numCommands.load(std::memory_order_acquire) == numCommandsSeen) {
    timespec slice = {1, 0};
    syscall(SYS_futex, wordOf(shared->numCommands), FUTEX_WAIT, numCommandsSeen, &slice, nullptr, 0);
    if (shared->hasFailed.load(std::memory_order_acquire))
      throw Failure(shared->failure);
  }
  ++numCommandsSeen;
  return shared->command;
}

void Board::fail(const std::string &reason) {
  if (shared->isFailing.exchange(1) == 0) {
    std::snprintf(shared->failure, sizeof(shared->failure), "%s", reason.c_str());
    shared->hasFailed.store(1);
    return;
  }
  // Another rank's words come first, and are whole only then; that rank may have been killed.
  for (int milliseconds = 0; milliseconds < 1000 && !shared->hasFailed.load(); ++milliseconds)
    usleep(1000);
}

int createBoardFile() {
  int fd = memfd_create("kolo-bench", 0);
  if (fd >= 0 && ftruncate(fd, sizeof(BoardMemory)) == 0)
    return fd;
  return -1;
}

int openBoardFile(const std::string &path) {
  int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd >= 0 && ftruncate(fd, sizeof(BoardMemory)) == 0)
    return fd;
  return -1;
}

BoardMemory *mapBoard(int fd) {
  void *address = mmap(nullptr, sizeof(BoardMemory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return address == MAP_FAILED ? nullptr : static_cast<BoardMemory *>(address);
}

void pinToCore(int rank) {
  cpu_set_t cores = allowedCores();
  int wanted = rank % numCores();
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &cores) && wanted-- == 0) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      sched_setaffinity(0, sizeof(one), &one);
      return;
    }
}

int numCores() {
  cpu_set_t cores = allowedCores();
  return CPU_COUNT(&cores);
}

} // namespace kolo::bench
