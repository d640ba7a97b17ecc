// kolo explore: the best schedules for a collective on a machine, by size.
#include "tools/CommandLine.h"
#include "tools/Commands.h"
#include "tools/CostReport.h"
#include "tools/compile/Devices.h"
#include "tools/compile/Schedules.h"
#include "tools/explore/ExplorationTable.h"
#include "tools/report/Report.h"

#include "compiler/model/BlockCounts.h"
#include "ir/BlockTables.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>
#include <thread>
#include <unistd.h>

namespace kolo::tools {

namespace {

using Json = nlohmann::ordered_json;

struct ExploreCommand : CostOptions {
  std::string collective, source, plugins, target = "cpu", html, maxScratch;
  int64_t nodes = 1, maxLanes = 0;
  uint64_t seed = 0;
  size_t structures = 200, runnersUp = 2;
  unsigned threads = 0;
  CountsOption counts;

  KoloCollective parsedCollective() const;
  std::optional<int64_t> maxScratchBytes() const;
  std::string text() const;
};

KoloCollective ExploreCommand::parsedCollective() const {
  auto kind = runtime::parseCollectiveKind(collective);
  if (!kind)
    throw ToolError(ExitCode::Usage, "there is no collective '" + collective + "'; kolo list shows them");
  return KoloCollective(int(*kind));
}

std::optional<int64_t> ExploreCommand::maxScratchBytes() const {
  if (maxScratch.empty())
    return std::nullopt;
  if (maxScratch == "0")
    return 0;
  const std::vector<int64_t> limits = parseSizes(maxScratch, "--max-scratch");
  if (limits.size() != 1)
    throw ToolError(ExitCode::Usage, "--max-scratch: '" + maxScratch + "' is more than one size");
  return limits.front();
}

/// The command without folders: what the sources say that they come from.
std::string ExploreCommand::text() const {
  std::string text = fmt::format("kolo explore {} --machine {} --nodes {} --bytes {} --seed {}", collective,
                                 std::filesystem::path(machine).filename().string(), nodes, bytes, seed);
  if (rates != "peak")
    text += " --rates " + rates;
  if (maxLanes > 0)
    text += fmt::format(" --max-lanes {}", maxLanes);
  if (!maxScratch.empty())
    text += " --max-scratch " + maxScratch;
  if (!counts.text.empty())
    text += " --counts " + counts.text;
  return text + fmt::format(" --structures {} --runners-up {}", structures, runnersUp);
}

std::string meshText(const cost::PlacedMesh &mesh) {
  std::string text;
  for (size_t i = 0; i < mesh.names.size(); ++i)
    text += fmt::format("{}{}={}", i ? "," : "", mesh.names[i], mesh.sizes[i]);
  return text;
}

/// A whole exploration, and what its reports call things.
struct Report {
  const ExploreCommand &command;
  const ExploreRequest &request;
  const Exploration &found;

