// kolo tune: which shipped algorithm and schedule is the fastest on this machine, as a table.
#include "tools/CommandLine.h"
#include "tools/Commands.h"
#include "tools/FirstTuneCommand.h"
#include "tools/Options.h"
#include "tools/TuneJson.h"
#include "tools/tune/CandidateCosts.h"
#include "tools/tune/Tune.h"

#include "kolo/runtime/Door.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <map>

namespace kolo::tools {

namespace {

constexpr size_t shareMeasured = 3; // one pair of a size and a candidate of so many, where a model says which
constexpr size_t shareInWindows = 4;

struct TuneCommand {
  std::vector<std::string> meshes, collectives, network;
  std::string output, maxBytes = "64M", machine, ranksAs = "processes";
  double secondsPerCell = 1, seconds = FirstTuneOptions().seconds;
  bool asJson = false;

  bool isFirst() const { return output.empty(); }
  bool isLaunched() const { return ranksAs == "launched"; }
  bool isSilent() const;
  bool printsTables() const { return !isSilent() && !asJson; }
  void checkNetwork(const std::vector<runtime::Mesh> &meshes) const;
  std::vector<runtime::Mesh> parseMeshes() const;
  std::vector<runtime::CollectiveKind> parseCollectives(const std::vector<runtime::Mesh> &meshes) const;
  TuneOptions parseOptions(int mostRanks) const;
  std::optional<cost::Machine> readMachine(const std::vector<runtime::Mesh> &meshes) const;
  std::string text() const;
};

/// By number of ranks, each once. Where none is named, those of the shipped table, and one for all cores.
std::vector<runtime::Mesh> TuneCommand::parseMeshes() const {
  std::map<int, runtime::Mesh> parsed;
  for (const std::string &text : meshes.empty() ? defaultMeshes() : meshes) {
    runtime::Mesh mesh = parseMesh(text);
    if (mesh.dims().size() != 1 && !isLaunched())
      throw ToolError(ExitCode::Usage, "--mesh: " + text +
                                           " has more than one dimension; on one host, tables are about meshes like "
                                           "rank=4");
    if (const int most = isLaunched() ? runtime::maxRanks : runtime::maxRanksOfHost; mesh.numRanks() > most)
      throw ToolError(ExitCode::Usage, fmt::format("--mesh: {} has {} ranks; {} at most {}", text, mesh.numRanks(),
                                                   isLaunched() ? "Kolo runs" : "one host runs", most));
    parsed.insert_or_assign(mesh.numRanks(), mesh);
  }
  std::vector<runtime::Mesh> result;
  for (const auto &[ranks, mesh] : parsed)
    result.push_back(mesh);
  return result;
}

/// Whether another process of the launcher prints and writes.
bool TuneCommand::isSilent() const {
  if (!isLaunched())
    return false;
  auto place = runtime::readLaunchedRank();
  if (!place.isOk())
    throw ToolError(ExitCode::Usage, "--ranks-as launched: " + place.status().message());
  return place->rank != 0;
}

/// Throws ToolError (Usage).
void TuneCommand::checkNetwork(const std::vector<runtime::Mesh> &parsed) const {
  if (!isLaunched() && !network.empty())
    throw ToolError(ExitCode::Usage, "--network: needs --ranks-as launched; the processes of one host have no network");
  if (isLaunched() && meshes.size() != 1)
    throw ToolError(ExitCode::Usage, "--ranks-as launched: needs one --mesh, of all ranks of the launcher");
  for (const std::string &name : network)
    if (std::ranges::find(parsed.front().dims(), name, &runtime::MeshDim::name) == parsed.front().dims().end())
      throw ToolError(ExitCode::Usage,
                      "--network: there is no dimension '" + name + "' in mesh " + parsed.front().toString());
}

/// In the order of tables. Where none is named, all of them, or on several dimensions those that algorithms do there.
std::vector<runtime::CollectiveKind> TuneCommand::parseCollectives(const std::vector<runtime::Mesh> &parsed) const {
  std::vector<runtime::CollectiveKind> result;
  for (const std::string &name : collectives) {
    auto kind = runtime::parseCollectiveKind(name);
    if (!kind)
      throw ToolError(ExitCode::Usage, "--collective: there is no collective '" + name + "'; kolo list shows them");
    result.push_back(*kind);
  }
  for (int kind = 0; collectives.empty() && kind < KOLO_NUM_COLLECTIVES; ++kind)
    if (parsed.front().dims().size() == 1 || hasCandidates(runtime::CollectiveKind(kind), parsed.front()))
      result.push_back(runtime::CollectiveKind(kind));
  std::ranges::sort(result);
  result.erase(std::ranges::unique(result).begin(), result.end());
  return result;
}

TuneOptions TuneCommand::parseOptions(int mostRanks) const {
  TuneOptions options{parseSize(maxBytes, "--max-bytes"), secondsPerCell};
  constexpr int64_t most = int64_t(1) << 40;
  int64_t least = int64_t(sizeof(float)) * mostRanks;
  if (options.maxBytes < least || options.maxBytes > most)
    throw ToolError(
        ExitCode::Usage,
        fmt::format("--max-bytes: {} must be at least {}, an element for every rank, and at most 1T", maxBytes, least));
  return options;
}

/// Nothing where there is no --machine. Throws ToolError (Usage) before anything is measured.
std::optional<cost::Machine> TuneCommand::readMachine(const std::vector<runtime::Mesh> &parsed) const {
  if (machine.empty())
    return std::nullopt;
  auto read = cost::Machine::read(machine);
  if (auto *mistake = std::get_if<cost::CostMistake>(&read))
    throw ToolError(ExitCode::Usage, "--machine: " + mistake->message);
  const auto &found = std::get<cost::Machine>(read);
  for (const runtime::Mesh &mesh : parsed)
    if (mesh.numRanks() > found.numNodes() * found.devicesPerNode())
      throw ToolError(ExitCode::Usage,
                      fmt::format("--machine: {} has {} devices, and {} has {} ranks", found.name(),
                                  found.numNodes() * found.devicesPerNode(), mesh.toString(), mesh.numRanks()));
  return found;
}

/// The command without folders.
std::string TuneCommand::text() const {
  std::string text = "kolo tune";
  for (const std::string &mesh : meshes)
    text += " --mesh " + mesh;
  for (const std::string &collective : collectives)
    text += " --collective " + collective;
  if (isFirst())
    return text + fmt::format(" --seconds {}", seconds);
  if (isLaunched())
    text += " --ranks-as launched";
  if (!network.empty())
    text += fmt::format(" --network {}", fmt::join(network, ","));
  if (!machine.empty())
    text += " --machine " + std::filesystem::path(machine).filename().string();
  return text + fmt::format(" --max-bytes {} --seconds-per-cell {} -o {}", maxBytes, secondsPerCell,
                            std::filesystem::path(output).filename().string());
}

void printLeftOut(const Candidates &candidates, const runtime::Mesh &mesh) {
  std::map<std::string, std::string> programs; // by reason
  for (const LeftOut &candidate : candidates.leftOut) {
    std::string &names = programs[candidate.reason];
    names += (names.empty() ? "" : ", ") + candidate.program;
  }
  for (const auto &[reason, names] : programs)
    fmt::print("\nnot measured on {}: {}: {}\n", mesh.toString(), names, reason);
}

void print(const Candidates &candidates, const std::vector<Cell> &cells, const std::string &title) {
  fmt::print("\n{}\n{:>10}  {:<34} {:>10}  {:<34} {:>7}  {}\n", title, "bytes", "chosen", "us", "next", "slower",
             "left behind");
  for (const Cell &cell : cells) {
    double chosenUs = cell.measurements[cell.chosen].typicalUs();
    std::string next = cell.next ? candidates.all[*cell.next].program() : "-";
    std::string slower = cell.next ? fmt::format("{:.2f}", cell.measurements[*cell.next].typicalUs() / chosenUs) : "-";
    auto numBehind = std::ranges::count_if(cell.measurements, &Measurement::isLeftBehind);
    fmt::print("{:>10}  {:<34} {:>10.2f}  {:<34} {:>7}  {}\n", cell.bytes, candidates.all[cell.chosen].program(),
               chosenUs, next, slower, numBehind);
  }
  std::fflush(stdout);
}

/// One collective on one mesh.
struct Job {
  runtime::CollectiveKind collective;
  runtime::Mesh mesh;
  Candidates candidates;
  std::vector<int64_t> sizes;
  Predictor predict = {};                                                     // empty: there is no model
  std::map<std::pair<runtime::MemoryKind, int64_t>, size_t> numMeasured = {}; // where there is a model

