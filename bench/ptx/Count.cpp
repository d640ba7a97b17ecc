// kolo-bench-ptx [FOLDER]: what kernels do, counted by the executor of tests/ptx: not times, and equal on every
// machine. With a folder, of the PTX of another build, in files ALGORITHM-PROTOCOL.ptx there.
#include "tests/ptx/ExecutedCall.h"
#include "tests/ptx/Shipped.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

using namespace kolo;

namespace {

constexpr uint64_t numSeeds = 20;

struct Row {
  const char *algorithm, *protocol;
  int64_t count; // of f32
  int lanes, threads;
};

const Row rows[] = {{"twoShotAllReduce", "ll", 2048, 1, 512},     {"twoShotAllReduce", "ll128", 2048, 1, 512},
                    {"twoShotAllReduce", "bulk", 2048, 1, 512},   {"twoShotAllReduce", "bulk", 65536, 2, 512},
                    {"pushTwoShotAllReduce", "ll", 2048, 1, 512}, {"oneShotAllReduce", "bulk", 2048, 1, 512},
                    {"ringAllReduce", "bulk", 65536, 2, 512},     {"allPairsAllGather", "ll", 256, 1, 512},
                    {"allPairsAllGather", "bulk", 8192, 2, 512}};

/// The smallest numbers over some schedules: those with the fewest polls.
void print(const Row &row, const std::string &folder) {
  test::DeviceAlgorithm algorithm(row.algorithm, row.protocol);
  ptx::ExecutedCall call(algorithm, algorithm.call(algorithm.meshes().back(), row.count),
                         {.lanes = row.lanes, .threads = row.threads, .isAligned = true});
  if (!folder.empty()) {
    std::ifstream stream(fmt::format("{}/{}-{}.ptx", folder, row.algorithm, row.protocol));
    call.replaceText({std::istreambuf_iterator<char>(stream), {}});
  }
  ptx::Counts least;
  for (uint64_t seed = 1; seed <= numSeeds; ++seed) {
    if (std::string wrong = call.run({.seed = seed, .memory = {}}, 1); !wrong.empty()) {
      fmt::print(stderr, "{} {}: {}\n", row.algorithm, row.protocol, wrong);
      std::exit(1);
    }
    ptx::Counts counts = call.counts();
    if (seed == 1 || counts.longestThread < least.longestThread)
      least = counts;
  }
  constexpr uint64_t numRanks = 8;
  fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", row.algorithm, row.protocol, row.count * 4,
             row.lanes, least.longestThread, least.transactions / numRanks, least.bytes / numRanks,
             least.barriers / numRanks, least.releases / numRanks, least.acquires / numRanks);
}

} // namespace

int main(int argc, char **argv) {
  setenv("KOLO_CUDA_DRIVER", KOLO_TEST_STANDIN, 1);
  setenv("KOLO_STANDIN_RECORD", "1", 1);
  setenv("KOLO_STANDIN_DEVICES", "8", 1);
  ptx::setDeviceOptions({{KOLO_F32}, {KOLO_SUM}, Accumulation::F32});
  fmt::print(
      "| algorithm | protocol | bytes | lanes | instructions of the longest thread | transactions | bytes accessed "
      "| barriers | releases | acquires |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Row &row : rows)
    print(row, argc > 1 ? argv[1] : "");
}
