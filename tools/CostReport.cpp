#include "tools/CostReport.h"
#include "tools/compile/Kinds.h"
#include "tools/compile/Schedules.h"
#include "tools/report/Report.h"

#include "compiler/check/Verdict.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <sstream>

namespace kolo::tools {

using Json = nlohmann::ordered_json;

namespace {

/// Lines of the authors' files.
class SourceText {
public:
  /// Without its indentation; empty where the file cannot be read.
  std::string line(const std::string &file, unsigned number) {
    auto [known, isNew] = files.try_emplace(file);
    if (isNew) {
      std::istringstream stream(readSource(file).value_or(""));
      for (std::string text; std::getline(stream, text);)
        known->second.push_back(text);
    }
    if (number == 0 || number > known->second.size())
      return "";
    const std::string &text = known->second[number - 1];
    return text.substr(std::min(text.find_first_not_of(" \t"), text.size()));
  }

private:
  std::map<std::string, std::vector<std::string>> files;
};

Json sizeJson(const CostedSize &size, SourceText &source) {
  const cost::Prediction &prediction = size.prediction;
  Json result = {
      {"bytes", prediction.bytes}, {"seconds", prediction.seconds}, {"latencySeconds", prediction.latencySeconds}};
  if (size.bound) {
    result["boundSeconds"] = size.bound->seconds;
    result["fractionOfBound"] = prediction.seconds > 0 ? size.bound->seconds / prediction.seconds : 1;
  }
  result["bottleneck"] = prediction.bottleneck;
  result["statements"] = Json::array();
  for (const cost::StatementCost &row : prediction.statements)
    result["statements"].push_back({{"file", row.file},
                                    {"line", row.line},
                                    {"text", source.line(row.file, row.line)},
                                    {"executions", row.executions},
                                    {"seconds", row.seconds},
                                    {"latencySeconds", row.latencySeconds},
                                    {"bytes", row.bytes},
                                    {"bottleneck", row.bottleneck}});
  result["links"] = Json::array();
  for (const cost::ResourceLoad &load : prediction.loads)
    result["links"].push_back({{"resource", load.resource},
                               {"from", load.from},
                               {"to", load.to},
                               {"bytes", load.bytes},
                               {"share", load.share}});
  if (!prediction.traffic.empty())
    result["traffic"] = prediction.traffic;
  for (const cost::LevelTraffic &level : size.levels)
    result["levels"].push_back({{"level", level.level}, {"bytes", level.bytes}});
  return result;
}

std::string timeText(double seconds) {
  return seconds < 1e-3 ? fmt::format("{:.2f} us", seconds * 1e6)
         : seconds < 1  ? fmt::format("{:.3f} ms", seconds * 1e3)
                        : fmt::format("{:.3f} s", seconds);
}

double gigabytesPerSecond(const cost::Prediction &prediction) {
  return prediction.seconds > 0 ? double(prediction.bytes) / prediction.seconds / 1e9 : 0;
}

std::string fractionText(const CostedSize &size) {
  return size.bound && size.prediction.seconds > 0
             ? fmt::format("{:.1f} %", 100 * size.bound->seconds / size.prediction.seconds)
             : "-";
}

void printSideBySide(const CostReport &report) {
  fmt::print("GB/s of {} on {}, {}; rates: {}\n{:>14}  {:>10}", report.collective, report.machine, report.mesh,
             report.rates, "bytes", "bound");
  auto widthOf = [](const CostedSchedule &schedule) { return std::max<size_t>(10, schedule.name.size()); };
  for (const CostedSchedule &schedule : report.schedules)
    fmt::print("  {:>{}}", schedule.name, widthOf(schedule));
  fmt::print("\n");
  for (size_t number = 0; number < report.schedules.front().sizes.size(); ++number) {
    const CostedSize &first = report.schedules.front().sizes[number];
    auto bytes = double(first.prediction.bytes);
    fmt::print("{:>14}  {:>10}", first.prediction.bytes,
               first.bound && first.bound->seconds > 0 ? fmt::format("{:.3f}", bytes / first.bound->seconds / 1e9)
                                                       : "-");
    for (const CostedSchedule &schedule : report.schedules)
      fmt::print("  {:>{}.3f}", gigabytesPerSecond(schedule.sizes[number].prediction), widthOf(schedule));
    fmt::print("\n");
  }
}

void printBreakdown(const CostedSize &size, SourceText &source) {
  fmt::print("\n{:>12}  {:>12}  {:>10}  {:<36}  statement, at {} bytes\n", "time", "of it latency", "executions",
             "bottleneck", size.prediction.bytes);
  for (const cost::StatementCost &row : size.prediction.statements)
    fmt::print("{:>12}  {:>13}  {:>10}  {:<36}  {}\n", timeText(row.seconds), timeText(row.latencySeconds),
               row.executions, row.bottleneck,
               row.line ? fmt::format("{}:{}  {}", row.file, row.line, source.line(row.file, row.line)) : row.file);
}

void printLevelTraffic(const CostedSize &size) {
  std::string text;
  for (const cost::LevelTraffic &level : size.levels)
    text += fmt::format("{} {:.0f} through {}", text.empty() ? "" : ",", level.bytes, level.level);
  if (!text.empty())
    fmt::print("bytes between nodes:{}\n", text);
}

void printSchedule(const CostReport &report, const CostedSchedule &schedule, bool everyBreakdown) {
  std::string fields = toJson(schedule.schedule).dump();
  fmt::print("{}{} on {}, {}{}: in {}, rates: {}\n", schedule.name, fields == "{}" ? "" : " " + fields, report.machine,
             schedule.mesh, report.placement.empty() ? "" : ", " + report.placement, report.model, report.rates);
  fmt::print("{:>14}  {:>12}  {:>10}  {:>12}  {:>9}  {}\n", "bytes", "time", "GB/s", "bound", "of bound", "bottleneck");
  for (const CostedSize &size : schedule.sizes)
    fmt::print("{:>14}  {:>12}  {:>10.3f}  {:>12}  {:>9}  {}\n", size.prediction.bytes,
               timeText(size.prediction.seconds), gigabytesPerSecond(size.prediction),
               size.bound ? timeText(size.bound->seconds) : "-", fractionText(size), size.prediction.bottleneck);
  SourceText source;
  for (const CostedSize &size : schedule.sizes)
    if (everyBreakdown || &size == &schedule.sizes.back()) {
      printBreakdown(size, source);
      if (everyBreakdown)
        printLevelTraffic(size);
    }
}

void print(const CostReport &report, bool everyBreakdown) {
  bool isComparison = report.schedules.size() > 1;
  if (isComparison)
    printSideBySide(report);
  for (const CostedSchedule &schedule : report.schedules) {
    if (isComparison)
      fmt::print("\n");
    printSchedule(report, schedule, everyBreakdown);
  }
}

} // namespace

std::string sourceLine(const std::string &file, unsigned line) { return SourceText().line(file, line); }

/// Where all dimensions of the mesh are one to an algorithm, its ranks keep their numbers.
static runtime::Mesh flattenFor(const dsl::Definition &definition, const runtime::Mesh &mesh) {
  if (definition.mesh.dims.size() != 1 || mesh.dims().size() == 1)
    return mesh;
  return runtime::Mesh::create({{definition.mesh.dims.front(), mesh.numRanks()}}).value();
}

CostReport startReport(const CostOptions &options, const cost::Machine &machine,
                       const std::vector<CompileRequest> &requests, const std::string &model) {
  auto nameOf = [](const CompileRequest &request) { return request.definitions.front().name; };
  auto collectiveOf = [](const CompileRequest &request) {
    return std::string(runtime::toString(kindOf(request.definitions.front().collective)));
  };
  CostReport report{
      machine.name(), options.mesh, options.placement, collectiveOf(requests.front()), options.rates, model, {}};
  for (const CompileRequest &request : requests)
    if (collectiveOf(request) != report.collective)
      throw ToolError(ExitCode::Usage,
                      fmt::format("{} is of {}, and {} of {}: algorithms of one collective are compared",
                                  nameOf(requests.front()), report.collective, nameOf(request), collectiveOf(request)));
  return report;
}

Json toJson(const CostReport &report) {
  SourceText source;
  Json result = {{"machine", report.machine},       {"mesh", report.mesh},   {"placement", report.placement},
                 {"collective", report.collective}, {"rates", report.rates}, {"model", report.model}};
  result["schedules"] = Json::array();
  for (const CostedSchedule &schedule : report.schedules) {
    Json sizes = Json::array();
    for (const CostedSize &size : schedule.sizes)
      sizes.push_back(sizeJson(size, source));
    result["schedules"].push_back({{"name", schedule.name},
                                   {"schedule", toJson(schedule.schedule)},
                                   {"mesh", schedule.mesh},
                                   {"sizes", std::move(sizes)}});
  }
  return result;
}

static runtime::Mesh meshFor(const CompileRequest &request) {
  return flattenFor(request.definitions.front(), request.meshes.front());
}

/// The dimensions of a mesh along which ranks are on several nodes.
static std::vector<std::string> dimsBetweenNodes(const cost::Placement &placement) {
  const cost::PlacedMesh &mesh = placement.mesh();
  std::vector<std::string> dims;
  int64_t stride = mesh.numRanks();
  for (size_t dim = 0; dim < mesh.sizes.size(); ++dim) {
    stride /= mesh.sizes[dim];
    bool isBetween = false;
    for (int64_t rank = 0; rank < mesh.numRanks() && !isBetween; ++rank)
      isBetween = rank / stride % mesh.sizes[dim] > 0 && placement.nodeOf(rank) != placement.nodeOf(rank - stride);
    if (isBetween)
      dims.push_back(mesh.names[dim]);
  }
  return dims;
}

PlacedRequest::PlacedRequest(CompileRequest asked, const CostOptions &options, const cost::Machine &machine)
    : request(std::move(asked)),
      // The host's own programs rely on its runtime, which has all ranks agree on a call.
      runners(machine.name() == "host" ? Runners::Host : Runners::Any),
      placement(orThrow(cost::Placement::create(machine, toPlacedMesh(meshFor(request)), options.placement))) {
  request.meshes = {meshFor(request)};
  if (std::optional<NetworkMemory> network = options.network()) {
    if (!request.irPath.empty())
      throw ToolError(ExitCode::Usage, "--network-memory: " + request.irPath + " has its steps, and is taken as it is");
    request.network = {dimsBetweenNodes(placement), *network};
  }
  const dsl::Definition &definition = request.definitions.front();
  schedule = {definition.name, request.schedule, request.meshes.front().toString(), {}};
  if (definition.collective.dims.empty() || request.meshes.front().dims().size() == 1)
    bounds.emplace(machine, placement);
}

void PlacedRequest::keepBounds(bool areKept) {
  if (!areKept)
    bounds.reset();
}

void PlacedRequest::add(int64_t bytes, cost::Prediction prediction, std::vector<cost::LevelTraffic> levels) {
  std::optional<cost::LowerBound> bound;
  if (bounds)
    bound = bounds->of(KoloCollective(int(kindOf(request.definitions.front().collective))), bytes);
  schedule.sizes.push_back({std::move(prediction), std::move(bound), std::move(levels)});
}

void checkTakesTables(ProgramOp program, const cost::PlacedMesh &mesh) {
  const Verdict verdict = checkProgram(program, mesh.sizes, {.wantSteps = false});
  std::string why = verdict.whyNoBlockTables;
  if (why.empty() && !verdict.isProved())
    why = "it is not proved on so many ranks" + (verdict.tooLarge ? ": " + *verdict.tooLarge : "");
  if (!why.empty())
    throw ToolError(ExitCode::Usage, "--counts: the program takes no block tables: " + why);
}

void ReportOutput::addTo(CLI::App &command) {
  command.add_flag(
      "--breakdown", wantsBreakdown,
      "what each statement costs, for every size; without it, for the largest one. Simulations\nalso show the bytes "
      "between nodes, by the level of the network that joins these");
  command.add_option("--html", html, "also as a page for a browser, to this file");
}

void ReportOutput::check(const CostOptions &options) const {
  if (options.json && !options.writesToStandardOutput())
    checkWritable(*options.json, "--json");
  checkReport(html);
  checkWritable(html, "--html");
}

void ReportOutput::write(const CostReport &report, const CostOptions &options, const cost::Machine &machine,
                         const Json &timelines) const {
  Json json = toJson(report);
  if (!html.empty())
    writeWhole(html,
               htmlReport(json, {.command = commandLine(), .machine = nodeGraph(machine), .timelines = timelines}),
               "--html");
  if (options.writesToStandardOutput()) {
    fmt::print("{}\n", json.dump(2));
    return;
  }
  if (options.json)
    writeWhole(*options.json, json.dump(2) + "\n", "--json");
  print(report, wantsBreakdown);
}

} // namespace kolo::tools
