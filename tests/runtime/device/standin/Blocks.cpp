#include "Blocks.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace kolo::standin {

thread_local Block *currentBlock;
thread_local int64_t currentThread;

void Barrier::wait() {
  Block &block = *currentBlock;
  if (static_cast<int64_t>(waiting.size()) + 1 == expected) {
    block.running.insert(block.running.end(), waiting.begin(), waiting.end());
    waiting.clear();
    return;
  }
  waiting.push_back(currentThread);
  std::erase(block.running, currentThread);
  block.change();
}

Block::Block(const StandInBlock &which, int number)
    : position(which), numThreads(number), barrier(number), groups(static_cast<size_t>(number / threadsPerLine)),
      random(1 + which.x + which.y * which.gridX) {}

void Block::run(const std::function<void()> &kernel) {
  constexpr size_t stackBytes = size_t(256) << 10; // touched as far as it is used
  currentBlock = this, currentThread = 0;
  if (numThreads == 1)
    return kernel();
  body = &kernel;
  threads = std::vector<Thread>(static_cast<size_t>(numThreads));
  for (Thread &thread : threads) {
    running.push_back(&thread - threads.data());
    thread.stack = std::make_unique_for_overwrite<std::byte[]>(stackBytes);
    getcontext(&thread.start);
    thread.start.uc_stack = {.ss_sp = thread.stack.get(), .ss_flags = 0, .ss_size = stackBytes};
    makecontext(&thread.start, &Block::begin, 0);
  }
  if (_setjmp(host) == 0)
    goOn();
}

void Block::begin() {
  Block &block = *currentBlock;
  (*block.body)();
  std::erase(block.running, currentThread);
  if (++block.numEnded == block.threads.size())
    _longjmp(block.host, 1);
  block.goOn();
}

/// With a thread that does not wait.
void Block::goOn() {
  if (running.empty()) {
    std::fputs("stand-in: threads of a block wait for those that have ended, or at different barriers\n", stderr);
    std::abort();
  }
  currentThread = running[random() % running.size()];
  Thread &next = threads[static_cast<size_t>(currentThread)];
  if (std::exchange(next.hasStarted, true))
    _longjmp(next.place, 1);
  setcontext(&next.start);
  std::abort();
}

/// Ends when the current thread goes on.
void Block::change() {
  if (_setjmp(threads[static_cast<size_t>(currentThread)].place) == 0)
    goOn();
}

void Block::yield() {
  if (++numPolls >= running.size()) {
    numPolls = 0;
    sched_yield();
  }
  if (running.size() > 1)
    change();
}

} // namespace kolo::standin
