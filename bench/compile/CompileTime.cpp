// kolo-bench-compile: how long it takes from a choreography to a plugin, and how large the plugin is, by number of
// ranks. Prints a table in markdown: median wall time of several compilations in one process, the first one, which pays
// for start-up, not counted. Programs for 8 ranks are proved, and most for 8192; a smaller mesh represents 1048576.
#include "tools/compile/Compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <unistd.h>

using namespace kolo;

namespace {

constexpr int64_t numRanks[] = {8, 8192, 1048576};

/// The mesh with this many ranks: up to eight in the innermost dimension, two in a middle one, the rest in the
/// outermost.
runtime::Mesh meshOf(const dsl::Definition &definition, int64_t ranks) {
  std::vector<runtime::MeshDim> dims;
  for (const std::string &name : definition.mesh.dims)
    dims.push_back({name, 1});
  if (dims.size() > 1) {
    dims.back().size = std::min<int64_t>(ranks / 2, 8 / (dims.size() > 2 ? 2 : 1));
    ranks /= dims.back().size;
  }
  for (size_t i = 1; i + 1 < dims.size(); ++i) {
    dims[i].size = 2;
    ranks /= 2;
  }
  dims.front().size = ranks;
  return runtime::Mesh::create(std::move(dims)).value();
}

struct Sample {
  double medianMs;
  uintmax_t pluginBytes;
};

Sample measure(const dsl::Definition &definition, const runtime::Mesh &mesh, const std::string &path, int repetitions) {
  std::vector<double> times;
  tools::CompileRequest request{{definition}, {mesh}, path};
  if (mesh.numRanks() > 1 << 10) {
    request.represented = true;
    request.budget = int64_t(1) << (mesh.numRanks() > 1 << 17 ? 16 : 23);
  }
  for (int i = 0; i < repetitions; ++i) {
    auto start = std::chrono::steady_clock::now();
    tools::compile(request);
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(times);
  return {times[times.size() / 2], std::filesystem::file_size(path)};
}

} // namespace

int main(int argc, char **argv) {
  int repetitions = argc > 1 ? std::atoi(argv[1]) : 5;
  if (repetitions < 1) {
    fmt::print(stderr, "usage: kolo-bench-compile [REPETITIONS]\n");
    return 2;
  }
  std::string path = (std::filesystem::temp_directory_path() / fmt::format("kolo-bench-{}.so", getpid())).string();
  std::vector<dsl::Definition> definitions = tools::shippedAlgorithms();
  std::erase_if(definitions, dsl::usesCodecs); // not lowered
  measure(definitions.front(), meshOf(definitions.front(), 8), path, 1);
  fmt::print("| algorithm | 8 ranks, ms | 8192 | 1048576 | plugin at 8, bytes | at 1048576 |\n|-|-|-|-|-|-|\n");
  double slowest = 0;
  for (const dsl::Definition &definition : definitions) {
    std::vector<Sample> samples;
    for (int64_t ranks : numRanks)
      samples.push_back(measure(definition, meshOf(definition, ranks), path, repetitions));
    fmt::print("| {} |", definition.name);
    for (const Sample &sample : samples) {
      fmt::print(" {:.0f} |", sample.medianMs);
      slowest = std::max(slowest, sample.medianMs);
    }
    fmt::print(" {} | {} |\n", samples.front().pluginBytes, samples.back().pluginBytes);
    std::fflush(stdout);
  }
  std::filesystem::remove(path);
  fmt::print("\nslowest: {:.0f} ms\n", slowest);
  return 0;
}
