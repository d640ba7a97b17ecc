// kolo-bench-simulate: how long simulation takes, by number of ranks. Prints, in markdown, the time to trace a program
// on a mesh, which is spent once for all sizes, and the time to simulate one size. With an argument: of this algorithm.
#include "tools/compile/Compile.h"

#include "compiler/cost/simulation/Simulation.h"

#include "mlir/IR/BuiltinOps.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>

using namespace kolo;
using namespace kolo::tools;

namespace {

constexpr int64_t bytes = int64_t(256) << 20;
constexpr double leastSeconds = 0.2; // of each row's runs together, whose mean is printed

struct Row {
  const char *algorithm;
  std::vector<int64_t> mesh;
};

const Row rows[] = {{"ringAllGather", {64}},
                    {"ringAllGather", {256}},
                    {"ringAllGather", {1024}},
                    {"ringAllGather", {2048}},
                    {"ringAllReduce", {1024}},
                    {"directAllToAll", {256}},
                    {"directAllToAll", {1024}},
                    {"recursiveDoublingAllGather", {4096}},
                    {"recursiveDoublingAllGather", {16384}},
                    {"binomialBroadcast", {4096}},
                    {"railAllGather", {128, 8}},
                    {"railRecursiveAllGather", {512, 8}},
                    {"hierarchicalAllReduce", {128, 8}}};

double processorSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

template <typename T> T orThrow(std::variant<T, cost::CostMistake> result) {
  if (auto *mistake = std::get_if<cost::CostMistake>(&result))
    throw ToolError(ExitCode::Usage, mistake->message);
  return std::get<T>(std::move(result));
}

void print(const Row &row, const cost::Machine &machine) {
  const dsl::Definition &definition = findShipped(row.algorithm);
  std::vector<runtime::MeshDim> dims;
  for (size_t dim = 0; dim < row.mesh.size(); ++dim)
    dims.push_back({definition.mesh.dims[dim], row.mesh[dim]});
  runtime::Mesh mesh = *runtime::Mesh::create(dims);
  cost::Placement placement = orThrow(cost::Placement::create(machine, {definition.mesh.dims, row.mesh}));
  compileToChannel({.definitions = {definition}, .meshes = {mesh}, .output = ""}, [&](mlir::ModuleOp module) {
    double start = processorSeconds();
    cost::Simulation simulation =
        orThrow(cost::Simulation::create(*module.getOps<ProgramOp>().begin(), machine, placement, {}));
    double traced = processorSeconds() - start, simulated = 0;
    int64_t numTransfers = 0;
    int runs = 0;
    for (start = processorSeconds(); runs == 0 || simulated < leastSeconds; ++runs) {
      numTransfers = orThrow(simulation.predict(bytes)).numTransfers;
      simulated = processorSeconds() - start;
    }
    simulated /= runs;
    fmt::print("| {} | {} | {} | {:.4f} | {:.4f} | {:.2f} |\n", row.algorithm, mesh.toString(), numTransfers, traced,
               simulated, double(numTransfers) / simulated / 1e6);
    std::fflush(stdout);
  });
}

} // namespace

int main(int argc, char **argv) {
  try {
    cost::Machine machine = orThrow(cost::Machine::read("frontier"));
    fmt::print("| algorithm | mesh | transfers | traced, s | simulated, s | million transfers per second |\n"
               "|---|---|---|---|---|---|\n");
    for (const Row &row : rows)
      if (argc == 1 || std::string_view(row.algorithm) == argv[1])
        print(row, machine);
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    fmt::print("\nmost memory: {} MiB\n", usage.ru_maxrss / 1024);
  } catch (const ToolError &error) {
    fmt::print(stderr, "{}\n", error.what());
    return int(error.code());
  }
}