  /// A file that was written; standard output may be JSON's.
  void say(const std::string &path) const {
    fmt::print(command.writesToStandardOutput() ? stderr : stdout, "{}\n", path);
  }
  const PlacedCandidate &candidate(size_t number) const { return found.candidates[number]; }
  /// Its program and mesh; and its placement, if that is not the default.
  std::string label(size_t number) const {
    const PlacedCandidate &of = candidate(number);
    return of.definition.name + suffixFor(of.schedule) + " on " + meshText(of.mesh) +
           (of.placement.empty() ? "" : " " + of.placement);
  }
  double gigabytesPerSecond(double seconds, size_t size) const { return double(request.sizes[size]) / seconds / 1e9; }
  /// All that are ranked at some size, or shown beside those, each once, in order of number.
  std::vector<size_t> shown() const {
    const std::vector<size_t> ranked = rankedIn(found);
    std::set<size_t> numbers(ranked.begin(), ranked.end());
    for (const SizeResult &size : found.sizes)
      for (const std::optional<Choice> *choice : {&size.shipped, &size.rings})
        if (*choice)
          numbers.insert((*choice)->candidate);
    return {numbers.begin(), numbers.end()};
  }
};

std::string percentOfBound(const SizeResult &result, double seconds) {
  return result.bound ? fmt::format("{:.1f}%", 100 * result.bound->seconds / seconds) : "-";
}

std::string sizeText(int64_t bytes) {
  constexpr const char *units[] = {"", "K", "M", "G", "T"};
  size_t unit = 0;
  for (; unit + 1 < std::size(units) && bytes >= 1024 && bytes % 1024 == 0; bytes /= 1024)
    ++unit;
  return std::to_string(bytes) + units[unit];
}

void printTable(const Report &report) {
  fmt::print("{:>8}  {:>11}  {:>8}  {:>8}  {:>9}  {:>11}  {:>11}  {}\n", "bytes", "best us", "GB/s", "of bound",
             "simulated", "shipped us", "rings us", "best schedule");
  for (size_t size = 0; size < report.found.sizes.size(); ++size) {
    const SizeResult &result = report.found.sizes[size];
    auto time = [](const std::optional<Choice> &choice) {
      return choice ? fmt::format("{:.2f}", choice->seconds * 1e6) : std::string("-");
    };
    bool isFirst = true;
    for (const auto &[number, seconds, correction, _, numTransfers] : result.best) {
      fmt::print("{:>8}  {:>11.2f}  {:>8.2f}  {:>8}  {:>9}  {:>11}  {:>11}  {}{}\n",
                 isFirst ? sizeText(report.request.sizes[size]) : "", seconds * 1e6,
                 report.gigabytesPerSecond(seconds, size), percentOfBound(result, seconds),
                 correction ? fmt::format("{:.2f}", *correction) : "-", isFirst ? time(result.shipped) : "",
                 isFirst ? time(result.rings) : "", isFirst ? "" : "  then ", report.label(number));
      isFirst = false;
    }
    if (result.best.empty())
      fmt::print("{:>8}  no candidate is proved\n", sizeText(report.request.sizes[size]));
  }
}

void printCounts(const Report &report) {
  const Exploration &found = report.found;
  fmt::print("\n{} candidates: shipped algorithms and {} of {} structures, each with every schedule that it can have\n",
             found.numCandidates, found.numStructures, found.numInSpace);
  for (const auto &[reason, count] : found.leftOut)
    fmt::print("left out: {:>6}  {}\n", count, reason);
  int64_t numNodes = report.request.numNodes;
  if (numNodes <= found.simulatedNodes)
    fmt::print("\ntimes: simulated with all ranks");
  else
    fmt::print("\ntimes: the closed form, corrected by a simulation of {} nodes{}", found.simulatedNodes,
               numNodes <= mostNodesOfBest
                   ? "; the best are simulated with all ranks, where that is at most 2^22 transfers"
                   : "");
  if (!report.command.counts.text.empty())
    fmt::print(
        ", with counts {}\ncontenders: every shipped algorithm, and the structures that are best with equal blocks",
        report.command.counts.text);
  fmt::print("; `simulated`: time / closed form{}\n", report.request.counts ? " of equal blocks" : "");
  for (const auto &[reason, count] : found.notSimulated)
    fmt::print("not simulated: {:>6}  {}\n", count, reason);
  if (found.numInferredForAll > 0)
    fmt::print(
        "inferred again: {:>5}  programs that few nodes prove and all nodes refute; ranked as inferred for all\n",
        found.numInferredForAll);
  fmt::print("\nproved:\n");
  for (size_t number : rankedIn(report.found))
    fmt::print("  {}, on {}\n", report.label(number), report.candidate(number).provedOn);
}

CostedSchedule costed(const Report &report, size_t number) {
  const PlacedCandidate &candidate = report.candidate(number);
  CostedSchedule schedule{report.label(number), candidate.schedule, meshText(candidate.mesh), {}};
  std::vector<cost::Prediction> predictions = predict(candidate, report.request);
  for (size_t size = 0; size < predictions.size(); ++size)
    schedule.sizes.push_back({std::move(predictions[size]), report.found.sizes[size].bound});
  return schedule;
}

/// The candidate's own fields; the source's lines as the texts of statements, for the source is in no file yet.
void addCandidate(Json &schedule, const PlacedCandidate &candidate) {
  constexpr const char *origins[] = {"explored", "shipped", "rings"};
  schedule["algorithm"] = candidate.definition.name;
  schedule["origin"] = origins[size_t(candidate.origin)];
  schedule["placement"] = candidate.placement;
  schedule["proved"] = candidate.provedOn;
  schedule["source"] = sourceOf(candidate, "");
  std::vector<std::string> lines;
  std::istringstream stream(schedule["source"].get<std::string>());
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line.substr(std::min(line.find_first_not_of(' '), line.size())));
  for (Json &size : schedule["sizes"])
    for (Json &statement : size["statements"])
      if (size_t line = statement["line"]; line > 0)
        statement["text"] = lines.at(line - 1);
}

Json rankedJson(const Report &report, size_t size, const std::map<size_t, size_t> &places) {
  const SizeResult &result = report.found.sizes[size];
  Json row = {{"bytes", report.request.sizes[size]}};
  if (result.bound)
    row["boundSeconds"] = result.bound->seconds;
  row["ranked"] = Json::array();
  for (const auto &[number, seconds, correction, _, numTransfers] : result.best) {
    Json &ranked = row["ranked"].emplace_back();
    ranked = {{"schedule", places.at(number)}, {"name", report.label(number)}, {"seconds", seconds}};
    if (result.bound)
      ranked["fractionOfBound"] = result.bound->seconds / seconds;
    if (correction)
      ranked["simulatedByClosedForm"] = *correction;
  }
  auto add = [&](const std::string &name, const std::optional<Choice> &choice) {
    if (!choice)
      return;
    row[name] = places.at(choice->candidate);
    row[name + "Seconds"] = choice->seconds;
  };
  add("shipped", result.shipped);
  add("rings", result.rings);
  return row;
}

Json toJson(const Report &report) {
  const ExploreRequest &request = report.request;
  CostReport costs{request.machine.name(),
                   fmt::format("node={},gpu={}", request.numNodes, request.machine.devicesPerNode()),
                   "",
                   report.command.collective,
                   report.command.rates,
                   request.counts ? "simulation" : "closed form",
                   {}};
  std::map<size_t, size_t> places; // in `schedules`, by candidate
  for (size_t number : report.shown()) {
    places[number] = costs.schedules.size();
    costs.schedules.push_back(costed(report, number));
  }
  Json result = tools::toJson(costs);
  for (auto [number, place] : places)
    addCandidate(result["schedules"][place], report.candidate(number));
  result["command"] = report.command.text();
  result["candidates"] = report.found.numCandidates;
  result["leftOut"] = report.found.leftOut;
  result["inferredAgain"] = report.found.numInferredForAll;
  result["frontier"] = Json::array();
  for (size_t size = 0; size < request.sizes.size(); ++size)
    result["frontier"].push_back(rankedJson(report, size, places));
  return result;
}

/// At which sizes a candidate is the best, and how long it takes there.
std::string winsOf(const Report &report, size_t number) {
  std::string text;
  for (size_t size = 0; size < report.found.sizes.size(); ++size) {
    const SizeResult &result = report.found.sizes[size];
    if (!result.best.empty() && result.best.front().candidate == number) {
      double seconds = result.best.front().seconds;
      text += fmt::format("\n  {:>6}: {:.2f} us, {:.2f} GB/s", sizeText(report.request.sizes[size]), seconds * 1e6,
                          report.gigabytesPerSecond(seconds, size));
      if (result.bound)
        text += fmt::format(", {:.1f} % of the lower bound", 100 * result.bound->seconds / seconds);
    }
  }
  return text;
}

std::string commentFor(const Report &report, const std::vector<size_t> &numbers) {
  const PlacedCandidate &first = report.candidate(numbers.front());
  std::string text = fmt::format("{} on {}: {}.\nFound by {}\n", report.command.collective,
                                 report.request.machine.name(), first.description, report.command.text());
  for (size_t number : numbers) {
    const PlacedCandidate &candidate = report.candidate(number);
    text += fmt::format("\nBest with --mesh {}{}, schedule {}, as predicted:{}\n", meshText(candidate.mesh),
                        candidate.placement.empty() ? "" : " --placement " + candidate.placement,
                        tools::toJson(candidate.schedule).dump(), winsOf(report, number));
  }
  return text;
}

/// One file for each choreography that is the best at some size and does not ship.
void writeSources(const Report &report) {
  std::filesystem::create_directories(report.command.source);
  std::map<std::string, std::vector<size_t>> byName;
  for (const SizeResult &size : report.found.sizes) {
    if (size.best.empty())
      continue;
    size_t number = size.best.front().candidate;
    const PlacedCandidate &best = report.candidate(number);
    if (best.origin != Origin::Explored)
      continue;
    std::vector<size_t> &numbers = byName[best.definition.name];
    if (std::ranges::find(numbers, number) == numbers.end())
      numbers.push_back(number);
  }
  for (const auto &[name, numbers] : byName) {
    std::string path = (std::filesystem::path(report.command.source) / (name + ".cpp")).string();
    writeWhole(path, sourceOf(report.candidate(numbers.front()), commentFor(report, numbers)), "--source");
    report.say(path);
  }
}

/// The plugin, and the table.
void writePlugin(const Report &report) {
  const std::filesystem::path folder = report.command.plugins;
  std::filesystem::create_directories(folder);
  const std::vector<Selected> table = tableOf(report.request, report.found);
  CompileRequest request = requestFor(report.request, report.found, table);
  Targets targets = parseTargets(report.command.target);
  request.cpu = targets.cpu;
  request.devices = targets.devices;
  request.output = folder / (report.command.collective + ".so");
  for (const std::string &warning : compile(request))
    fmt::print(stderr, "{}\n", warning);
  report.say(request.output);
  std::vector<TableEntry> entries;
  for (const Selected &selected : table)
    entries.push_back(selected.entry);
  std::string path = folder / "table.json";
  writeWhole(
      path,
      writeTable(
          {{"kolo", KOLO_VERSION}, {"machine", report.request.machine.name()}, {"command", report.command.text()}},
          entries),
      "--emit");
  report.say(path);
}

void showProgress(size_t done, size_t total) {
  if (isatty(STDERR_FILENO))
    fmt::print(stderr, "\rcosted {} of {} structures{}", done, total, done == total ? "\r\033[K" : "");
}

/// Throws ToolError (Usage), before anything is costed.
void checkFolder(const std::string &path, const std::string &flag) {
  if (!path.empty() && std::filesystem::exists(path) && !std::filesystem::is_directory(path))
    throw ToolError(ExitCode::Usage, flag + ": " + path + " is not a folder");
}

/// Throws ToolError (Usage).
void checkCounts(const ExploreRequest &request) {
  if (!request.counts)
    return;
  const auto kind = CollectiveKind(int(request.collective));
  if (!mayHaveBlockTables(kind))
    throw ToolError(ExitCode::Usage,
                    "--counts: " + stringifyCollectiveKind(kind).str() + " has no block for each rank");
  if (request.numNodes > mostNodesOfBest)
    throw ToolError(ExitCode::Usage, fmt::format("--counts: all ranks are simulated, on at most {} nodes, not {}",
                                                 mostNodesOfBest, request.numNodes));
  auto made = BlockCounts::create(*request.counts, kind, request.numNodes * request.machine.devicesPerNode(), 1);
  if (auto *mistake = std::get_if<std::string>(&made))
    throw ToolError(ExitCode::Usage, "--counts: " + *mistake);
}

void exploreCommand(const ExploreCommand &command) {
  KoloCollective collective = command.parsedCollective();
  cost::Machine machine = command.readMachine();
  if (command.nodes < 1 || command.nodes > machine.numNodes())
    throw ToolError(ExitCode::Usage, fmt::format("--nodes: {} must be from 1 to {}, the nodes of {}", command.nodes,
                                                 machine.numNodes(), machine.name()));
  if (command.nodes * machine.devicesPerNode() == 1)
    throw ToolError(
        ExitCode::Usage,
        fmt::format("--nodes: {} has one device on one node, which exchanges data with nobody", machine.name()));
  if (command.json && !command.writesToStandardOutput())
    checkWritable(*command.json, "--json");
  checkReport(command.html);
  checkWritable(command.html, "--html");
  checkFolder(command.source, "--source");
  checkFolder(command.plugins, "--emit");
  parseTargets(command.target);
  explore::SearchOptions search{command.structures, command.seed,
                                command.threads ? command.threads : std::max(1u, std::thread::hardware_concurrency()),
                                showProgress};
  if (command.maxLanes > 0 && machine.device().laneBandwidth.at(cost::beyondCaches) <= 0)
    throw ToolError(ExitCode::Usage,
                    fmt::format("--max-lanes: {} does not say what a lane moves, so more lanes make nothing faster",
                                machine.name()));
  ExploreRequest request{
      collective,       machine,           command.nodes,    command.sizes(),           command.parsedRates(),
      search,           command.runnersUp, command.maxLanes, command.maxScratchBytes(), command.counts.law(),
      command.network()};
  checkCounts(request);
  const Exploration found = tools::explore(request);
  Report report{command, request, found};
  if (!command.writesToStandardOutput()) {
    printTable(report);
    printCounts(report);
  }
  if (command.json && command.writesToStandardOutput())
    fmt::print("{}\n", toJson(report).dump(2));
  else if (command.json)
    writeWhole(*command.json, toJson(report).dump(2) + "\n", "--json");
  if (!command.html.empty())
    writeWhole(command.html, htmlReport(toJson(report), {.command = commandLine(), .machine = nodeGraph(machine)}),
               "--html");
  if (!command.source.empty())
    writeSources(report);
  if (!command.plugins.empty())
    writePlugin(report);
}

} // namespace

