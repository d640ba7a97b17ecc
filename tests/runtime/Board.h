// Board: an all-gather through memory that threads and forked children share, for Communicator::create.
#pragma once

#include "kolo/runtime/Communicator.h"

#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace kolo::test {

/// Made before the ranks are. Holds as many communicators, one after another, as its ranks make.
class Board {
public:
  explicit Board(int numRanks)
      : size(numRanks), sizeBytes(sizeof(Slot) * static_cast<size_t>(numRanks)),
        slots(
            static_cast<Slot *>(mmap(nullptr, sizeBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    if (slots == MAP_FAILED)
      std::abort();
  }
  ~Board() { munmap(slots, sizeBytes); }
  Board(const Board &) = delete;
  Board &operator=(const Board &) = delete;

  /// One rank's end. Two turns are enough, as in the runtime's Exchange.
  runtime::AllGather allGather(int rank) {
    return [this, rank](const void *own, size_t ownBytes, void *all) -> runtime::Status {
      uint32_t round = slots[rank].rounds.load() + 1;
      std::memcpy(slots[rank].bytes[round % 2], own, ownBytes);
      slots[rank].rounds.store(round);
      for (int peer = 0; peer < size; ++peer) {
        while (slots[peer].rounds.load() < round)
          sched_yield();
        std::memcpy(static_cast<std::byte *>(all) + static_cast<size_t>(peer) * ownBytes, slots[peer].bytes[round % 2],
                    ownBytes);
      }
      return {};
    };
  }

private:
  struct Slot {
    std::atomic<uint32_t> rounds;
    std::byte bytes[2][512];
  };
  int size;
  size_t sizeBytes;
  Slot *slots;
};

} // namespace kolo::test
