#include "wait/Seat.h"

#include <array>

namespace kolo::runtime {

int findBetterCore(std::span<const int32_t> seated, size_t self, const cpu_set_t &allowed) {
  std::array<int, CPU_SETSIZE> numRanks = {};
  int32_t own = seated[self] - 1;
  if (own < 0 || own >= CPU_SETSIZE)
    return -1;
  for (size_t rank = 0; rank < seated.size(); ++rank) {
    if (seated[rank] == seated[self] && rank > self)
      return -1;
    if (seated[rank] > 0 && seated[rank] <= CPU_SETSIZE)
      ++numRanks[static_cast<size_t>(seated[rank] - 1)];
  }
  int fewest = -1;
  for (int step = 1; step < CPU_SETSIZE; ++step) { // a core near by, not always the first of all
    int core = (own + step) % CPU_SETSIZE;
    if (CPU_ISSET(core, &allowed) &&
        (fewest < 0 || numRanks[static_cast<size_t>(core)] < numRanks[static_cast<size_t>(fewest)]))
      fewest = core;
  }
  bool isBetter = fewest >= 0 && numRanks[static_cast<size_t>(own)] >= numRanks[static_cast<size_t>(fewest)] + 2;
  return isBetter ? fewest : -1;
}

void Seat::look() {
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    seated[rank] = ranks[rank]->load(std::memory_order_relaxed);
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
    return;
  int better = findBetterCore(seated, self, allowed);
  auto now = std::chrono::steady_clock::now();
  if (better < 0 || now - movedAt < leastStay)
    return;
  movedAt = now;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(better), &one);
  if (sched_setaffinity(0, sizeof(one), &one) == 0)        // the kernel moves this thread
    (void)sched_setaffinity(0, sizeof(allowed), &allowed); // and leaves it there
}

} // namespace kolo::runtime
