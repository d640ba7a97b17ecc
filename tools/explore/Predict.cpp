// What a chosen candidate takes at each size, and what bounds it: for reports.
#include "tools/explore/CandidateTimes.h"
#include "tools/explore/Explore.h"

#include "compiler/Pipeline.h"
#include "compiler/cost/closedform/ClosedForm.h"
#include "compiler/cost/simulation/Simulation.h"

using namespace mlir;

namespace kolo::tools {

using cost::ClosedForm;
using cost::CostMistake;
using cost::PlacedMesh;
using cost::Placement;

/// With block tables, by simulation.
static std::vector<cost::Prediction> predictTabled(const PlacedCandidate &candidate, const ExploreRequest &request,
                                                   const Placement &placement, ModuleOp program) {
  std::vector<cost::Prediction> predictions;
  auto simulation =
      cost::Simulation::create(*program.getOps<ProgramOp>().begin(), request.machine, placement,
                               {.rates = request.rates, .lanes = request.mostLanes, .counts = request.counts});
  auto check = [&](const auto &result) {
    if (auto *mistake = std::get_if<CostMistake>(&result))
      throw ToolError(ExitCode::Failed, candidate.definition.name + ": " + mistake->message);
  };
  check(simulation);
  for (int64_t bytes : request.sizes) {
    auto outcome = std::get<cost::Simulation>(simulation).predict(bytes);
    check(outcome);
    predictions.push_back(std::move(std::get<cost::SimulationOutcome>(outcome).prediction));
  }
  return predictions;
}

std::vector<cost::Prediction> predict(const PlacedCandidate &candidate, const ExploreRequest &request) {
  std::vector<cost::Prediction> predictions(request.sizes.size());
  Workshop workshop(request);
  std::string reason;
  PlacedMesh emitted =
      request.counts ? candidate.mesh : shrink(candidate.mesh, request.machine.devicesPerNode(), mostSimulatedNodes);
  OwningOpRef<ModuleOp> module = workshop.emit(candidate.definition, emitted, reason);
  if (module)
    reason = workshop.run(*module, buildChoreographyPipeline, {.schedule = resolved(candidate.schedule)});
  if (!reason.empty())
    throw ToolError(ExitCode::Failed, candidate.definition.name + ": " + reason);
  const Placement placement =
      std::get<Placement>(Placement::create(request.machine, candidate.mesh, candidate.placement));
  if (request.counts) {
    reason = workshop.run(*module, buildProgramPipeline,
                          {.schedule = resolved(candidate.schedule), .check = false, .searchesInFull = true});
    if (!reason.empty())
      throw ToolError(ExitCode::Failed, candidate.definition.name + ": " + reason);
    return predictTabled(candidate, request, placement, *module);
  }
  auto form = ClosedForm::create(*module->getOps<ChoreographyOp>().begin(), resolved(candidate.schedule),
                                 request.machine, placement, request.rates, request.mostLanes);
  const auto &costs = std::get<ClosedForm>(form);
  for (size_t size = 0; size < predictions.size(); ++size) {
    int64_t bytes = request.sizes[size];
    if (candidate.isScaled) {
      int64_t smaller = shrinkBytes(bytes, request.collective, allRanks(request), candidate.mesh);
      predictions[size].bytes = bytes;
      predictions[size].seconds = candidate.seconds[size];
      predictions[size].bottleneck = costs.predict(smaller).bottleneck;
    } else {
      predictions[size] = costs.predict(bytes);
    }
  }
  return predictions;
}

} // namespace kolo::tools