void addExploreCommand(CLI::App &app) {
  CLI::App *command = addCommand(app, "explore", "finds the best schedules for a collective on a machine, by size");
  auto options = std::make_shared<ExploreCommand>();
  command->add_option("collective", options->collective, "all_gather and so on: kolo list shows them")->required();
  options->addTo(*command, /*hasMesh=*/false);
  command->add_option("--nodes", options->nodes, "nodes that the collective runs on")->capture_default_str();
  command->add_option("--seed", options->seed, "of the sample, where there are more structures than --structures")
      ->capture_default_str();
  command
      ->add_option("--structures", options->structures,
                   "at most so many compositions of building blocks are costed, each with ten\nschedules; 0: the "
                   "shipped algorithms alone")
      ->check(CLI::Range(size_t(0), size_t(1) << 20))
      ->capture_default_str();
  command->add_option("--runners-up", options->runnersUp, "shown for each size, beside the best")
      ->check(CLI::Range(size_t(0), size_t(100)))
      ->capture_default_str();
  command
      ->add_option("--max-lanes", options->maxLanes,
                   "lanes of every rank, on a machine that says what a lane moves; 0: as many as it takes")
      ->check(CLI::Range(int64_t(0), int64_t(65536)))
      ->capture_default_str();
  command->add_option("--max-scratch", options->maxScratch,
                      "bytes of memory that a program may take on every rank beside its caller's, as 64M;\nat sizes at "
                      "which it takes more, a candidate is left out");
  options->counts.addTo(*command);
  command->add_option("--threads", options->threads, "0: one for each core")
      ->check(CLI::Range(0u, 1024u))
      ->capture_default_str();
  command->add_option("--html", options->html, "also as a page for a browser, to this file");
  command->add_option("--source", options->source, "writes the best schedules to this folder, as C++ in the language");
  command->add_option("--emit", options->plugins,
                      "writes a plugin of the ranked schedules to this folder, which selects by mesh and\n"
                      "size, and the table by which it does");
  command->add_option("--target", options->target, "targets of the plugin: cpu, and cuda:sm_90, hip:gfx90a, ...")
      ->capture_default_str();
  command->footer(
      "Candidates are costed in closed form. Those that are ranked are proved, as kolo compile does; who is "
      "refused is\nleft out, and the next takes its place. A result does not depend on the number of "
      "threads.\nWith --counts, all shipped algorithms are simulated, and the structures that are best with equal "
      "blocks.");
  command->callback([options] { exploreCommand(*options); });
}

} // namespace kolo::tools
