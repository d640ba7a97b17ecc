// Blocks on the host, and the primitives that compiled kernels call in them. The stand-in driver gives each
// KOLO_STANDIN_THREADS (1) threads, whatever the launch says: one is enough for kernels written by hand, compiled ones
// ask for their number.
#pragma once

#include "Kernel.h"

#include <setjmp.h>
#include <ucontext.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <random>
#include <vector>

namespace kolo::standin {

/// Threads that have a line of packets together.
inline constexpr int threadsPerLine = 8;

/// Of threads of one block.
class Barrier {
public:
  explicit Barrier(int64_t number) : expected(number) {}
  /// Ends when all have come.
  void wait();

private:
  int64_t expected;
  std::vector<int64_t> waiting;
};

struct Group {
  Barrier barrier{threadsPerLine};
  int32_t shared = 0;
};

/// The threads of a block take turns on one thread of the host. Where one waits at a barrier or polls, another one that
/// does not wait goes on, chosen at random.
class Block {
public:
  Block(const StandInBlock &which, int number);
  /// Runs a kernel in all threads.
  void run(const std::function<void()> &kernel);
  /// Lets another thread go on, and another thread of the host after as many polls as threads go on.
  void yield();

  StandInBlock position;
  int numThreads;
  Barrier barrier;
  int32_t shared = 0;
  std::vector<Group> groups;  // of programs that have lines: numThreads is a multiple then
  std::vector<Barrier> teams; // threads that convert a granule together: of programs with codecs
  static constexpr int teamRoomBytes = 5376, mostTeams = 8; // as much as code for devices asks for
  alignas(16) std::byte rooms[teamRoomBytes * mostTeams];
  static constexpr int numListEntries = 3 * 128; // as much as code for devices asks for
  void *lists[numListEntries] = {};
  static constexpr int numKept = 128; // likewise
  int64_t kept[numKept] = {};

private:
  friend Barrier;
  struct Thread {
    ucontext_t start;
    std::unique_ptr<std::byte[]> stack;
    jmp_buf place; // where it goes on, once it has started: a change of contexts would be a system call
    bool hasStarted = false;
  };
  static void begin();
  [[noreturn]] void goOn();
  void change();

  std::vector<Thread> threads;
  std::vector<int64_t> running; // that neither wait nor have ended
  size_t numEnded = 0, numPolls = 0;
  std::minstd_rand random;
  const std::function<void()> *body = nullptr;
  jmp_buf host;
};

/// Of the thread that runs a kernel.
extern thread_local Block *currentBlock;
extern thread_local int64_t currentThread;

/// For tests: how long each pause is at least, and how many pauses and looks at counters there were.
extern std::atomic<int64_t> pauseNs, numPauses, numPeeks;

/// Has the functions that compiled kernels call found by what is loaded from now on.
void offerPrimitives();

} // namespace kolo::standin
