// Blocks of the stand-in driver: KOLO_STANDIN_THREADS (1) threads of the host each, whatever the launch says. One is
// enough for kernels written by hand; compiled ones ask for their number.
#pragma once

#include "Kernel.h"

#include <barrier>

namespace kolo::standin {

struct Block {
  Block(const StandInBlock &which, int number) : place(which), numThreads(number), barrier(number) {}
  StandInBlock place;
  int numThreads;
  std::barrier<> barrier;
  int32_t shared = 0;
  void *lists[2 * 128] = {}; // as much as code for devices asks for
};

/// Of the thread that runs a kernel.
extern thread_local Block *currentBlock;
extern thread_local int64_t currentThread;

/// Has the functions that compiled kernels call found by what is loaded from now on.
void offerPrimitives();

} // namespace kolo::standin
