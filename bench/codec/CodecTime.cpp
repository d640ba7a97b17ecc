// kolo-bench-codec: how many elements per second one core encodes, decodes, and decodes and adds, in memory that no
// cache holds, beside reading, copying and adding the same elements of f32. All take turns, so that a slow spell of the
// machine hits all alike: ratios are medians of those within a round. Prints a table in markdown.
#include "ConversionCode.h"

#include "codec/Presets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>

#include <immintrin.h>
#include <sched.h>
#include <sys/mman.h>

using namespace kolo;
using namespace kolo::bench;

namespace {

constexpr int64_t numElements = int64_t(1) << 25; // 128 MiB of f32: several times the last-level cache

template <class Element> Element *allocate(int64_t number) {
  size_t sizeBytes = size_t(number) * sizeof(Element);
  void *memory = mmap(nullptr, sizeBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fmt::print(stderr, "kolo-bench-codec: cannot allocate {} bytes\n", sizeBytes);
    std::exit(1);
  }
  madvise(memory, sizeBytes, MADV_HUGEPAGE);
  std::memset(memory, 0, sizeBytes);
  return static_cast<Element *>(memory);
}

/// Reads everything once, 32 bytes at a time.
__attribute__((target("avx2"))) void read(const float *from) {
  std::array<__m256i, 4> any{};
  for (int64_t i = 0; i < numElements; i += 32)
    for (size_t k = 0; k < any.size(); ++k)
      any[k] = _mm256_or_si256(any[k], _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from + i + 8 * k)));
  asm volatile("" : : "x"(any[0]), "x"(any[1]), "x"(any[2]), "x"(any[3]));
}

/// Times of the rounds of one kind of work, in seconds.
struct Times {
  std::vector<double> seconds;

  void measure(const std::function<void()> &work) {
    auto start = std::chrono::steady_clock::now();
    work();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  double billionsPerSecond(double share) const { // share: of the sorted times; 0.5 is the median
    std::vector<double> sorted = seconds;
    std::ranges::sort(sorted);
    return double(numElements) / sorted[size_t(share * double(sorted.size() - 1))] / 1e9;
  }
  std::string text() const {
    return fmt::format("{:.2f} ({:.2f}-{:.2f})", billionsPerSecond(0.5), billionsPerSecond(0.75),
                       billionsPerSecond(0.25));
  }
};

double ratio(const Times &times, const Times &base) {
  std::vector<double> ratios;
  for (size_t i = 0; i < times.seconds.size(); ++i)
    ratios.push_back(base.seconds[i] / times.seconds[i]);
  std::ranges::sort(ratios);
  return ratios[ratios.size() / 2];
}

class Bench {
public:
  Bench(const ConversionCode &made, int numRounds)
      : code(made), rounds(numRounds), source(allocate<float>(numElements)), target(allocate<float>(numElements)),
        encoded(allocate<char>(numElements * 4)) {
    invocation.elementBytes = 4;
    invocation.type = KOLO_F32;
    invocation.reduceNumbers = code.sum;
    for (int64_t i = 0; i < numElements; ++i) // of many magnitudes, both signs
      source[i] = std::ldexp(float((i * 7919) % 2001 - 1000), int(i % 7) - 12);
  }

  void measure(const codec::Codec &codec, const void *description) {
    Times reads, encodes, copies, decodes, adds, sums;
    for (int round = 0; round <= rounds; ++round) {
      reads.measure([&] { read(source); });
      encodes.measure(
          [&] { code.convert(&invocation, encoded, source, numElements, 0, 0, 0, description, nullptr, 0); });
      copies.measure([&] { code.copy(target, source, numElements * 4, 1); });
      decodes.measure(
          [&] { code.convert(&invocation, target, encoded, numElements, 0, 0, 1, nullptr, description, 0); });
      adds.measure([&] { add(); });
      sums.measure([&] { code.convert(&invocation, target, encoded, numElements, 0, 0, 0, nullptr, description, 1); });
      if (round == 0) // pages and caches as in the rounds that count
        for (Times *times : {&reads, &encodes, &copies, &decodes, &adds, &sums})
          times->seconds.clear();
    }
    fmt::print("| {} | {} | {} | {:.2f} | {} | {} | {:.2f} | {} | {} | {:.2f} |\n", codec::nameOf(codec), reads.text(),
               encodes.text(), ratio(encodes, reads), copies.text(), decodes.text(), ratio(decodes, copies),
               adds.text(), sums.text(), ratio(sums, adds));
    std::fflush(stdout);
  }

private:
  /// target += source
  void add() {
    void *to = target;
    std::array<const void *, 2> from{target, source};
    code.sum(&to, 1, from.data(), 2, numElements, 0);
  }

  const ConversionCode &code;
  int rounds;
  float *source, *target;
  char *encoded;
  KoloInvocation invocation{};
};

void stayOnThisCore() {
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(sched_getcpu(), &core);
  (void)sched_setaffinity(0, sizeof core, &core);
}

[[noreturn]] void refuse() {
  fmt::print(stderr, "usage: kolo-bench-codec [ROUNDS [CPU [CODEC...]]]    CPU: x86-64-v3 or x86-64-v4\n");
  std::exit(2);
}

std::vector<codec::Codec> codecsOf(std::span<char *> names) {
  std::vector<codec::Codec> codecs;
  for (const char *name : names) {
    std::optional<codec::Codec> codec = codec::parse(name);
    if (!codec || !codec::findMistake(*codec).empty() || codec::isNone(*codec))
      refuse();
    codecs.push_back(*codec);
  }
  for (const codec::Preset &preset : codec::presets())
    if (names.empty() && !codec::isNone(preset.codec))
      codecs.push_back(preset.codec);
  return codecs;
}

} // namespace

int main(int argc, char **argv) {
  std::span<char *> arguments(argv + 1, size_t(argc) - 1);
  int rounds = arguments.empty() ? 11 : std::atoi(arguments[0]);
  std::string cpu = arguments.size() > 1 ? arguments[1] : bestCpu();
  if (rounds < 1 || (cpu != "x86-64-v3" && cpu != bestCpu()))
    refuse();
  std::vector<codec::Codec> codecs = codecsOf(arguments.subspan(std::min<size_t>(2, arguments.size())));
  ConversionCode code = makeConversionCode(codecs, cpu);
  stayOnThisCore();
  fmt::print("{}, {} rounds, billions of elements per second: median (quartiles); ratios within a round\n\n", cpu,
             rounds);
  fmt::print("| codec | read f32 | encode | ratio | copy f32 | decode | ratio | a += b | decode and add | ratio |\n"
             "|-|-|-|-|-|-|-|-|-|-|\n");
  Bench bench(code, rounds);
  for (size_t i = 0; i < codecs.size(); ++i)
    bench.measure(codecs[i], code.codecs[i]);
  return 0;
}
