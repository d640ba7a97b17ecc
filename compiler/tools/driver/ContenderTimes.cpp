#include "driver/ContenderTimes.h"

#include "compiler/cost/ClosedForm.h"
#include "compiler/cost/Simulation.h"

#include <algorithm>

using namespace mlir;

namespace kolo::tools {

using cost::ClosedForm;
using cost::CostMistake;
using cost::PlacedMesh;
using cost::Placement;

PlacedMesh allRanks(const ExploreRequest &request) {
  return {{"rank"}, {request.numNodes * request.machine.devicesPerNode()}};
}

/// Of the resource that is busy for longest: no overlap makes a program faster. It may be another one on all nodes
/// than on the few that are simulated.
static double busySeconds(const ClosedForm &form, int64_t bytes) {
  cost::Prediction prediction = form.predict(bytes);
  double share = 0;
  for (const cost::ResourceLoad &load : prediction.loads)
    share = std::max(share, load.share);
  return share * prediction.seconds;
}

std::string ContenderTimes::onFewNodes(unsigned thread, const Contender &contender, const Choices &choices) {
  ContenderPrograms::Compiled compiled;
  if (std::string reason = programs.compile(thread, contender, compiled); !reason.empty())
    return reason;
  PlacedMesh mesh = programs.fewNodes(contender);
  auto placed = Placement::create(request.machine, mesh, contender.placement);
  if (auto *mistake = std::get_if<CostMistake>(&placed))
    return mistake->message;
  const Placement &placement = std::get<Placement>(placed);
  ProgramOp program = *compiled.program->getOps<ProgramOp>().begin();
  const cost::ProgramFacts facts = cost::ProgramFacts::of(program);
  auto formOn = [&](const Placement &ranks) {
    return ClosedForm::create(*compiled.choreography->getOps<ChoreographyOp>().begin(), resolved(contender.schedule),
                              request.machine, ranks, request.rates, 0, &facts);
  };
  auto form = formOn(placement);
  auto simulation = cost::Simulation::create(program, request.machine, placement, {.rates = request.rates});
  for (const CostMistake *mistake : {std::get_if<CostMistake>(&form), std::get_if<CostMistake>(&simulation)})
    if (mistake)
      return mistake->message;
  std::optional<ClosedForm> whole; // nothing: other nodes are not costed, but scaled
  if (!contender.isScaled)
    whole = std::get<ClosedForm>(
        formOn(std::get<Placement>(Placement::create(request.machine, contender.mesh, contender.placement))));
  for (auto [size, choice] : choices) {
    int64_t bytes = shrinkBytes(request.sizes[size], request.collective, allRanks(request), mesh);
    auto outcome = std::get<cost::Simulation>(simulation).predict(bytes);
    if (auto *mistake = std::get_if<CostMistake>(&outcome))
      return mistake->message;
    const auto &found = std::get<cost::SimulationOutcome>(outcome);
    double correction = found.prediction.seconds / std::get<ClosedForm>(form).seconds(bytes);
    choice->numTransfers = found.numTransfers;
    choice->wasOnAllNodes = mesh.numRanks() == contender.mesh.numRanks();
    // What takes less on few nodes than the closed form says are moves inside a node, a smaller share on many.
    if (!choice->wasOnAllNodes)
      correction = std::max(correction, 1.0);
    choice->seconds = correction * (whole ? whole->seconds(request.sizes[size]) : contender.seconds[size]);
    if (whole)
      choice->seconds = std::max(choice->seconds, busySeconds(*whole, request.sizes[size]));
    choice->correction = choice->seconds / contender.seconds[size];
  }
  return "";
}

void ContenderTimes::onAllNodes(unsigned thread, const Contender &contender, const Choices &choices) {
  for (auto [_, choice] : choices)
    choice->wasOnAllNodes = true;
  ContenderPrograms::Compiled compiled;
  if (!programs.compile(thread, contender, compiled).empty())
    return;
  const Placement placement =
      std::get<Placement>(Placement::create(request.machine, contender.mesh, contender.placement));
  auto simulation = cost::Simulation::create(*compiled.program->getOps<ProgramOp>().begin(), request.machine, placement,
                                             {.rates = request.rates});
  if (std::holds_alternative<CostMistake>(simulation))
    return;
  for (auto [size, choice] : choices) {
    auto outcome = std::get<cost::Simulation>(simulation).predict(request.sizes[size]);
    if (auto *found = std::get_if<cost::SimulationOutcome>(&outcome)) {
      choice->seconds = found->prediction.seconds;
      choice->correction = choice->seconds / contender.seconds[size];
    }
  }
}

} // namespace kolo::tools
