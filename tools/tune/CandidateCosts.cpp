#include "tools/tune/CandidateCosts.h"
#include "tools/run/Data.h"

#include "compiler/cost/simulation/Simulation.h"

#include "mlir/IR/BuiltinOps.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace kolo::tools {

namespace {

template <typename T> T orRefuse(std::variant<T, cost::CostMistake> result) {
  if (auto *mistake = std::get_if<cost::CostMistake>(&result))
    throw ToolError(ExitCode::Usage, "--machine: " + mistake->message);
  return std::get<T>(std::move(result));
}

/// Of one candidate.
struct CandidateCost {
  const runtime::ProgramInfo *info;
  bool publishes;
  std::map<int64_t, cost::Prediction> bySize; // of the program itself
};

class CandidateCosts {
public:
  CandidateCosts(const cost::Machine &on, const Candidates &candidates, const runtime::Mesh &mesh)
      : machine(on), plugin(candidates.plugin), numRanks(mesh.numRanks()), mesh(mesh), placement(placeOn(on, mesh)) {}

  void add(const Candidate &candidate, const std::vector<int64_t> &sizes) {
    CandidateCost cost{plugin.findProgram(candidate.program()), candidate.schedule.protocol == Protocol::Published, {}};
    CompileRequest request{{findShipped(candidate.algorithm)}, {mesh}, ""};
    request.schedule = candidate.schedule;
    compileForCosts(request, Runners::Host, [&](mlir::ModuleOp, mlir::ModuleOp programs, const ResolvedSchedule &) {
      auto simulation = orRefuse(cost::Simulation::create(*programs.getOps<ProgramOp>().begin(), machine, placement,
                                                          {cost::Rates::Peak, /*lanes=*/1}));
      for (int64_t bytes : sizes)
        cost.bySize[bytes] = orRefuse(simulation.predict(bytes)).prediction;
    });
    costs.emplace(candidate.program(), std::move(cost));
  }

  /// By growing time; where it is the same, by name.
  std::vector<PredictedProgram> predict(const PredictedCell &cell, const std::vector<std::string> &programs) const {
    std::vector<PredictedProgram> predictions;
    for (const std::string &program : programs) {
      const CandidateCost &cost = costs.at(program);
      const cost::Prediction &ofProgram = cost.bySize.at(cell.bytes);
      predictions.push_back({program, ofProgram.seconds + publishSeconds(cost, cell), ofProgram.bottleneck});
    }
    std::ranges::sort(predictions, {}, [](const PredictedProgram &prediction) {
      return std::pair(prediction.seconds, std::string_view(prediction.program));
    });
    if (cell.memory == runtime::MemoryKind::Ordinary) {
      std::set<Access> seen;
      std::erase_if(predictions, [&](const PredictedProgram &prediction) {
        return !seen.insert(accessOf(costs.at(prediction.program))).second;
      });
    }
    return predictions;
  }

private:
  static cost::Placement placeOn(const cost::Machine &machine, const runtime::Mesh &mesh) {
    cost::PlacedMesh placed;
    for (const runtime::MeshDim &dim : mesh.dims()) {
      placed.names.push_back(dim.name);
      placed.sizes.push_back(dim.size);
    }
    return orRefuse(cost::Placement::create(machine, placed));
  }

  /// What ranks access of each other.
  enum class Access { Published, Buffers, Scratch };
  static Access accessOf(const CandidateCost &cost) {
    bool isBuffers = cost.info->sharesInput || cost.info->sharesOutput;
    return cost.publishes ? Access::Published : isBuffers ? Access::Buffers : Access::Scratch;
  }

  double publishSeconds(const CandidateCost &cost, const PredictedCell &cell) const {
    BufferSizes unit = bufferSizes(cell.collective, 1, numRanks);
    double perElement = double(cell.bytes) / double(std::max(unit.inputElements, unit.outputElements));
    double input = double(unit.inputElements) * perElement, output = double(unit.outputElements) * perElement;
    double rate = machine.device().laneBandwidth.at(int64_t(input + output));
    return cost.publishes && rate > 0 ? input / rate : 0;
  }

  cost::Machine machine;
  runtime::Plugin plugin;
  int numRanks;
  runtime::Mesh mesh;
  cost::Placement placement;
  std::map<std::string, CandidateCost> costs;
};

} // namespace

Predictor predictorFor(const cost::Machine &machine, const Candidates &candidates, const runtime::Mesh &mesh,
                       const std::vector<int64_t> &sizes) {
  auto costs = std::make_shared<CandidateCosts>(machine, candidates, mesh);
  for (const Candidate &candidate : candidates.all)
    costs->add(candidate, sizes);
  return [costs](const PredictedCell &cell, const std::vector<std::string> &programs) {
    return costs->predict(cell, programs);
  };
}

} // namespace kolo::tools
