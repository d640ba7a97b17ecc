// Blocks on the host, and the primitives that compiled kernels call in them. The stand-in driver gives each
// KOLO_STANDIN_THREADS (1) threads, whatever the launch says: one is enough for kernels written by hand, compiled ones
// ask for their number.
#pragma once

#include "Kernel.h"

#include <atomic>
#include <barrier>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace kolo::standin {

/// Threads that have a line of packets together.
inline constexpr int threadsPerLine = 8;
struct Group {
  std::barrier<> barrier{threadsPerLine};
  int32_t shared = 0;
};

/// Threads that convert a granule together: of programs with codecs.
struct Teams {
  std::once_flag made;
  std::vector<std::unique_ptr<std::barrier<>>> barriers;
};

struct Block {
  Block(const StandInBlock &which, int number)
      : position(which), numThreads(number), barrier(number), groups(static_cast<size_t>(number / threadsPerLine)) {}
  StandInBlock position;
  int numThreads;
  std::barrier<> barrier;
  int32_t shared = 0;
  std::vector<Group> groups; // of programs that have lines: numThreads is a multiple then
  Teams teams;
  static constexpr int teamRoomBytes = 5376, mostTeams = 8; // as much as code for devices asks for
  alignas(16) std::byte rooms[teamRoomBytes * mostTeams];
  static constexpr int numListEntries = 3 * 128; // as much as code for devices asks for
  void *lists[numListEntries] = {};
  static constexpr int numKept = 128; // likewise
  int64_t kept[numKept] = {};
};

/// Of the thread that runs a kernel.
extern thread_local Block *currentBlock;
extern thread_local int64_t currentThread;

/// For tests: how long each pause is at least, and how many pauses and looks at counters there were.
extern std::atomic<int64_t> pauseNs, numPauses, numPeeks;

/// Has the functions that compiled kernels call found by what is loaded from now on.
void offerPrimitives();

} // namespace kolo::standin
