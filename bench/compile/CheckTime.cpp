// kolo-bench-check: how long the proof of every shipped algorithm takes: on all meshes of up to 64 ranks together, and
// on larger ones, to show how the cost grows. Programs are compiled once, for the meshes that they are checked on.
#include "Programs.h"

#include "compiler/check/Verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

using namespace kolo;
using namespace kolo::bench;

namespace {

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Seconds, or nothing with a line of why when the program is not proved.
std::optional<double> timeOf(ProgramOp program, const Sizes &mesh) {
  auto start = std::chrono::steady_clock::now();
  CheckOptions options;
  options.mayReplaceMesh = false;
  Verdict verdict = checkProgram(program, mesh, options);
  if (verdict.isProved())
    return secondsSince(start);
  fmt::print(stderr, "{} on {}: {}\n", program.getSymName().str(), fmt::join(mesh, "x"),
             verdict.tooLarge ? *verdict.tooLarge : verdict.refutation->message);
  return std::nullopt;
}

/// Every mesh with this number of dimensions and at most so many ranks that the algorithm allows.
std::vector<Sizes> allMeshes(const dsl::Definition &definition, int64_t maxRanks) {
  std::vector<Sizes> partial{{}}, result;
  for (size_t dim = 0; dim < definition.mesh.dims.size(); ++dim) {
    std::vector<Sizes> longer;
    for (const Sizes &sizes : partial) {
      int64_t ranks = 1;
      for (int64_t size : sizes)
        ranks *= size;
      for (int64_t size = 1; ranks * size <= maxRanks; ++size) {
        longer.push_back(sizes);
        longer.back().push_back(size);
      }
    }
    partial = std::move(longer);
  }
  std::ranges::copy_if(partial, std::back_inserter(result),
                       [&](const Sizes &sizes) { return allows(definition, sizes); });
  return result;
}

bool printAll(const std::vector<dsl::Definition> &definitions) {
  fmt::print("| algorithm | meshes up to 64 ranks | seconds |\n|-|-|-|\n");
  double total = 0;
  bool isFine = true;
  for (const dsl::Definition &definition : definitions) {
    std::vector<Sizes> meshes = allMeshes(definition, 64);
    Programs programs(definition, meshes);
    double seconds = 0;
    for (const Sizes &mesh : meshes) {
      std::optional<double> time = programs.program() ? timeOf(programs.program(), mesh) : std::nullopt;
      isFine &= time.has_value();
      seconds += time.value_or(0);
    }
    total += seconds;
    fmt::print("| {} | {} | {:.2f} |\n", definition.name, meshes.size(), seconds);
    std::fflush(stdout);
  }
  fmt::print("\nall: {:.1f} s\n\n", total);
  return isFine;
}

bool printGrowth(const std::vector<dsl::Definition> &definitions) {
  struct Row {
    const char *name;
    std::vector<Sizes> meshes;
  };
  const Row rows[] = {{"hierarchicalAllReduce", {{128, 8}, {1024, 8}, {9408, 8}}},
                      {"railAllGather", {{1024, 8}, {9408, 8}}},
                      {"railRecursiveAllGather", {{1024, 8}, {8192, 8}}},
                      {"twoLevelAllToAll", {{1024, 8}, {9408, 8}}},
                      {"hierarchicalReduceScatter", {{1024, 8}, {9408, 8}}},
                      {"threeLevelAllReduce", {{1024, 4, 2}, {9408, 4, 2}}},
                      {"ringAllReduce", {{8192}, {75264}}},
                      {"directAllToAll", {{8192}, {75264}}},
                      {"bruckAllToAll", {{8192}, {75264}}},
                      {"recursiveDoublingAllReduce", {{8192}, {65536}}},
                      {"binomialReduce", {{512}, {4096}}}};
  fmt::print("| algorithm | mesh | seconds | microseconds per rank and log2 of ranks |\n|-|-|-|-|\n");
  bool isFine = true;
  for (const Row &row : rows) {
    auto definition = std::ranges::find(definitions, row.name, &dsl::Definition::name);
    Programs programs(*definition, row.meshes);
    for (const Sizes &mesh : row.meshes) {
      std::optional<double> time = timeOf(programs.program(), mesh);
      isFine &= time.has_value();
      double numRanks = 1;
      for (int64_t size : mesh)
        numRanks *= double(size);
      fmt::print("| {} | {} | {:.3f} | {:.2f} |\n", row.name, fmt::join(mesh, " x "), time.value_or(0),
                 time.value_or(0) / (numRanks * std::log2(numRanks)) * 1e6);
      std::fflush(stdout);
    }
  }
  return isFine;
}

} // namespace

int main() {
  std::vector<dsl::Definition> definitions = dsl::registeredChoreographies();
  std::erase_if(definitions, dsl::usesCodecs); // not lowered
  std::ranges::sort(definitions, {}, &dsl::Definition::name);
  bool isFine = printAll(definitions);
  return printGrowth(definitions) && isFine ? 0 : 1;
}
