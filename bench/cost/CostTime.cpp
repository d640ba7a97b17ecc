// kolo-bench-cost: how long the closed form takes, by number of ranks. Prints, in markdown, the time to find a
// program's terms on a mesh of Frontier, which is spent once for all sizes, and the time to predict one size. Then all
// shipped algorithms on all nodes of Frontier. With an argument: this algorithm alone, on all nodes.
#include "tools/compile/Compile.h"

#include "compiler/cost/closedform/ClosedForm.h"
#include "ir/Kolo.h"

#include "mlir/IR/BuiltinOps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

using namespace kolo;
using namespace kolo::tools;

namespace {

struct Row {
  const char *algorithm;
  std::vector<std::vector<int64_t>> meshes;
};

const Row rows[] = {{"ringAllGather", {{64}, {1024}, {16384}, {75264}}},
                    {"railAllGather", {{8, 8}, {128, 8}, {2048, 8}, {9408, 8}}},
                    {"railRecursiveAllGather", {{8, 8}, {128, 8}, {2048, 8}, {8192, 8}}},
                    {"threeLevelAllReduce", {{8, 4, 2}, {128, 4, 2}, {2048, 4, 2}, {9408, 4, 2}}},
                    {"directAllToAll", {{64}, {1024}, {16384}, {75264}}},
                    {"bruckAllToAll", {{64}, {1024}, {16384}, {75264}}},
                    {"binomialBroadcast", {{64}, {1024}, {16384}, {75264}}}};

template <typename T> T orThrow(std::variant<T, cost::CostMistake> result) {
  if (auto *mistake = std::get_if<cost::CostMistake>(&result))
    throw ToolError(ExitCode::Usage, mistake->message);
  return std::get<T>(std::move(result));
}

/// Microseconds of the fastest of some calls.
template <typename Function> double fastest(Function call) {
  using Clock = std::chrono::steady_clock;
  double best = 1e18;
  auto end = Clock::now() + std::chrono::milliseconds(200);
  for (int i = 0; i < 3 || (Clock::now() < end && i < 1000); ++i) {
    auto start = Clock::now();
    call();
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  return best;
}

std::string timesOf(ChoreographyOp choreography, const ResolvedSchedule &schedule, const cost::Machine &machine,
                    const cost::Placement &placement) {
  auto create = [&] {
    return orThrow(
        cost::ClosedForm::create(choreography, schedule, machine, placement, cost::Rates::Peak, /*lanes=*/0));
  };
  double creating = fastest([&] { (void)create(); });
  cost::ClosedForm cost = create();
  double seconds = 0, predicting = fastest([&] { seconds += cost.seconds(1 << 20); });
  return fmt::format("{:.1f} | {:.2f}", creating, predicting);
}

void print(const dsl::Definition &definition, const std::vector<std::vector<int64_t>> &meshes,
           const cost::Machine &machine) {
  std::vector<runtime::MeshDim> dims;
  for (size_t dim = 0; dim < meshes.front().size(); ++dim)
    dims.push_back({definition.mesh.dims[dim], meshes.front()[dim]});
  CompileRequest request;
  request.definitions = {definition};
  request.meshes = {runtime::Mesh::create(dims).value()};
  compileForCosts(
      request, Runners::Any, [&](mlir::ModuleOp choreographies, mlir::ModuleOp, const ResolvedSchedule &schedule) {
        ChoreographyOp choreography = *choreographies.getOps<ChoreographyOp>().begin();
        for (const std::vector<int64_t> &mesh : meshes) {
          cost::Placement placement = orThrow(cost::Placement::create(machine, {definition.mesh.dims, mesh}));
          fmt::print("| {} | {} | {} | {} |\n", definition.name, fmt::join(mesh, " x "), placement.numRanks(),
                     timesOf(choreography, schedule, machine, placement));
        }
      });
}

/// On all nodes of Frontier; or on 8,192, or one, where the algorithm does not take that many, with the reason.
void printWhole(const dsl::Definition &definition, const cost::Machine &machine) {
  std::string refusal;
  for (int64_t nodes : {9408, 8192, 1}) {
    std::vector<int64_t> mesh = {nodes, 8};
    if (definition.mesh.dims.size() == 1)
      mesh = {nodes * 8};
    else if (definition.mesh.dims.size() == 3)
      mesh = {nodes, 4, 2};
    try {
      print(definition, {mesh}, machine);
      if (nodes == 1)
        fmt::print("| | not on more nodes: {} | | | |\n", refusal);
      return;
    } catch (const ToolError &error) {
      refusal = error.what();
    }
  }
  fmt::print("| {} | refused: {} | | | |\n", definition.name, refusal);
}

} // namespace

int main(int argc, char **argv) {
  cost::Machine machine = orThrow(cost::Machine::read("frontier"));
  constexpr const char *heading = "| algorithm | mesh | ranks | terms, us | one size, us |\n|---|---|---|---|---|\n";
  fmt::print("{}", heading);
  if (argc > 1) {
    printWhole(findShipped(argv[1]), machine);
    return 0;
  }
  for (const Row &row : rows)
    print(findShipped(row.algorithm), row.meshes, machine);
  fmt::print("\nAll shipped algorithms on the whole of Frontier:\n\n{}", heading);
  for (const dsl::Definition &definition : shippedAlgorithms())
    if (usesCodecs(definition))
      fmt::print("| {} | has a codec, which costs do not know | | | |\n", definition.name);
    else if (!definition.collective.dims.empty())
      fmt::print("| {} | is no collective of all ranks | | | |\n", definition.name);
    else
      printWhole(definition, machine);
}
