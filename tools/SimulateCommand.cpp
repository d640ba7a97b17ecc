// kolo simulate: what algorithms cost on a machine, by an event-driven simulation of all their ranks.
#include "tools/CommandLine.h"
#include "tools/Commands.h"
#include "tools/CostReport.h"
#include "tools/compile/ForeignFile.h"
#include "tools/compile/Kinds.h"
#include "tools/report/Report.h"

#include "compiler/cost/blocks/BlockTimes.h"
#include "compiler/cost/simulation/PerfettoTrace.h"
#include "compiler/cost/simulation/Simulation.h"

#include "mlir/IR/BuiltinOps.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kolo::tools {

namespace {

struct SimulateCommand {
  CostOptions options;
  CostedPrograms programs;
  int64_t numCalls = 1;
  CountsOption counts;
  ReportOutput output;
  std::string trace, runner; // empty: by the machine

  void run();

private:
  void checkFlags() const;
  bool runsBlocks(const CompileRequest &request, const cost::Machine &machine) const;
  CostedSchedule simulateBlocks(CompileRequest request, const cost::Machine &machine);
  CostedSchedule simulate(CompileRequest request, const cost::Machine &machine);
  cost::SimulationOutcome predict(const cost::Simulation &simulation, const cost::Machine &machine,
                                  const cost::Placement &placement, const std::string &name, int64_t bytes);
  void writeTrace(const cost::Simulation &simulation, const cost::Timeline &timeline, const cost::Machine &machine,
                  const cost::Placement &placement) const;
  void keepTimeline(const cost::Simulation &simulation, const cost::Timeline &timeline, int64_t bytes,
                    int64_t numRanks);

