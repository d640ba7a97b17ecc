// What several commands of `kolo` take, and how it is understood.
#include "Options.h"

#include "driver/Compile.h"
#include "driver/Data.h"
#include "driver/TemporaryFile.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <map>

namespace kolo::tools {

static constexpr int64_t mostRanks = 65536;

int64_t parseSize(const std::string &text, const std::string &flag) {
  int64_t number = 0;
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(end, text.data() + text.size());
  std::ranges::transform(unit, unit.begin(), [](unsigned char letter) { return std::tolower(letter); });
  static const std::map<std::string, int> shifts = {{"", 0},    {"b", 0},   {"k", 10},   {"kb", 10}, {"kib", 10},
                                                    {"m", 20},  {"mb", 20}, {"mib", 20}, {"g", 30},  {"gb", 30},
                                                    {"gib", 30}, {"t", 40},  {"tb", 40},  {"tib", 40}};
  auto shift = shifts.find(unit);
  if (problem != std::errc() || number < 0 || shift == shifts.end() || number > (INT64_MAX >> shift->second))
    throw ToolError(ExitCode::Usage, flag + ": '" + text + "' is not a size; write 8, 64K, 16MiB or 1G");
  return number << shift->second;
}

runtime::Mesh parseMesh(const std::string &text) {
  auto mesh = runtime::Mesh::parse(text);
  if (!mesh.isOk())
    throw ToolError(ExitCode::Usage, "--mesh: " + mesh.status().message() + "; a mesh is written like node=2,gpu=4");
  if (mesh->numRanks() > mostRanks)
    throw ToolError(ExitCode::Usage, "--mesh: " + text + " has " + std::to_string(mesh->numRanks()) +
                                         " ranks; at most " + std::to_string(mostRanks) + " can be compiled for");
  return std::move(mesh).value();
}

void RunOptions::addTo(CLI::App &command) {
  command.add_option("algorithm", what, "a shipped algorithm (see kolo list) or a plugin file X.so")->required();
  command.add_option("--mesh", mesh, "ranks by dimension, slowest first: node=2,gpu=4")->required();
  command.add_option("--program", program, "which program of a plugin that has several");
  command.add_option("--dtype", type, "f16 bf16 f32 f64 i8 u8 i32 u32 i64 u64")->capture_default_str();
  command.add_option("--op", reduction, "sum product min max average")->capture_default_str();
  command.add_option("--root", root, "number of the root, among the ranks that take part")->capture_default_str();
  CLI::Option *onDevices =
      command.add_option("--device", device, "cuda or hip: on devices of this kind, all ranks in one process; several may\nshare one")
          ->check(CLI::IsMember({"cuda", "hip"}));
  command.add_option("--ranks-as", ranksAs, "processes or threads")
      ->check(CLI::IsMember({"processes", "threads"}))
      ->excludes(onDevices)
      ->capture_default_str();
  command.add_option("--memory", memory, "windows, which peers access directly, or ordinary, as malloc gives it")
      ->check(CLI::IsMember({"windows", "ordinary"}))
      ->excludes(onDevices)
      ->capture_default_str();
  command.add_option("--lanes", lanes, "threads per rank, 1 if not given; on devices blocks, 8 if not given")
      ->check(CLI::Range(1, runtime::maxLanes));
  command.add_option("--timeout-ms", timeoutMs, "longest wait for a peer; 0: $KOLO_TIMEOUT_MS, else 30000")
      ->check(CLI::Range(0, INT_MAX))
      ->capture_default_str();
  command.add_flag("--in-place", isInPlace, "input and output are the same memory, as in NCCL");
  command.add_flag("--no-optimization", noOptimization, "compile with the required passes only");
  scheduleOptions.addTo(command);
}

void ScheduleOptions::addTo(CLI::App &command) {
  command.add_option("--pipeline", slices, "slices of every chunk that go through the phases one behind the other")
      ->check(CLI::Range(int64_t(1), maxSlices))
      ->capture_default_str();
  command.add_option("--synchronisation", synchronisation, "least: what the checker proves that is needed;\n"
                                                           "handshake: every transfer waits for both of its sides")
      ->check(CLI::IsMember({"least", "handshake"}))
      ->capture_default_str();
  command.add_option("--transfers", transfers, "who moves what is not combined; push: the sender writes; pull: the\n"
                                               "receiver reads; auto: pull what exists at a root only, else push")
      ->check(CLI::IsMember({"auto", "push", "pull"}))
      ->capture_default_str();
  command.add_option("--entry", entry, "together: all ranks wait for each other at first; credits: a rank waits for those\n"
                                       "it has to do with, where it must; auto: together if only the host gets code")
      ->check(CLI::IsMember({"auto", "together", "credits"}))
      ->capture_default_str();
  command.add_option("--protocol", protocol, "bulk: from buffer to buffer; slots: every rank publishes its input, piece by\n"
                                             "piece, in memory of the runtime's")
      ->check(CLI::IsMember({"bulk", "slots"}))
      ->capture_default_str();
}

Schedule ScheduleOptions::schedule() const {
  Schedule schedule;
  schedule.slices = slices;
  if (synchronisation == "handshake")
    schedule.synchronisation = Synchronisation::Handshake;
  if (transfers != "auto")
    schedule.transfers = transfers == "push" ? Transfers::Push : Transfers::Pull;
  if (entry != "auto")
    schedule.entry = entry == "together" ? Entry::Together : Entry::Credits;
  if (protocol == "slots") {
    schedule.protocol = Protocol::Slots;
    if (slices > 1 || transfers == "push" || entry == "credits")
      throw ToolError(ExitCode::Usage, "--protocol slots: all of the input is published at once as all ranks enter, and read; "
                                       "not with --pipeline, --transfers push or --entry credits");
  }
  return schedule;
}

static runtime::Plugin loadPlugin(const std::string &path) {
  auto plugin = runtime::Plugin::load(path);
  if (!plugin.isOk())
    throw ToolError(ExitCode::Usage, plugin.status().message());
  return std::move(plugin).value();
}

/// Compiles a shipped algorithm to a plugin that no file remains of.
static runtime::Plugin compileShipped(const std::string &name, CompileRequest request) {
  request.definitions = {findShipped(name)};
  TemporaryFile file("so");
  request.output = file.path();
  compile(request);
  return loadPlugin(file.path());
}

/// Has the request made for the first device too, with code for this type and reduction alone.
static void addDevice(CompileRequest &request, runtime::DeviceKind kind, runtime::DataType type, runtime::Reduction reduction) {
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

static int64_t groupSizeOf(const RankJob &job) {
  int64_t size = 1;
  for (int dim : job.plugin.findProgram(job.program)->groupDims)
    size *= job.mesh.dims()[size_t(dim)].size;
  return size;
}

static void checkRoot(const RankJob &job) {
  using enum runtime::CollectiveKind;
  auto kind = job.plugin.findProgram(job.program)->collective;
  bool isRooted = kind == Broadcast || kind == Reduce || kind == Gather || kind == Scatter;
  if (isRooted && (job.root < 0 || job.root >= groupSizeOf(job)))
    throw ToolError(ExitCode::Usage, "--root: " + std::to_string(job.root) + " is none of the ranks that take part, 0 to " +
                                         std::to_string(groupSizeOf(job) - 1));
}

void RunOptions::chooseProgram(RankJob &job) const {
  const std::vector<runtime::ProgramInfo> &programs = job.plugin.programs();
  job.program = program.empty() && programs.size() == 1 ? programs.front().name : program;
  if (job.plugin.findProgram(job.program))
    return;
  std::string names;
  for (const runtime::ProgramInfo &info : programs)
    names += (names.empty() ? "" : ", ") + info.name;
  throw ToolError(ExitCode::Usage, (program.empty() ? "--program is needed" : "--program: there is no '" + program + "'") +
                                       "; " + what + " has " + names);
}

/// Refuses, or warns, of a program that is not proved on the mesh that it is to run on. The runtime itself never prints.
static void checkProof(const runtime::ProgramInfo &info, const std::vector<int64_t> &sizes, const runtime::Mesh &mesh) {
  if (info.isProved(sizes))
    return;
  std::string problem = info.name + " is not proved on " + mesh.toString();
  if (!info.isUnproved)
    throw ToolError(ExitCode::Usage, "--mesh: " + problem);
  std::fprintf(stderr, "kolo: warning: %s; its result may be wrong, or it may never end\n", problem.c_str());
}

void RunOptions::checkMesh(const RankJob &job) const {
  const runtime::ProgramInfo &info = *job.plugin.findProgram(job.program);
  std::string known;
  for (const std::vector<int64_t> &sizes : info.meshes) {
    std::vector<runtime::MeshDim> dims;
    for (size_t i = 0; i < sizes.size(); ++i)
      dims.push_back({info.meshDims[i], sizes[i]});
    if (dims == job.mesh.dims())
      return checkProof(info, sizes, job.mesh);
    auto compiled = runtime::Mesh::create(std::move(dims));
    known += (known.empty() ? "" : " or ") + (compiled.isOk() ? compiled->toString() : "?");
  }
  throw ToolError(ExitCode::Usage, "--mesh: " + info.name + " was compiled for " + known + ", not for " + job.mesh.toString());
}

RankJob RunOptions::makeJob() const {
  runtime::Mesh parsedMesh = parseMesh(mesh);
  if (parsedMesh.numRanks() > runtime::maxRanks)
    throw ToolError(ExitCode::Usage, "--mesh: " + mesh + " has " + std::to_string(parsedMesh.numRanks()) +
                                         " ranks; one host runs at most " + std::to_string(runtime::maxRanks));
  auto parsedType = runtime::parseDataType(type);
  if (!parsedType)
    throw ToolError(ExitCode::Usage, "--dtype: '" + type + "' is none of f16 bf16 f32 f64 i8 u8 i32 u32 i64 u64");
  auto parsedReduction = runtime::parseReduction(reduction);
  if (!parsedReduction)
    throw ToolError(ExitCode::Usage, "--op: '" + reduction + "' is none of sum product min max average");
  bool isFile = what.ends_with(".so") || what.find('/') != std::string::npos;
  CompileRequest request;
  request.meshes = {parsedMesh};
  request.optimize = !noOptimization;
  request.schedule = scheduleOptions.schedule();
  if (deviceKind() && !isFile)
    addDevice(request, *deviceKind(), *parsedType, *parsedReduction);
  RankJob job{isFile ? loadPlugin(what) : compileShipped(what, request),
              program, parsedMesh, *parsedType, *parsedReduction, root, isInPlace, memory == "windows",
              ranksAs == "processes", true, {}, {}, deviceKind()};
  chooseProgram(job);
  checkMesh(job);
  checkRoot(job);
  job.options.lanes = lanes > 0 ? lanes : deviceKind() ? runtime::DeviceOptions().lanes : 1;
  if (timeoutMs > 0) {
    job.options.timeoutMs = timeoutMs;
    unsetenv("KOLO_TIMEOUT_MS"); // a flag is meant more than a variable
  }
  return job;
}

static int64_t blocksOf(const RankJob &job) {
  BufferSizes unit = bufferSizes(job.plugin.findProgram(job.program)->collective, 1, groupSizeOf(job));
  return std::max(unit.inputElements, unit.outputElements);
}

int64_t countFor(const RankJob &job, int64_t numBytes) {
  return numBytes / int64_t(runtime::sizeBytes(job.type)) / blocksOf(job);
}

int64_t bytesFor(const RankJob &job, int64_t count) {
  return count * blocksOf(job) * int64_t(runtime::sizeBytes(job.type));
}

Bandwidths bandwidthsFor(const RankJob &job, int64_t count, double microseconds) {
  double numBytes = double(bytesFor(job, count)), n = double(groupSizeOf(job));
  double algorithm = microseconds > 0 ? numBytes / microseconds / 1e3 : 0;
  using enum runtime::CollectiveKind;
  switch (job.plugin.findProgram(job.program)->collective) {
  case AllReduce:
    return {algorithm, algorithm * 2 * (n - 1) / n};
  case Broadcast:
  case Reduce:
    return {algorithm, algorithm};
  default:
    return {algorithm, algorithm * (n - 1) / n};
  }
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  size_t half = values.size() / 2;
  return values.empty() ? 0 : values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

} // namespace kolo::tools
