#include "compiler/cost/closedform/ClosedForm.h"
#include "compiler/cost/closedform/ClosedFormTerms.h"

#include "mlir/IR/Diagnostics.h"

#include <set>

using namespace mlir;

namespace kolo::cost {

ProgramFacts ProgramFacts::of(ProgramOp program) {
  ProgramFacts facts;
  program.walk([&](Operation *op) {
    if (isa<EnterOp>(op))
      facts.entersTogether = true;
    if (isa<WaitOp>(op) && creditOf(op) == CreditKind::Entry)
      facts.waitsAtEntry.insert(statementKey(op));
    if (auto fuse = dyn_cast<FuseOp>(op)) {
      Fused &fused = facts.fused.emplace_back();
      for (MoveInterface move : fuse.getMoves())
        (fuse.isInto(move) ? fused.into : fused.outOf).insert(statementKey(move));
    }
  });
  return facts;
}

Protocol protocolOf(const ResolvedSchedule &schedule) {
  return schedule.usesLL128()         ? Protocol::LL128
         : schedule.usesPackets()     ? Protocol::LL
         : schedule.publishesInputs() ? Protocol::Published
                                      : Protocol::Bulk;
}

ClosedForm::ClosedForm(ClosedForm &&) noexcept = default;
ClosedForm &ClosedForm::operator=(ClosedForm &&) noexcept = default;
ClosedForm::~ClosedForm() = default;

/// Those up to which bandwidths are the same, growing.
static std::set<int64_t> workingSetsOf(const Machine &machine) {
  std::set<int64_t> sizes = {beyondCaches};
  auto add = [&](const Bandwidth &bandwidth) {
    for (const Bandwidth::Step &step : bandwidth.bySize)
      sizes.insert(step.upToBytes);
  };
  for (const Resource &resource : machine.resources())
    add(resource.peak);
  add(machine.device().laneBandwidth);
  add(machine.device().laneReduction);
  return sizes;
}

std::variant<ClosedForm, CostMistake> ClosedForm::create(ChoreographyOp choreography, const ResolvedSchedule &schedule,
                                                         const Machine &machine, const Placement &placement,
                                                         Rates rates, int64_t lanes, const ProgramFacts *facts,
                                                         int64_t elementBytes) {
  if (choreography.getMesh().size() != placement.mesh().sizes.size())
    return CostMistake{"mesh: " + choreography.getSymName().str() + " has " +
                       std::to_string(choreography.getMesh().size()) + " dimensions, and the mesh " +
                       std::to_string(placement.mesh().sizes.size())};
  if (std::optional<CostMistake> refused = machine.refuse(protocolOf(schedule)))
    return *refused;
  CostMistake mistake;
  ScopedDiagnosticHandler handler(choreography.getContext(), [&](Diagnostic &diagnostic) {
    SourceLine place = sourceLineOf(diagnostic.getLocation());
    if (mistake.message.empty())
      mistake.message = place.file + ":" + std::to_string(place.line) + ":" + std::to_string(place.column) +
                        ": error: " + diagnostic.str();
    return success();
  });
  ClosedForm result;
  for (int64_t workingSet : workingSetsOf(machine)) {
    FailureOr<FoundTerms> found =
        findTerms(choreography, schedule, machine, placement, facts, elementBytes, {rates, lanes, workingSet});
    if (failed(found))
      return mistake;
    found->terms->upToWorkingSet = workingSet;
    result.workingSet = found->workingSet;
    result.terms.push_back(std::move(found->terms));
  }
  return result;
}

void ClosedForm::setPipelineDepth(int64_t depth) {
  for (const std::unique_ptr<Terms> &all : terms)
    if (all->depth > 1) // else it has one phase
      all->depth = depth;
}

const ClosedForm::Terms &ClosedForm::termsFor(int64_t bytes) const {
  double needed = workingSet * double(bytes);
  for (const std::unique_ptr<Terms> &candidate : terms)
    if (needed <= double(candidate->upToWorkingSet))
      return *candidate;
  return *terms.back();
}

/// Seconds that all slices but the first add to a pipeline, for this many bytes of each. Ranks wait for what a phase
/// put when they come to the next phase, one round later. PlacePipeline.cpp says how rounds look; where no phase
/// waits inside or reads from peers, a rank puts the next slice before it waits, so that two of them are under way.
static double followingSeconds(const ClosedForm::Terms &terms, double bytes) {
  double busy = 0; // a rank does one phase after the other; only what it put last flows meanwhile
  auto holds = [&](const Phase &phase) {
    return phase.latency - phase.lastLatency + (phase.perByte - phase.lastPerByte) * bytes;
  };
  for (const Phase &phase : terms.phases)
    busy += holds(phase);
  bool putsAhead = !terms.hasPulls && std::ranges::none_of(terms.phases, &Phase::waitsInside);
  double arrival = 0; // of the slowest last put, after the round began in which it is put
  for (size_t i = 0; i < terms.phases.size(); ++i) {
    const Phase &phase = terms.phases[i];
    double next = i + 1 < terms.phases.size() ? holds(terms.phases[i + 1]) : 0;
    arrival =
        std::max(arrival, phase.lastLatency + phase.lastPerByte * bytes + (putsAhead ? busy : holds(phase) + next));
  }
  double round = std::max(terms.steadyPerByte * bytes + terms.steadyMessages, busy);
  auto slices = terms.depth - 1, pairs = slices / 2;
  if (!putsAhead)
    return double(slices) * std::max(round, arrival);
  return double(pairs) * std::max(2 * round, arrival) + double(slices - 2 * pairs) * round;
}

/// Seconds of all phases, for this many bytes of each slice.
static double onceThrough(const ClosedForm::Terms &terms, double bytes) {
  double seconds = 0;
  for (const Phase &phase : terms.phases)
    seconds += phase.latency + phase.perByte * bytes;
  return seconds;
}

double ClosedForm::seconds(int64_t bytes) const {
  const Terms &known = termsFor(bytes);
  double slice = double(bytes) / double(known.depth);
  return known.launch + known.entry.value_or(0) + onceThrough(known, slice) + followingSeconds(known, slice);
}

static std::vector<StatementCost> statementsOf(const ClosedForm::Terms &terms, double bytes) {
  std::vector<StatementCost> statements;
  if (terms.launch > 0)
    statements.push_back({"launch", 0, 1, terms.launch, terms.launch, 0, ""});
  if (terms.entry)
    statements.push_back({"entry", 0, 1, *terms.entry, *terms.entry, 0, ""});
  double slice = bytes / double(terms.depth), once = onceThrough(terms, slice);
  // What follows the first slice, in proportion to what the first slice takes.
  double stretch = once > 0 ? 1 + followingSeconds(terms, slice) / once : 1;
  size_t first = statements.size();
  std::vector<std::map<size_t, double>> times(terms.rows.size()); // by resource
  for (const Row &row : terms.rows)
    statements.push_back({row.place.file, row.place.line, 0, 0, 0, 0, ""});
  for (const Part &part : terms.parts) {
    StatementCost &statement = statements[first + part.row];
    statement.executions += int64_t(part.executions) * terms.depth;
    statement.seconds += (part.latency + part.messageSeconds + part.perByte * slice) * stretch;
    statement.latencySeconds += part.latency;
    statement.bytes += part.share * bytes;
    for (const Part::Time &time : part.times)
      times[part.row][time.resource] += time.messageSeconds + time.perByte * std::max(slice, 1.0);
  }
  for (size_t row = 0; row < terms.rows.size(); ++row) {
    auto most = std::ranges::max_element(times[row], {}, [](const auto &entry) { return entry.second; });
    if (most != times[row].end())
      statements[first + row].bottleneck = terms.resourceNames[most->first];
  }
  return statements;
}

Prediction ClosedForm::predict(int64_t bytes) const {
  Prediction prediction;
  prediction.bytes = bytes;
  prediction.seconds = seconds(bytes);
  const Terms &known = termsFor(bytes);
  prediction.statements = statementsOf(known, double(bytes));
  double most = -1;
  for (const StatementCost &statement : prediction.statements) {
    prediction.latencySeconds += statement.latencySeconds;
    if (statement.seconds > most) {
      most = statement.seconds;
      prediction.bottleneck = statement.bottleneck;
    }
  }
  if (2 * prediction.latencySeconds > prediction.seconds)
    prediction.bottleneck = "latency";
  prediction.traffic = known.traffic;
  for (std::vector<double> &row : prediction.traffic)
    for (double &share : row)
      share *= double(bytes);
  for (const TotalLoad &load : known.loads) {
    double carried = load.share * double(bytes);
    double taken = (load.bandwidth > 0 ? carried / load.bandwidth : 0) + load.messageSeconds * double(known.depth);
    double busy = prediction.seconds > 0 ? taken / prediction.seconds : 0;
    prediction.loads.push_back({load.resource, load.from, load.to, carried, busy});
  }
  return prediction;
}

} // namespace kolo::cost
