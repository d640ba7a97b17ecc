// kolo-bench-check: how long the proof of every shipped algorithm takes: on all meshes of up to 64 ranks together, and
// on larger ones, to show how the cost grows. Programs are compiled once, for the meshes that they are checked on.
#include "Programs.h"

#include "compiler/check/Verdict.h"
#include "compiler/model/RankGroup.h"

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

/// Of the rank that takes most steps in a call.
double stepsOfARank(ProgramOp program, const Sizes &mesh) {
  std::variant<Code, CodeMistake> code = Code::create(program);
  Tracer tracer(std::get<Code>(code), mesh, 0, false);
  std::optional<TracedGroup> traced = traceAll(tracer, INT64_MAX, /*mayReorder=*/true);
  size_t most = 0;
  for (const Trace &trace : traced->traces)
    most = std::max(most, trace.events.size());
  return double(most);
}

struct Row {
  const char *name;
  std::vector<Sizes> meshes;
};

/// The last column does not grow where the time is that of the steps of one rank and of the ranks, times a logarithm.
bool printGrowth(const std::vector<dsl::Definition> &definitions, const std::vector<Row> &rows) {
  fmt::print(
      "| algorithm | mesh | steps of a rank | seconds | ns per (step + rank) and log2 of ranks |\n|-|-|-|-|-|\n");
  bool isFine = true;
  for (const Row &row : rows) {
    auto definition = std::ranges::find(definitions, row.name, &dsl::Definition::name);
    Programs programs(*definition, row.meshes);
    for (const Sizes &mesh : row.meshes) {
      std::optional<double> time = timeOf(programs.program(), mesh);
      isFine &= time.has_value();
      double numRanks = 1, steps = stepsOfARank(programs.program(), mesh);
      for (int64_t size : mesh)
        numRanks *= double(size);
      fmt::print("| {} | {} | {} | {:.3f} | {:.0f} |\n", row.name, fmt::join(mesh, " x "), steps, time.value_or(0),
                 time.value_or(0) / ((steps + numRanks) * std::log2(numRanks)) * 1e9);
      std::fflush(stdout);
    }
  }
  fmt::print("\n");
  return isFine;
}

const std::vector<Row> symmetric = {{"hierarchicalAllReduce", {{128, 8}, {1024, 8}, {9408, 8}}},
                                    {"railAllGather", {{128, 8}, {1024, 8}, {9408, 8}}},
                                    {"railRecursiveAllGather", {{128, 8}, {1024, 8}, {8192, 8}}},
                                    {"twoLevelAllToAll", {{128, 8}, {1024, 8}, {9408, 8}}},
                                    {"hierarchicalReduceScatter", {{128, 8}, {1024, 8}, {9408, 8}}},
                                    {"threeLevelAllReduce", {{128, 4, 2}, {1024, 4, 2}, {9408, 4, 2}}},
                                    {"ringAllReduce", {{1024}, {8192}, {75264}}},
                                    {"directAllToAll", {{1024}, {8192}, {75264}}},
                                    {"bruckAllToAll", {{1024}, {8192}, {75264}}},
                                    {"recursiveDoublingAllReduce", {{1024}, {8192}, {65536}}}};
/// The checker follows all ranks of these, and one root for all roots.
const std::vector<Row> rooted = {{"balancedBroadcast", {{512}, {4096}}}, {"binomialBroadcast", {{512}, {4096}}},
                                 {"binomialReduce", {{512}, {4096}}},    {"binomialGather", {{512}, {4096}}},
                                 {"binomialScatter", {{512}, {4096}}},   {"directBroadcast", {{512}, {4096}}},
                                 {"directReduce", {{512}, {4096}}},      {"directGather", {{512}, {4096}}},
                                 {"directScatter", {{512}, {4096}}}};

} // namespace

int main() {
  std::vector<dsl::Definition> definitions = dsl::registeredChoreographies();
  std::erase_if(definitions, dsl::usesCodecs); // not lowered
  std::ranges::sort(definitions, {}, &dsl::Definition::name);
  bool isFine = printAll(definitions);
  isFine &= printGrowth(definitions, symmetric);
  return printGrowth(definitions, rooted) && isFine ? 0 : 1;
}
