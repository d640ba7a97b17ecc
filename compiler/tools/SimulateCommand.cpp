// kolo simulate: what a program costs on a machine, by an event-driven simulation of all its ranks.
#include "Commands.h"
#include "CostOptions.h"
#include "driver/Kinds.h"
#include "driver/Schedules.h"

#include "compiler/cost/PerfettoTrace.h"
#include "compiler/cost/Simulation.h"

#include "mlir/IR/BuiltinOps.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <map>

namespace kolo::tools {

namespace {

using Json = nlohmann::ordered_json;

struct SimulateCommand {
  CostOptions options;
  CostedPrograms programs;
  int64_t numCalls = 1;
  std::string trace;

  void run();

private:
  Json simulate(const CompileRequest &request);
  Json simulateSize(const cost::Simulation &simulation, const dsl::Definition &definition, int64_t bytes);
  void writeTrace(const cost::Simulation &simulation, const cost::Timeline &timeline);
  std::string sourceLine(const std::string &file, unsigned line);
  void print(const std::string &name, const Json &sizes) const;

  std::optional<cost::Machine> machine;
  std::optional<cost::Placement> placement;
  std::optional<cost::LowerBounds> bounds;
  std::map<std::string, std::vector<std::string>> sources; // lines by file
};

/// The author's line without its indentation; empty where the file cannot be read.
std::string SimulateCommand::sourceLine(const std::string &file, unsigned line) {
  auto [found, isNew] = sources.try_emplace(file);
  if (isNew) {
    std::ifstream stream(file);
    for (std::string text; std::getline(stream, text);)
      found->second.push_back(text);
  }
  if (line == 0 || line > found->second.size())
    return "";
  const std::string &text = found->second[line - 1];
  size_t begin = text.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin);
}

Json loadJson(const cost::ResourceLoad &load) {
  return {
      {"resource", load.resource}, {"from", load.from}, {"to", load.to}, {"bytes", load.bytes}, {"share", load.share}};
}

Json SimulateCommand::simulateSize(const cost::Simulation &simulation, const dsl::Definition &definition,
                                   int64_t bytes) {
  cost::Timeline timeline;
  cost::SimulationOutcome outcome =
      orThrow(simulation.predict(bytes, trace.empty() ? nullptr : &timeline), definition.name + ": ");
  if (!trace.empty())
    writeTrace(simulation, timeline);
  const cost::Prediction &prediction = outcome.prediction;
  Json size = {{"bytes", bytes}, {"seconds", prediction.seconds}, {"latencySeconds", prediction.latencySeconds}};
  // There is no bound for collectives of some of a mesh's ranks.
  if (definition.collective.dims.empty()) {
    cost::LowerBound bound = bounds->of(KoloCollective(kindOf(definition.collective)), bytes);
    size["boundSeconds"] = bound.seconds;
    size["fractionOfBound"] = bound.seconds / prediction.seconds;
  }
  size["bottleneck"] = prediction.bottleneck;
  size["transfers"] = outcome.numTransfers;
  size["statements"] = Json::array();
  for (const cost::StatementCost &row : prediction.statements)
    size["statements"].push_back({{"file", row.file},
                                  {"line", row.line},
                                  {"text", sourceLine(row.file, row.line)},
                                  {"executions", row.executions},
                                  {"seconds", row.seconds},
                                  {"latencySeconds", row.latencySeconds},
                                  {"bytes", row.bytes},
                                  {"bottleneck", row.bottleneck}});
  size["links"] = Json::array();
  for (const cost::ResourceLoad &load : prediction.loads)
    size["links"].push_back(loadJson(load));
  size["traffic"] = outcome.traffic;
  return size;
}

void SimulateCommand::writeTrace(const cost::Simulation &simulation, const cost::Timeline &timeline) {
  std::vector<cost::StatementLabel> labels;
  for (const cost::SimulatedLine &line : simulation.statements())
    labels.push_back(
        {line.line ? fmt::format("{}:{}", line.file, line.line) : line.file, sourceLine(line.file, line.line)});
  std::vector<std::string> names;
  for (int64_t rank = 0; rank < placement->numRanks(); ++rank)
    names.push_back(fmt::format("rank {}: node {}, {}", rank, placement->nodeOf(rank),
                                machine->vertices()[size_t(placement->deviceOf(rank))].name));
  writeWhole(trace, cost::perfettoTrace(timeline, labels, names), "--trace");
}

Json SimulateCommand::simulate(const CompileRequest &request) {
  const dsl::Definition &definition = request.definitions.front();
  Json sizes = Json::array();
  compileToChannel(request, [&](mlir::ModuleOp module) {
    ProgramOp program = *module.getOps<ProgramOp>().begin();
    cost::Simulation simulation = orThrow(
        cost::Simulation::create(program, *machine, *placement, {options.parsedRates(), programs.lanes, numCalls}),
        definition.name + ": ");
    for (int64_t bytes : options.sizes())
      sizes.push_back(simulateSize(simulation, definition, bytes));
  });
  return sizes;
}

std::string timeText(double seconds) {
  return seconds < 1e-3 ? fmt::format("{:.2f} us", seconds * 1e6)
         : seconds < 1  ? fmt::format("{:.3f} ms", seconds * 1e3)
                        : fmt::format("{:.3f} s", seconds);
}

void SimulateCommand::print(const std::string &name, const Json &sizes) const {
  fmt::print("{} on {}, {}: simulated\n", name, machine->name(), options.mesh);
  fmt::print("{:>14}  {:>12}  {:>10}  {:>9}  {}\n", "bytes", "time", "GB/s", "of bound", "bottleneck");
  for (const Json &size : sizes) {
    double bytes = size["bytes"], seconds = size["seconds"];
    std::string share =
        size.contains("fractionOfBound") ? fmt::format("{:.1f} %", 100 * size["fractionOfBound"].get<double>()) : "-";
    fmt::print("{:>14}  {:>12}  {:>10.3f}  {:>9}  {}\n", size["bytes"].get<int64_t>(), timeText(seconds),
               bytes / seconds / 1e9, share, size["bottleneck"].get<std::string>());
  }
  const Json &last = sizes.back();
  fmt::print("\n{:>12}  {:>12}  {:>10}  {:<28}  statement, at {} bytes\n", "time", "of it latency", "moves",
             "bottleneck", last["bytes"].get<int64_t>());
  for (const Json &row : last["statements"]) {
    unsigned line = row["line"];
    std::string file = row["file"];
    fmt::print("{:>12}  {:>12}  {:>10}  {:<28}  {}\n", timeText(row["seconds"]), timeText(row["latencySeconds"]),
               row["executions"].get<int64_t>(), row["bottleneck"].get<std::string>(),
               line ? fmt::format("{}:{}  {}", file, line, row["text"].get<std::string>()) : file);
  }
}

void SimulateCommand::run() {
  if (!trace.empty())
    checkWritable(trace, "--trace");
  runtime::Mesh mesh = options.parsedMesh();
  machine.emplace(options.readMachine());
  placement.emplace(options.place(*machine));
  bounds.emplace(*machine, *placement);
  std::vector<CompileRequest> requests = programs.makeRequests(mesh);
  if (!trace.empty() && (requests.size() > 1 || options.sizes().size() > 1))
    throw ToolError(ExitCode::Usage, "--trace: shows one program with one number of bytes, for example --bytes 1M");
  Json report = {{"machine", machine->name()}, {"mesh", options.mesh}, {"placement", options.placement}};
  report["collective"] = runtime::toString(kindOf(requests.front().definitions.front().collective));
  report["rates"] = options.rates;
  report["model"] = "simulation";
  report["calls"] = numCalls;
  report["schedules"] = Json::array();
  const char *separator = "";
  for (const CompileRequest &request : requests) {
    const std::string &name = request.definitions.front().name;
    Json sizes = simulate(request);
    if (!options.writesToStandardOutput()) {
      fmt::print("{}", std::exchange(separator, "\n"));
      print(name, sizes);
    }
    report["schedules"].push_back({{"name", name}, {"schedule", toJson(request.schedule)}, {"sizes", sizes}});
  }
  if (options.writesToStandardOutput())
    fmt::print("{}\n", report.dump(2));
  else if (options.json)
    writeWhole(*options.json, report.dump(2) + "\n", "--json");
}

} // namespace

void addSimulateCommand(CLI::App &app) {
  CLI::App *command = app.add_subcommand("simulate", "predicts what algorithms cost on a machine, event by event");
  auto simulate = std::make_shared<SimulateCommand>();
  simulate->programs.addTo(*command);
  simulate->options.addTo(*command);
  command->add_option("--calls", simulate->numCalls, "calls that follow each other at once; times are the mean of one")
      ->check(CLI::Range(int64_t(1), int64_t(1'000'000)))
      ->capture_default_str();
  command->add_option("--trace", simulate->trace,
                      "also writes a timeline, which ui.perfetto.dev opens: what every rank does when");
  command->callback([simulate] { simulate->run(); });
}

} // namespace kolo::tools
