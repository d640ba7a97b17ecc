// Two threads on two cores: each writes a block that the other then reads, as ranks do that pass data through shared
// memory. Rounds use one block after the other of a larger area. Prints how long writes and reads take, by size of the
// block and of the area, with ordinary and with non-temporal stores: while the reader's core still holds the lines in
// its own cache, the writer must invalidate them.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include <emmintrin.h>
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

void copyOrdinary(char *to, const char *from, size_t sizeBytes) {
  std::memcpy(to, from, sizeBytes);
  asm volatile("" ::: "memory");
}

void copyNonTemporal(char *to, const char *from, size_t sizeBytes) {
  for (size_t at = 0; at < sizeBytes; at += sizeof(__m128i))
    _mm_stream_si128(reinterpret_cast<__m128i *>(to + at),
                     _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + at)));
  _mm_sfence();
}

using Copy = void (*)(char *to, const char *from, size_t sizeBytes);

double copyUs(Copy copy, char *to, const char *from, size_t sizeBytes) {
  auto start = std::chrono::steady_clock::now();
  copy(to, from, sizeBytes);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

void run(Shared &shared, Copy write, size_t own, size_t blockBytes, size_t areaBytes) {
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(own, &core);
  (void)pthread_setaffinity_np(pthread_self(), sizeof(core), &core);
  std::vector<char> source(blockBytes, 2), target(blockBytes, 3);
  for (int round = 0; round < numRounds; ++round) {
    size_t offset = size_t(round) % (areaBytes / blockBytes) * blockBytes;
    meet(shared, own, 2 * round + 1);
    shared.writesUs[own].push_back(copyUs(write, shared.areas[own].data() + offset, source.data(), blockBytes));
    meet(shared, own, 2 * round + 2);
    shared.readsUs[own].push_back(
        copyUs(copyOrdinary, target.data(), shared.areas[1 - own].data() + offset, blockBytes));
  }
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Times {
  double writeUs, readUs;
};

Times measure(Copy write, size_t blockBytes, size_t areaBytes) {
  Shared shared;
  std::thread other([&] { run(shared, write, 1, blockBytes, areaBytes); });
  std::thread first([&] { run(shared, write, 0, blockBytes, areaBytes); });
  other.join();
  first.join();
  return {median(shared.writesUs[0]), median(shared.readsUs[0])};
}

} // namespace

int main() {
  std::printf("|  |  | ordinary stores |  | non-temporal stores |  |\n"
              "| block, KiB | area, KiB | write, us | read, us | write, us | read, us |\n|---|---|---|---|---|---|\n");
  for (size_t blockBytes :
       {size_t(16) << 10, size_t(64) << 10, size_t(128) << 10, size_t(256) << 10, size_t(512) << 10})
    for (size_t areaBytes = blockBytes; areaBytes <= mostBytes; areaBytes *= 2) {
      Times ordinary = measure(copyOrdinary, blockBytes, areaBytes);
      Times nonTemporal = measure(copyNonTemporal, blockBytes, areaBytes);
      std::printf("| %4zu | %5zu | %6.1f | %5.1f | %6.1f | %5.1f |\n", blockBytes >> 10, areaBytes >> 10,
                  ordinary.writeUs, ordinary.readUs, nonTemporal.writeUs, nonTemporal.readUs);
    }
}
