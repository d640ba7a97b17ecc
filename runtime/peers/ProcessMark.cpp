#include "peers/ProcessMark.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

namespace kolo::runtime {
namespace {

/// Zero in a process that has made no mark yet.
std::atomic<uint32_t> *makeWord() {
  static std::atomic<uint32_t> ordinary; // where the kernel clears no pages: before Linux 4.14
  const auto pageBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void *page = mmap(nullptr, pageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page != MAP_FAILED && madvise(page, pageBytes, MADV_WIPEONFORK) == 0)
    return static_cast<std::atomic<uint32_t> *>(page);
  if (page != MAP_FAILED)
    munmap(page, pageBytes);
  pthread_atfork(nullptr, nullptr, [] { ordinary = 0; });
  return &ordinary;
}

} // namespace

ProcessMark::ProcessMark() {
  static std::atomic<uint32_t> *const mark = makeWord();
  number = static_cast<uint32_t>(getpid());
  *mark = number;
  word = reinterpret_cast<const volatile uint32_t *>(mark);
}

} // namespace kolo::runtime