  std::vector<PredictedProgram> predictionsFor(runtime::MemoryKind memory, int64_t bytes) const {
    std::vector<std::string> programs;
    for (const Candidate &candidate : candidates.all)
      programs.push_back(candidate.program());
    return predict({collective, mesh, memory, bytes}, programs);
  }
  /// Gives those predictions alone that are measured.
  Predictor predictMeasured() const {
    return [this](const PredictedCell &cell, const std::vector<std::string> &programs) {
      std::vector<PredictedProgram> predictions = predict(cell, programs);
      predictions.resize(numMeasured.at({cell.memory, cell.bytes}));
      return predictions;
    };
  }
};

/// A third of all pairs is measured: in windows the best quarter at every size. What is left goes to ordinary memory.
/// For that, predictorFor gives the best of every way in which ranks reach each other's data: no model has the copies
/// of inputs and outputs.
void shareMeasurementsAmong(std::vector<Job> &jobs) {
  std::vector<std::vector<PredictedProgram>> cells; // in ordinary memory
  size_t all = 0, inWindows = 0;
  for (Job &job : jobs)
    for (int64_t bytes : job.sizes) {
      size_t number = std::max<size_t>(1, job.candidates.all.size() / shareInWindows);
      job.numMeasured[{runtime::MemoryKind::Windows, bytes}] = number;
      inWindows += number;
      all += 2 * job.candidates.all.size();
      cells.push_back(job.predictionsFor(runtime::MemoryKind::Ordinary, bytes));
    }
  size_t most = all / shareMeasured;
  std::vector<size_t> shares = shareMeasurements(cells, most - std::min(most, inWindows));
  auto share = shares.begin();
  for (Job &job : jobs)
    for (int64_t bytes : job.sizes)
      job.numMeasured[{runtime::MemoryKind::Ordinary, bytes}] = *share++;
}

std::vector<Job> compileJobs(const TuneCommand &command, const std::vector<runtime::Mesh> &meshes, int64_t maxBytes,
                             const std::optional<cost::Machine> &machine) {
  std::vector<Job> jobs;
  for (runtime::CollectiveKind collective : command.parseCollectives(meshes))
    for (const runtime::Mesh &mesh : meshes) {
      jobs.push_back({collective, mesh, compileCandidates(collective, mesh, {}, command.network),
                      sizesToTune(collective, mesh, maxBytes)});
      Job &job = jobs.back();
      if (command.printsTables())
        printLeftOut(job.candidates, mesh);
      if (machine)
        job.predict = predictorFor(*machine, job.candidates, mesh, job.sizes);
    }
  if (machine)
    shareMeasurementsAmong(jobs);
  return jobs;
}

void firstTuneCommand(const TuneCommand &command) {
  FirstTuneOptions options;
  options.meshes = command.parseMeshes();
  options.collectives = command.parseCollectives(options.meshes);
  options.maxBytes = std::min(options.maxBytes, command.parseOptions(options.meshes.back().numRanks()).maxBytes);
  options.seconds = command.seconds;
  tuneForDoors(options, command.text(), command.asJson);
}

void tuneCommand(const TuneCommand &command) {
  if (command.isFirst())
    return firstTuneCommand(command);
  std::vector<runtime::Mesh> meshes = command.parseMeshes();
  command.checkNetwork(meshes);
  TuneOptions options = command.parseOptions(meshes.back().numRanks());
  options.isLaunched = command.isLaunched();
  const bool isSilent = command.isSilent(), printsTables = command.printsTables();
  if (!isSilent)
    checkWritable(command.output, "--output");
  if (command.output == "-") // standard output gets what was measured
    throw ToolError(ExitCode::Usage, "--output: cannot write -: it is not a regular file");
  if (!isSilent)
    checkRegular(command.output, "--output");
  std::optional<cost::Machine> machine = command.readMachine(meshes);
  const std::vector<Job> jobs = compileJobs(command, meshes, options.maxBytes, machine);
  std::vector<TableEntry> entries;
  Effort effort;
  nlohmann::ordered_json schedules = nlohmann::ordered_json::array();
  for (const Job &job : jobs) {
    const std::vector<Candidate> &candidates = job.candidates.all;
    if (machine)
      options.predict = job.predictMeasured();
    for (runtime::MemoryKind memory : {runtime::MemoryKind::Windows, runtime::MemoryKind::Ordinary}) {
      std::vector<Cell> cells = tune(job.candidates, job.mesh, memory, options);
      effort.measured += effortOf(cells).measured;
      effort.all += effortOf(cells).all;
      if (command.asJson)
        addSchedules({job.collective, job.mesh, memory, candidates, cells},
                     machine ? std::optional(TuneModel{*machine, job.predict}) : std::nullopt, schedules);
      if (printsTables)
        print(job.candidates, cells,
              fmt::format("{}{} on {}, {}", runtime::toString(job.collective),
                          isTunedInPlace(job.collective) ? " in place" : "", job.mesh.toString(),
                          runtime::toString(memory)));
      std::ranges::copy(entriesFor(job.candidates, cells, job.collective, job.mesh, memory),
                        std::back_inserter(entries));
    }
  }
  if (isSilent)
    return;
  writeWhole(command.output, writeTable(describeMachine(KOLO_VERSION, command.text()), entries), "--output");
  if (command.asJson) {
    nlohmann::ordered_json json = {{"output", command.output},
                                   {"pairs", {{"measured", effort.measured}, {"all", effort.all}}},
                                   {"schedules", std::move(schedules)}};
    fmt::print("{}\n", json.dump(2));
    return;
  }
  fmt::print("\nmeasured {} of {} pairs of a size and a candidate\n{}: {} entries\n", effort.measured, effort.all,
             command.output, entries.size());
}

} // namespace

void addTuneCommand(CLI::App &app) {
  CLI::App *command =
      addCommand(app, "tune",
                 "measures the shipped algorithms on this machine and keeps the fastest, for unchanged\n"
                 "programs; with -o, all algorithms, and writes a table");
  auto options = std::make_shared<TuneCommand>();
  command->add_option("--mesh", options->meshes,
                      "ranks, as rank=4; may repeat; without it, 2, 4, 8 and as many as there are cores");
  auto *ranksAs =
      command
          ->add_option("--ranks-as", options->ranksAs,
                       "processes of this host; launched: this process is one rank, by RANK, WORLD_SIZE,\n"
                       "MASTER_ADDR and MASTER_PORT, or the variables of srun or mpirun, and --mesh may be\n"
                       "node=2,gpu=2, which measures hierarchical algorithms with pipelines; rank 0 prints\n"
                       "and writes")
          ->check(CLI::IsMember({"processes", "launched"}))
          ->capture_default_str();
  auto *output = command->add_option("-o,--output", options->output,
                                     "the table, for kolo compile --table; without it, the user's cache directory,\n"
                                     "where the doors of PyTorch and MPI find it");
  ranksAs->needs(output);
  command
      ->add_option("--network", options->network,
                   "with --ranks-as launched: the dimensions whose ranks may be on different hosts, with commas")
      ->type_name("DIM")
      ->delimiter(',')
      ->needs(ranksAs);
  command->add_option("--collective", options->collectives, "all_reduce and so on; may repeat; without it, all");
  command->add_option("-e,--max-bytes", options->maxBytes, "largest size; the others are 8 bytes, 64, 512, ...")
      ->capture_default_str();
  command
      ->add_option("--machine", options->machine,
                   "a machine file, or host, which kolo probe measures: measures at most a third of all pairs of a\n"
                   "size and a candidate, but one at every size, as a simulation expects them to be fast: in\n"
                   "windows the best quarter; of what is left, in ordinary memory the best of every way in which\n"
                   "ranks reach each other's data, those first that are expected to be nearest to the fastest")
      ->needs(output)
      ->excludes(ranksAs);
  command
      ->add_option("--seconds", options->seconds,
                   "time to compile and measure without -o; what is not measured by then is as in the\n"
                   "shipped table. The result is compiled after that")
      ->check(CLI::Range(0.001, 3600.0))
      ->excludes(output)
      ->capture_default_str();
  command
      ->add_option("--seconds-per-cell", options->secondsPerCell,
                   "time for one collective, mesh, size and kind of memory, beyond a first look at every candidate;\n"
                   "there are 16 cells per size and mesh")
      ->needs(output)
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  command->add_flag("--json", options->asJson,
                    "what was measured as JSON, in place of tables; with --machine also how near it is to the bound");
  command->footer(
      "Ranks are processes; f32, sum, one lane. Rounds alternate among the candidates. The one is chosen that is\n"
      "nearest to the fastest in its own worst round. A candidate that takes more than twice as long as the fastest "
      "at\n"
      "first is left behind at that size; one within 3 % of the best stays chosen from one size to the next.\n"
      "With -o, every candidate's result is checked on every mesh, size and kind of memory. Without it, candidates "
      "are\n"
      "the programs of the shipped table, up to 16 MiB, checked up to 256 KiB; the table's choice stays unless "
      "another\n"
      "is no slower in any round and more than 10 % faster in most.");
  command->callback([options] { tuneCommand(*options); });
}

} // namespace kolo::tools
