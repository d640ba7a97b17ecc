#include "tools/explore/CandidateTimes.h"

#include "compiler/cost/closedform/ClosedForm.h"
#include "compiler/cost/simulation/Simulation.h"
#include "ir/BlockTables.h"

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

namespace {

/// What a program takes for some bytes by one model, and what of that is latency: a call of one element per rank.
struct Parts {
  double seconds;
  double latency;

  double ofBandwidth() const { return seconds - latency; }
};

} // namespace

static int64_t bytesOfLatency(const PlacedMesh &mesh) { return mesh.numRanks() * cost::defaultElementBytes; }

static Parts partsOf(const ClosedForm &form, int64_t bytes, const PlacedMesh &mesh) {
  return {form.seconds(bytes), form.seconds(bytesOfLatency(mesh))};
}

/// What the closed form leaves out on all nodes, by what it leaves out on few. More latency stays as it is; the rest
/// grows as the time of bandwidth does. What takes less in the simulation of few nodes are moves inside a node, a
/// smaller share on all.
static double secondsLeftOut(Parts simulation, Parts form, Parts formOnAll) {
  const double more = std::max(simulation.seconds - form.seconds, 0.0);
  const double latency = std::clamp(simulation.latency - form.latency, 0.0, more);
  const double growth = form.ofBandwidth() > 0 ? formOnAll.ofBandwidth() / form.ofBandwidth() : 1;
  return latency + std::max(growth, 1.0) * (more - latency);
}

std::string CandidateTimes::onFewNodes(unsigned thread, const PlacedCandidate &candidate, const Choices &choices) {
  CandidatePrograms::Compiled compiled;
  if (std::string reason = programs.compile(thread, candidate, compiled); !reason.empty())
    return reason;
  PlacedMesh mesh = programs.fewNodes(candidate);
  auto placed = Placement::create(request.machine, mesh, candidate.placement);
  if (auto *mistake = std::get_if<CostMistake>(&placed))
    return mistake->message;
  const Placement &placement = std::get<Placement>(placed);
  ProgramOp program = *compiled.program->getOps<ProgramOp>().begin();
  const cost::ProgramFacts facts = cost::ProgramFacts::of(program);
  auto formOn = [&](const Placement &ranks) {
    return ClosedForm::create(*compiled.choreography->getOps<ChoreographyOp>().begin(), resolved(candidate.schedule),
                              request.machine, ranks, request.rates, request.mostLanes, &facts);
  };
  auto form = formOn(placement);
  auto simulation = cost::Simulation::create(program, request.machine, placement,
                                             {.rates = request.rates, .lanes = request.mostLanes});
  for (const CostMistake *mistake : {std::get_if<CostMistake>(&form), std::get_if<CostMistake>(&simulation)})
    if (mistake)
      return mistake->message;
  const auto &formOnFew = std::get<ClosedForm>(form);
  const bool isOnAllNodes = mesh.numRanks() == candidate.mesh.numRanks();
  std::optional<ClosedForm> formOnAll;
  std::optional<double> latency; // simulated
  if (!isOnAllNodes) {
    formOnAll = std::get<ClosedForm>(
        formOn(std::get<Placement>(Placement::create(request.machine, candidate.mesh, candidate.placement))));
    auto outcome = std::get<cost::Simulation>(simulation).predict(bytesOfLatency(mesh));
    if (auto *mistake = std::get_if<CostMistake>(&outcome))
      return mistake->message;
    latency = std::get<cost::SimulationOutcome>(outcome).prediction.seconds;
  }
  for (auto [size, choice] : choices) {
    const int64_t bytes = request.sizes[size];
    const int64_t fewBytes = shrinkBytes(bytes, request.collective, allRanks(request), mesh);
    auto outcome = std::get<cost::Simulation>(simulation).predict(fewBytes);
    if (auto *mistake = std::get_if<CostMistake>(&outcome))
      return mistake->message;
    const auto &found = std::get<cost::SimulationOutcome>(outcome);
    const double simulated = found.prediction.seconds;
    choice->numTransfers = found.numTransfers;
    choice->wasOnAllNodes = isOnAllNodes;
    if (candidate.isScaled)
      choice->seconds = candidate.seconds[size] * simulated / formOnFew.seconds(fewBytes);
    else if (isOnAllNodes)
      choice->seconds = simulated;
    else
      choice->seconds =
          std::max(formOnAll->seconds(bytes) + secondsLeftOut({simulated, *latency}, partsOf(formOnFew, fewBytes, mesh),
                                                              partsOf(*formOnAll, bytes, candidate.mesh)),
                   busySeconds(*formOnAll, bytes));
    choice->correction = choice->seconds / candidate.seconds[size];
  }
  return "";
}

std::string CandidateTimes::onAllNodes(unsigned thread, const PlacedCandidate &candidate, const Choices &choices) {
  for (auto [_, choice] : choices)
    choice->wasOnAllNodes = true;
  CandidatePrograms::Compiled compiled;
  if (std::string reason = programs.compile(thread, candidate, compiled); !reason.empty())
    return reason;
  ProgramOp program = *compiled.program->getOps<ProgramOp>().begin();
  if (std::optional<TableObstacle> obstacle = request.counts ? findTableObstacle(program) : std::nullopt)
    return withoutTables(candidate, obstacle->text);
  auto placed = Placement::create(request.machine, candidate.mesh, candidate.placement);
  if (auto *mistake = std::get_if<CostMistake>(&placed))
    return mistake->message;
  auto simulation =
      cost::Simulation::create(program, request.machine, std::get<Placement>(placed),
                               {.rates = request.rates, .lanes = request.mostLanes, .counts = request.counts});
  if (auto *mistake = std::get_if<CostMistake>(&simulation))
    return mistake->message;
  std::string reason;
  for (auto [size, choice] : choices) {
    auto outcome = std::get<cost::Simulation>(simulation).predict(request.sizes[size]);
    if (auto *found = std::get_if<cost::SimulationOutcome>(&outcome)) {
      choice->seconds = found->prediction.seconds;
      choice->numTransfers = found->numTransfers;
      choice->correction = choice->seconds / candidate.seconds[size];
    } else {
      reason = std::get<CostMistake>(outcome).message;
    }
  }
  return reason;
}

} // namespace kolo::tools
