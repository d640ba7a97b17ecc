// kolo-bench-cost: how long the closed form takes, by number of ranks. Prints, in markdown, the time to find a
// program's terms on a mesh of Frontier, which is spent once for all sizes, and the time to predict one size.
#include "driver/Compile.h"

#include "compiler/cost/ClosedForm.h"
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

void print(const Row &row, const cost::Machine &machine) {
  const dsl::Definition &definition = findShipped(row.algorithm);
  std::vector<runtime::MeshDim> dims;
  for (size_t dim = 0; dim < row.meshes.front().size(); ++dim)
    dims.push_back({definition.mesh.dims[dim], row.meshes.front()[dim]});
  CompileRequest request;
  request.definitions = {definition};
  request.meshes = {runtime::Mesh::create(dims).value()};
  compileForCosts(
      request, Runners::Any, [&](mlir::ModuleOp choreographies, mlir::ModuleOp, const ResolvedSchedule &schedule) {
        ChoreographyOp choreography = *choreographies.getOps<ChoreographyOp>().begin();
        for (const std::vector<int64_t> &mesh : row.meshes) {
          cost::Placement placement = orThrow(cost::Placement::create(machine, {definition.mesh.dims, mesh}));
          auto create = [&] {
            return orThrow(
                cost::ClosedForm::create(choreography, schedule, machine, placement, cost::Rates::Peak, /*lanes=*/0));
          };
          double creating = fastest([&] { (void)create(); });
          cost::ClosedForm cost = create();
          double seconds = 0, predicting = fastest([&] { seconds += cost.seconds(1 << 20); });
          fmt::print("| {} | {} | {} | {:.1f} | {:.2f} |\n", row.algorithm, fmt::join(mesh, " x "),
                     placement.numRanks(), creating, predicting);
        }
      });
}

} // namespace

int main() {
  cost::Machine machine = orThrow(cost::Machine::read("frontier"));
  fmt::print("| algorithm | mesh | ranks | terms, us | one size, us |\n|---|---|---|---|---|\n");
  for (const Row &row : rows)
    print(row, machine);
}
