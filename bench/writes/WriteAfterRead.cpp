// Two threads on two cores: each writes a block that the other then reads, as ranks do that pass data through shared
// memory. Rounds use one block after the other of a larger area. Prints how long writes and reads take, by size of the
// block and of the area: while the reader's core still holds the lines in its own cache, the writer must invalidate
// them.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>

namespace {

constexpr int numRounds = 200;
constexpr size_t mostBytes = size_t(4) << 20;

struct alignas(64) Turn {
  std::atomic<int> number = 0;
};

struct Shared {
  std::array<Turn, 2> turns;
  std::array<std::vector<char>, 2> areas = {std::vector<char>(mostBytes, 1), std::vector<char>(mostBytes, 1)};
  std::array<std::vector<double>, 2> writesUs, readsUs; // by thread
};

void meet(Shared &shared, size_t own, int number) {
  shared.turns[own].number.store(number, std::memory_order_release);
  while (shared.turns[1 - own].number.load(std::memory_order_acquire) < number)
    __builtin_ia32_pause();
}

double copyUs(char *to, const char *from, size_t sizeBytes) {
  auto start = std::chrono::steady_clock::now();
  std::memcpy(to, from, sizeBytes);
  asm volatile("" ::: "memory");
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

void run(Shared &shared, size_t own, size_t blockBytes, size_t areaBytes) {
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(own, &core);
  (void)pthread_setaffinity_np(pthread_self(), sizeof(core), &core);
  std::vector<char> source(blockBytes, 2), target(blockBytes, 3);
  for (int round = 0; round < numRounds; ++round) {
    size_t offset = size_t(round) % (areaBytes / blockBytes) * blockBytes;
    meet(shared, own, 2 * round + 1);
    shared.writesUs[own].push_back(copyUs(shared.areas[own].data() + offset, source.data(), blockBytes));
    meet(shared, own, 2 * round + 2);
    shared.readsUs[own].push_back(copyUs(target.data(), shared.areas[1 - own].data() + offset, blockBytes));
  }
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(size_t blockBytes, size_t areaBytes) {
  Shared shared;
  std::thread other([&] { run(shared, 1, blockBytes, areaBytes); });
  std::thread first([&] { run(shared, 0, blockBytes, areaBytes); });
  other.join();
  first.join();
  std::printf("| %4zu | %5zu | %6.1f | %5.1f |\n", blockBytes >> 10, areaBytes >> 10, median(shared.writesUs[0]),
              median(shared.readsUs[0]));
}

} // namespace

int main() {
  std::printf("| block, KiB | area, KiB | write, us | read, us |\n|---|---|---|---|\n");
  for (size_t blockBytes : {size_t(16) << 10, size_t(64) << 10, size_t(256) << 10, size_t(512) << 10})
    for (size_t areaBytes = blockBytes; areaBytes <= mostBytes; areaBytes *= 2)
      measure(blockBytes, areaBytes);
}
