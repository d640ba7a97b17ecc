// What the commands that run ranks take: from words to a job.
#include "tools/Options.h"
#include "tools/SourceOptions.h"

#include "tools/compile/Compile.h"
#include "tools/compile/TemporaryFile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>

namespace kolo::tools {

static std::string namesOfTypes() {
  std::string names;
  for (int type = 0; type < KOLO_NUM_TYPES; ++type)
    names += (type ? " " : "") + std::string(runtime::toString(runtime::DataType(type)));
  return names;
}

static std::string namesOfReductions() {
  std::string names;
  for (int reduction = 0; reduction < KOLO_NUM_REDUCTIONS; ++reduction)
    names += (reduction ? " " : "") + std::string(runtime::toString(runtime::Reduction(reduction)));
  return names;
}

void RunOptions::addTo(CLI::App &command) {
  command
      .add_option("algorithm", what, "a shipped algorithm (see kolo list), a plugin X.so, or what kolo compile takes")
      ->required();
  command.add_option("--mesh", mesh, "ranks by dimension, slowest first: node=2,gpu=4")->required();
  command.add_option("--codec", codecs, "NAME=CODEC for a codec that a shipped algorithm names; may repeat");
  auto *named = command.add_option("--program", program, "which program of a plugin that has several");
  auto *selected = command.add_option("--collective", collective,
                                      "instead, all_reduce and so on: what the plugin selects, by ranks, size and\n"
                                      "memory; for plugins made with kolo compile --table");
  selected->excludes(named);
  command.add_option("--tag", tag, "of the communicator, dp, tp, pp or another: tables may have entries for it")
      ->needs(selected);
  command.add_flag("--lossy", allowsLoss, "lets the plugin select programs that lose bits, whatever its table says")
      ->needs(selected);
  command.add_option("--dtype", type, namesOfTypes())->capture_default_str();
  command.add_option("--op", reduction, namesOfReductions())->capture_default_str();
  command.add_option("--root", root, "number of the root, among the ranks that take part")->capture_default_str();
  command
      .add_option("--device", device,
                  "cuda or hip: on devices of this kind, all ranks in one process, or launched; several may\nshare one")
      ->check(CLI::IsMember({"cuda", "hip"}))
      ->excludes(selected);
  command
      .add_option("--ranks-as", ranksAs,
                  "processes, if not given, or threads of this host; launched: this process is one rank, by RANK,\n"
                  "WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or the variables of srun or mpirun; rank 0 prints. With\n"
                  "--device: launched alone; LOCAL_RANK, or the launcher's variable for it, chooses the device")
      ->check(CLI::IsMember({"processes", "threads", "launched"}));
  command
      .add_option("--memory", memory,
                  "windows, if not given, which peers access directly, or ordinary, as malloc or the device gives it")
      ->check(CLI::IsMember({"windows", "ordinary"}));
  command.add_option("--lanes", lanes, "threads per rank, 1 if not given; on devices blocks, 8 if not given")
      ->check(CLI::Range(1, runtime::maxLanes));
  command.add_option("--timeout-ms", timeoutMs, "longest wait for a peer; 0: $KOLO_TIMEOUT_MS, else 30000")
      ->check(CLI::Range(0, INT_MAX))
      ->capture_default_str();
  command.add_flag("--in-place", isInPlace, "input and output are the same memory, as in NCCL");
  command.add_flag("--no-optimization", noOptimization, "compile with the required passes only");
  scheduleOptions.addTo(command);
}

static runtime::Plugin loadPlugin(const std::string &path) {
  auto plugin = runtime::Plugin::load(path);
  if (!plugin.isOk())
    throw ToolError(ExitCode::Usage, plugin.status().message());
  return std::move(plugin).value();
}

/// Compiles what is no plugin yet to one that no file remains of.
static runtime::Plugin compileHere(CompileRequest request) {
  TemporaryFile file("so");
  request.output = file.path();
  compile(request);
  return loadPlugin(file.path());
}

/// Has the request made for the first device too, with code for this type and reduction alone.
static void addDevice(CompileRequest &request, runtime::DeviceKind kind, runtime::DataType type,
                      runtime::Reduction reduction) {
  auto info = runtime::describeDevice(kind, 0);
  if (!info.isOk())
    throw ToolError(ExitCode::Usage, "--device: " + info.status().message());
  request.devices = {{kind == runtime::DeviceKind::Cuda ? "cuda" : "hip", info->architecture}};
  request.deviceOptions.types = {KoloType(int(type))};
  request.deviceOptions.reductions = {KoloReduction(int(reduction))};
}

std::optional<runtime::DeviceKind> RunOptions::deviceKind() const {
  if (device.empty())
    return std::nullopt;
  return device == "cuda" ? runtime::DeviceKind::Cuda : runtime::DeviceKind::Hip;
}

static void checkRoot(const RankJob &job) {
  if (runtime::hasRoot(job.info()->collective) && (job.root < 0 || job.root >= groupSizeOf(job)))
    throw ToolError(ExitCode::Usage, "--root: " + std::to_string(job.root) +
                                         " is none of the ranks that take part, 0 to " +
                                         std::to_string(groupSizeOf(job) - 1));
}

/// For a call that leaves the program to the plugin.
static void chooseCollective(RankJob &job, const std::string &name, const std::string &plugin) {
  job.collective = runtime::parseCollectiveKind(name);
  if (!job.collective)
    throw ToolError(ExitCode::Usage, "--collective: there is no collective '" + name + "'; kolo list shows them");
  if (job.info())
    return;
  throw ToolError(ExitCode::Usage, "--collective: " + plugin + " selects no program for " + name + " on " +
                                       std::to_string(job.mesh.numRanks()) + " ranks (" + job.mesh.toString() +
                                       "), for elements of " + runtime::toString(job.type) +
                                       (job.calls.haveTables ? " and counts for each block" : "") +
                                       "; kolo inspect shows what it selects");
}

void RunOptions::chooseProgram(RankJob &job) const {
  if (!collective.empty())
    return chooseCollective(job, collective, what);
  const std::vector<runtime::ProgramInfo> &programs = job.plugin.programs();
  job.program = program.empty() && programs.size() == 1 ? programs.front().name : program;
  if (job.plugin.findProgram(job.program))
    return;
  std::string names;
  for (const runtime::ProgramInfo &info : programs)
    names += (names.empty() ? "" : ", ") + info.name;
  throw ToolError(ExitCode::Usage,
                  (program.empty() ? "--program is needed" : "--program: there is no '" + program + "'") + "; " + what +
                      " has " + names);
}

/// Refuses, or warns, of a program that is not proved on the mesh that it is to run on. The runtime itself never
/// prints.
static void checkProof(const runtime::ProgramInfo &info, const std::vector<int64_t> &sizes, const runtime::Mesh &mesh) {
  if (const runtime::Proof *proof = info.proofOf(sizes)) {
    if (proof->isRepresented())
      std::fprintf(stderr, "kolo: warning: %s on %s is represented: a smaller mesh was proved in its place\n",
                   info.name.c_str(), mesh.toString().c_str());
    return;
  }
  std::string problem = info.name + " is not proved on " + mesh.toString();
  if (!info.isUnproved)
    throw ToolError(ExitCode::Usage, "--mesh: " + problem);
  std::fprintf(stderr, "kolo: warning: %s; its result may be wrong, or it may never end\n", problem.c_str());
}

/// Refuses a plugin's program that was compiled without a fixed order.
static void checkOrder(const RankJob &job, const std::string &plugin) {
  auto manifest = runtime::Plugin::readManifest(plugin);
  if (!manifest.isOk())
    throw ToolError(ExitCode::Usage, manifest.status().message());
  const auto read = nlohmann::json::parse(*manifest);
  for (const auto &program : read.at("programs"))
    if (program.at("name") == job.info()->name && program.contains("order"))
      return;
  throw ToolError(ExitCode::Usage, "--order: " + plugin + " was compiled without --order fixed");
}

void RunOptions::checkMesh(const RankJob &job) const {
  const runtime::ProgramInfo &info = *job.info();
  runtime::Mesh called = job.collective ? job.selectFor(0)->mesh : job.mesh;
  std::string known;
  for (const std::vector<int64_t> &sizes : info.meshes) {
    std::vector<runtime::MeshDim> dims;
    for (size_t i = 0; i < sizes.size(); ++i)
      dims.push_back({info.meshDims[i], sizes[i]});
    if (dims == called.dims())
      return checkProof(info, sizes, called);
    auto compiled = runtime::Mesh::create(std::move(dims));
    known += (known.empty() ? "" : " or ") + (compiled.isOk() ? compiled->toString() : "?");
  }
  throw ToolError(ExitCode::Usage,
                  "--mesh: " + info.name + " was compiled for " + known + ", not for " + called.toString());
}

/// Refuses counts for each block where the proof does not hold for them.
void RunOptions::checkTables(const RankJob &job) const {
  if (!job.calls.haveTables)
    return;
  const runtime::ProgramInfo &info = *job.info();
  const runtime::CollectiveFacts facts = runtime::factsOf(info.collective);
  if (!runtime::isPerRank(facts.input) && !runtime::isPerRank(facts.output))
    throw ToolError(ExitCode::Usage,
                    std::string("--counts: ") + runtime::toString(info.collective) + " has no block for each rank");
  const runtime::Mesh called = job.collective ? job.selectFor(0)->mesh : job.mesh;
  std::vector<int64_t> sizes;
  for (const runtime::MeshDim &dim : called.dims())
    sizes.push_back(dim.size);
  const runtime::Proof *proof = info.proofOf(sizes);
  if (proof && proof->takesTables)
    return;
  throw ToolError(ExitCode::Usage, "--counts: " + info.name + " takes no block tables on " + called.toString() +
                                       (!proof                       ? ": it is not proved there"
                                        : proof->whyNoTables.empty() ? ""
                                                                     : ": " + proof->whyNoTables));
}

RankJob RunOptions::makeJob() const {
  if (deviceKind() && ranksAs != "launched" && !(ranksAs.empty() && memory.empty()))
    throw ToolError(ExitCode::Usage, std::string(ranksAs.empty() ? "--memory" : "--ranks-as") +
                                         ": with --device, all ranks are in one process, or launched");
  (void)counts.law(); // mistakes first
  runtime::Mesh parsedMesh = parseMesh(mesh);
  const int most = ranksAs == "launched" ? runtime::maxRanks : runtime::maxRanksOfHost;
  if (parsedMesh.numRanks() > most)
    throw ToolError(ExitCode::Usage, "--mesh: " + mesh + " has " + std::to_string(parsedMesh.numRanks()) +
                                         " ranks; Kolo runs at most " + std::to_string(most));
  auto parsedType = runtime::parseDataType(type);
  if (!parsedType)
    throw ToolError(ExitCode::Usage, "--dtype: '" + type + "' is none of " + namesOfTypes());
  auto parsedReduction = runtime::parseReduction(reduction);
  if (!parsedReduction)
    throw ToolError(ExitCode::Usage, "--op: '" + reduction + "' is none of " + namesOfReductions());
  const bool hasMeshes = namesItsMeshes(what);
  const bool isPlugin =
      !isSourceFile(what) && !hasMeshes && (what.ends_with(".so") || what.find('/') != std::string::npos);
  if (isPlugin && !codecs.empty())
    throw ToolError(ExitCode::Usage, "--codec: " + what + " is compiled already, by kolo compile --codec");
  CompileRequest request;
  if (!isPlugin) {
    SourceOptions source;
    source.what = what;
    source.codecs = codecs;
    source.noOptimization = noOptimization;
    source.scheduleOptions = scheduleOptions;
    if (!hasMeshes) {
      source.meshes = {mesh};
      source.program = program;
    }
    request = source.makeRequest();
    if (deviceKind())
      addDevice(request, *deviceKind(), *parsedType, *parsedReduction);
  }
  RankJob job{isPlugin ? loadPlugin(what) : compileHere(request),
              program,
              parsedMesh,
              *parsedType,
              *parsedReduction,
              root,
              isInPlace,
              memory != "ordinary",
              ranksAs != "threads",
              true,
              {},
              {},
              deviceKind()};
  job.options.tag = tag;
  job.calls = {.allowLoss = allowsLoss, .haveTables = counts.law().has_value()};
  job.isLaunched = ranksAs == "launched";
  chooseProgram(job);
  checkMesh(job);
  checkTables(job);
  if (isPlugin && scheduleOptions.schedule().order == Summation::OneOrder)
    checkOrder(job, what);
  checkRoot(job);
  job.options.lanes = lanes > 0 ? lanes : deviceKind() ? runtime::defaultLanes : 1;
  if (timeoutMs > 0) {
    job.options.timeoutMs = timeoutMs;
    unsetenv("KOLO_TIMEOUT_MS"); // a flag is meant more than a variable
  }
  return job;
}

} // namespace kolo::tools