  nlohmann::ordered_json timelines = nlohmann::ordered_json::array(); // of the page: with most bytes, by program
};

void SimulateCommand::writeTrace(const cost::Simulation &simulation, const cost::Timeline &timeline,
                                 const cost::Machine &machine, const cost::Placement &placement) const {
  std::vector<cost::StatementLabel> labels;
  for (const cost::SimulatedLine &line : simulation.statements())
    labels.push_back(
        {line.line ? fmt::format("{}:{}", line.file, line.line) : line.file, sourceLine(line.file, line.line)});
  std::vector<std::string> ranks;
  for (int64_t rank = 0; rank < placement.numRanks(); ++rank)
    ranks.push_back(fmt::format("rank {}: node {}, {}", rank, placement.nodeOf(rank),
                                machine.vertices()[size_t(placement.deviceOf(rank))].name));
  writeWhole(trace, cost::perfettoTrace(timeline, labels, ranks), "--trace");
}

void SimulateCommand::keepTimeline(const cost::Simulation &simulation, const cost::Timeline &timeline, int64_t bytes,
                                   int64_t numRanks) {
  nlohmann::ordered_json statements = nlohmann::ordered_json::array();
  for (const cost::SimulatedLine &line : simulation.statements())
    statements.push_back({{"file", line.file}, {"line", line.line}, {"text", sourceLine(line.file, line.line)}});
  timelines.push_back(timelineOf(timeline, statements, timelines.size(), bytes, numRanks));
}

cost::SimulationOutcome SimulateCommand::predict(const cost::Simulation &simulation, const cost::Machine &machine,
                                                 const cost::Placement &placement, const std::string &name,
                                                 int64_t bytes) {
  bool isOnPage = !output.html.empty() && bytes == options.sizes().back();
  cost::Timeline timeline;
  auto result = simulation.predict(bytes, isOnPage || !trace.empty() ? &timeline : nullptr);
  // A program whose timeline is too long has a page all the same.
  if (auto *mistake = std::get_if<cost::CostMistake>(&result); mistake && isOnPage && trace.empty()) {
    timelines.push_back(noTimeline(mistake->message, timelines.size()));
    return orThrow(simulation.predict(bytes), name + ": ");
  }
  cost::SimulationOutcome outcome = orThrow(std::move(result), name + ": ");
  if (!trace.empty())
    writeTrace(simulation, timeline, machine, placement);
  if (isOnPage)
    keepTimeline(simulation, timeline, bytes, placement.numRanks());
  return outcome;
}

/// Whether a file of MSCCL runs as RCCL's interpreter runs it, thread block by thread block.
bool SimulateCommand::runsBlocks(const CompileRequest &request, const cost::Machine &machine) const {
  if (request.irPath.empty() || runner == "plugin")
    return false;
  foreign::ForeignSchedule schedule = readForeign(request.irPath);
  if (runner.empty() && (!cost::BlockTimes::knows(machine) || schedule.messages.slots == 0))
    return false;
  if (std::optional<cost::CostMistake> refused = cost::BlockTimes::refuse(schedule, machine))
    throw ToolError(ExitCode::Usage, request.irPath + ": " + refused->message);
  if (programs.lanes != 0 || numCalls != 1 || !trace.empty())
    throw ToolError(ExitCode::Usage, request.irPath + ": has thread blocks of its own, which are simulated without "
                                                      "--lanes, --calls and --trace; --as plugin takes them");
  return true;
}

CostedSchedule SimulateCommand::simulateBlocks(CompileRequest request, const cost::Machine &machine) {
  foreign::ForeignSchedule foreignSchedule = readForeign(request.irPath);
  cost::BlockTimes::setLargestCall(foreignSchedule, options.sizes().back());
  foreign::Judgement judged = judgeForeign(foreignSchedule);
  if (!judged.findings.empty())
    throw ToolError(ExitCode::Refused, describe(foreignSchedule, judged.findings.front()));
  PlacedRequest placed(std::move(request), options, machine);
  cost::BlockTimes times(foreignSchedule, machine, placed.placement);
  for (int64_t bytes : options.sizes())
    placed.add(bytes, orThrow(times.predict(bytes), placed.schedule.name + ": "));
  placed.schedule.name += " by RCCL";
  if (!output.html.empty())
    timelines.push_back(noTimeline("thread blocks have no timeline", timelines.size()));
  return std::move(placed.schedule);
}

CostedSchedule SimulateCommand::simulate(CompileRequest request, const cost::Machine &machine) {
  if (runsBlocks(request, machine))
    return simulateBlocks(std::move(request), machine);
  PlacedRequest placed(std::move(request), options, machine);
  const std::string &name = placed.schedule.name;
  compileForCosts(
      placed.request, placed.runners, [&](mlir::ModuleOp, mlir::ModuleOp channel, const ResolvedSchedule &) {
        if (counts.law())
          checkTakesTables(*channel.getOps<ProgramOp>().begin(), placed.placement.mesh());
        cost::Simulation simulation =
            orThrow(cost::Simulation::create(*channel.getOps<ProgramOp>().begin(), machine, placed.placement,
                                             {options.parsedRates(), programs.lanes, numCalls, programs.elementBytes(),
                                              counts.law(), options.json || output.wantsBreakdown}),
                    name + ": ");
        placed.keepBounds(!findCoded(channel) && counts.text.empty());
        for (int64_t bytes : options.sizes()) {
          cost::SimulationOutcome outcome = predict(simulation, machine, placed.placement, name, bytes);
          placed.add(bytes, std::move(outcome.prediction), std::move(outcome.levels));
        }
      });
  return std::move(placed.schedule);
}

void SimulateCommand::checkFlags() const {
  (void)counts.law();
  output.check(options);
  checkWritable(trace, "--trace");
  if (!trace.empty() && options.sizes().size() > 1)
    throw ToolError(ExitCode::Usage, "--trace: shows one program with one number of bytes, for example --bytes 1M");
}

void SimulateCommand::run() {
  runtime::Mesh mesh = options.parsedMesh();
  cost::Machine machine = options.readMachine();
  (void)options.sizes(); // mistakes first
  checkFlags();
  std::vector<CompileRequest> requests = programs.makeRequests(mesh);
  if (!trace.empty() && requests.size() > 1)
    throw ToolError(ExitCode::Usage, "--trace: shows one program with one number of bytes, and there are several");
  CostReport report = startReport(options, machine, requests, "simulation");
  for (const CompileRequest &request : requests)
    report.schedules.push_back(simulate(request, machine));
  output.write(report, options, machine, timelines);
}

} // namespace

void addSimulateCommand(CLI::App &app) {
  CLI::App *command = addCommand(app, "simulate", "predicts what algorithms cost on a machine, event by event");
  auto simulate = std::make_shared<SimulateCommand>();
  simulate->programs.addTo(*command);
  simulate->options.addTo(*command);
  simulate->counts.addTo(*command);
  command->add_option("--calls", simulate->numCalls, "calls that follow each other at once; times are the mean of one")
      ->check(CLI::Range(int64_t(1), int64_t(1'000'000)))
      ->capture_default_str();
  command
      ->add_option("--as", simulate->runner,
                   "files of MSCCL: interpreter, as RCCL runs them, thread block by thread block and\nat the rates of "
                   "kernels; or plugin, what Kolo makes of them. Without it: as RCCL\nruns them, where the machine "
                   "knows its lanes (node.devices.lane)")
      ->check(CLI::IsMember({"interpreter", "plugin"}));
  simulate->output.addTo(*command);
  command->add_option("--trace", simulate->trace,
                      "also writes a timeline, which ui.perfetto.dev opens: what every rank does when");
  command->callback([simulate] { simulate->run(); });
}

} // namespace kolo::tools
