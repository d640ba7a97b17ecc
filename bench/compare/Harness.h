// Harness: what every compared system is measured with: the same buffers, warm-up, timing rule and check of the result.
//
// A program is one system. Rank 0 reads commands from its standard input, one per line:
//   COLLECTIVE[:DISTRIBUTION] BYTES SECONDS [PLUGIN]        see Distribution; in place of PLUGIN, kolo-bench-limits
//   takes the name of a limit
// and answers each on its standard output with one line:
//   ok MIN MEDIAN P90 MAX ITERATIONS        microseconds
//   failed REASON                           after which the program ends
// The first line it writes is `ready PID...`. The end of its input ends it.
#pragma once

#include "Board.h"
#include "Data.h"

#include <cstddef>
#include <string>

namespace kolo::bench {

enum class Pages : uint8_t { Ordinary, Huge };

struct HarnessOptions {
  int64_t maxBytes = int64_t(64) << 20; // of the largest vector
  Pages pages = Pages::Ordinary;
  bool isPinned = false;   // rank r to core r, wrapping
  int numRanks = 0;        // of programs that start their ranks themselves: MPI is told by its launcher
  bool usesWindows = true; // likewise
  std::string boardPath;   // not empty: the board is this file, since ranks are on several hosts
};

/// Throws Failure for an option that does not exist.
HarnessOptions parseOptions(int argc, char **argv);

/// One rank of one system.
class System {
public:
  virtual ~System() = default;
  /// Memory of the kind that this system is measured with, touched. Throws Failure.
  virtual void *allocate(size_t sizeBytes) = 0;
  /// Whatever a program does once, before its calls. Throws Failure.
  virtual void prepare(const Command &) {}
  /// One operation. Throws Failure.
  virtual void run(const Cell &cell, const float *input, float *output) = 0;
  /// Whether that gives what the collective has to give.
  virtual bool hasResult() const { return true; }
};

/// Memory as malloc gives it for large sizes, or with the advice to use huge pages; touched. Throws Failure.
void *allocatePages(size_t sizeBytes, Pages pages);
/// Memory that processes forked later share, as a window is: on huge pages where the kernel makes them of small ones;
/// touched. Throws Failure.
void *allocateShared(size_t sizeBytes);

/// Serves commands until the end of the input. Returns the exit status.
int serve(System &system, Board &board, const HarnessOptions &options);

} // namespace kolo::bench
