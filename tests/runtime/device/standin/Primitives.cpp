// The primitives, under the names that the compiler gives them.
#include "Blocks.h"

#include <dlfcn.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <thread>

namespace kolo::standin {

std::atomic<int64_t> pauseNs = 0, numPauses = 0, numPeeks = 0;

void offerPrimitives() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void *>(&offerPrimitives), &info))
    dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL); // loaded already: only makes it visible
}

namespace {

/// What one thread has of a line.
struct Part {
  uint64_t low, high;
};
Group &group() { return currentBlock->groups[static_cast<size_t>(currentThread / threadsPerLine)]; }
bool isLast() { return currentThread % threadsPerLine == threadsPerLine - 1; }

} // namespace
} // namespace kolo::standin

using namespace kolo::standin;

#define PRIMITIVE(result, function, symbol, ...)                                                                       \
  extern "C" [[gnu::visibility("default")]] result function(__VA_ARGS__) __asm__(symbol);                              \
  extern "C" result function(__VA_ARGS__)

PRIMITIVE(int64_t, laneNumber, "kolo.lane") { return currentBlock->position.x; }
PRIMITIVE(int64_t, numLanes, "kolo.lanes") { return currentBlock->position.gridX; }
PRIMITIVE(int64_t, entryNumber, "kolo.entry") { return currentBlock->position.y; }
PRIMITIVE(int64_t, threadNumber, "kolo.thread") { return currentThread; }
PRIMITIVE(int64_t, numThreads, "kolo.threads") { return currentBlock->numThreads; }
PRIMITIVE(void, waitAtBarrier, "kolo.barrier") { currentBlock->barrier.wait(); }
PRIMITIVE(int32_t, share, "kolo.share", int32_t value) {
  if (currentThread == 0)
    currentBlock->shared = value;
  waitAtBarrier();
  int32_t result = currentBlock->shared;
  waitAtBarrier();
  return result;
}
PRIMITIVE(int32_t, any, "kolo.any", int32_t value) {
  currentBlock->shared = 0;
  waitAtBarrier();
  if (value != 0)
    currentBlock->shared = 1;
  waitAtBarrier();
  int32_t result = currentBlock->shared;
  waitAtBarrier();
  return result;
}
PRIMITIVE(void, publish, "kolo.publish") {}
PRIMITIVE(void, raiseCounter, "kolo.raise", uint64_t *counter, uint64_t value) {
  std::atomic_ref(*counter).store(value, std::memory_order_release);
}
PRIMITIVE(uint64_t, peek, "kolo.peek", uint64_t *counter) {
  numPeeks.fetch_add(1, std::memory_order_relaxed);
  return std::atomic_ref(*counter).load(std::memory_order_acquire);
}
PRIMITIVE(void, acquire, "kolo.acquire") {}
PRIMITIVE(int64_t, uniform, "kolo.uniform", int64_t value) { return value; }
PRIMITIVE(void **, lists, "kolo.list") { return currentBlock->lists; }
PRIMITIVE(int64_t *, kept, "kolo.kept") { return currentBlock->kept; }
PRIMITIVE(void, meet, "kolo.meet", int64_t teamThreads) {
  std::vector<Barrier> &teams = currentBlock->teams;
  if (teams.empty())
    teams.assign(static_cast<size_t>(currentBlock->numThreads / teamThreads), Barrier(teamThreads));
  teams[static_cast<size_t>(currentThread / teamThreads)].wait();
}
PRIMITIVE(std::byte *, rooms, "kolo.room") { return currentBlock->rooms; }
/// The others' parts, relaxed, before the last one's: with release and acquire they are there when that is.
PRIMITIVE(void, storeLine, "kolo.storeLine", Part *part, uint64_t low, uint64_t high) {
  if (isLast())
    group().barrier.wait();
  std::atomic_ref(part->low).store(low, std::memory_order_relaxed);
  std::atomic_ref(part->high).store(high, std::memory_order_release);
  if (!isLast())
    group().barrier.wait();
}
PRIMITIVE(Part, loadLine, "kolo.loadLine", Part *part) {
  if (!isLast())
    group().barrier.wait();
  uint64_t high = std::atomic_ref(part->high).load(std::memory_order_acquire);
  Part found = {std::atomic_ref(part->low).load(std::memory_order_relaxed), high};
  if (isLast())
    group().barrier.wait();
  return found;
}
PRIMITIVE(int32_t, fromLast, "kolo.fromLast", int32_t value) {
  if (isLast())
    group().shared = value;
  group().barrier.wait();
  int32_t result = group().shared;
  group().barrier.wait();
  return result;
}
PRIMITIVE(int64_t, readClock, "kolo.clock") {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}
/// Whoever is waited for may need the core.
PRIMITIVE(void, pauseABit, "kolo.pause", int64_t) {
  numPauses.fetch_add(1, std::memory_order_relaxed);
  if (int64_t least = pauseNs)
    std::this_thread::sleep_for(std::chrono::nanoseconds(least));
  currentBlock->yield();
}

/// What LLVM calls to round to bf16, to the nearest and ties to even; the result is in the lowest bits of the register.
PRIMITIVE(float, roundToBfloat16, "__truncsfbf2", float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  bool isNan = (bits & 0x7fffffffu) > 0x7f800000u;
  uint32_t rounded = isNan ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
  return std::bit_cast<float>(rounded >> 16);
}
