#include "wait/Wait.h"

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <climits>
#include <ctime>

namespace kolo::runtime {
namespace {

/// A futex compares 32 bits. The low half changes with the number and with the mark.
uint32_t *futexWord(std::atomic<uint64_t> &word) {
  auto *words = reinterpret_cast<uint32_t *>(&word);
  return std::endian::native == std::endian::little ? words : words + 1;
}

} // namespace

void Counter::sleep(uint64_t target, int64_t mostUs) {
  uint64_t seen = word.load(std::memory_order_acquire);
  while (seen < 2 * target && (seen & 1) == 0)
    if (word.compare_exchange_weak(seen, seen | 1, std::memory_order_seq_cst, std::memory_order_acquire))
      seen |= 1;
  if (seen >= 2 * target)
    return;
  timespec interval = {0, mostUs * 1000L};
  // Returns at once if the word has changed. The caller's loop handles signals and spurious wake-ups. The mark stays
  // when the time is over, because others may sleep on it.
  syscall(SYS_futex, futexWord(word), FUTEX_WAIT, static_cast<uint32_t>(seen), &interval, nullptr, 0);
}

PreciseTimers::PreciseTimers() : slackNs(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0)) {
  if (slackNs > 1)
    (void)prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
}

PreciseTimers::~PreciseTimers() {
  if (slackNs > 1)
    (void)prctl(PR_SET_TIMERSLACK, slackNs, 0, 0, 0);
}

void Counter::wakeAll() { syscall(SYS_futex, futexWord(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

WaitPolicy choosePolicy(WaitMode mode, bool hasOwnCore) {
  // With 4 and 8 ranks on two cores, calls with 64 spins take twice as long as with 8; with 8, as long as with none.
  constexpr uint32_t longSpins = 1 << 15, briefSpins = 1 << 3, someYields = 1 << 10;
  switch (mode) {
  case WaitMode::Spin:
    return {longSpins, 0, false};
  case WaitMode::Yield:
    return {briefSpins, someYields, false};
  case WaitMode::Sleep:
    return {briefSpins, 0, true};
  case WaitMode::Auto:
    break;
  }
  return {hasOwnCore ? longSpins : briefSpins, someYields, true};
}

} // namespace kolo::runtime
