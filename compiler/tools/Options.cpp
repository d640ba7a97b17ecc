// What several commands of `kolo` take, and how it is understood.
#include "Options.h"

#include "driver/Compile.h"
#include "driver/Data.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>

#include <unistd.h>

namespace kolo::tools {

int64_t parseSize(const std::string &text, const std::string &flag) {
  auto refuse = [&]() -> int64_t {
    throw ToolError(ExitCode::Usage, flag + ": '" + text + "' is not a size; write 8, 64K, 16MiB or 1G");
  };
  int64_t number = 0;
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || number < 0)
    return refuse();
  static const std::map<std::string, int> shifts = {{"", 0},    {"B", 0},   {"K", 10},  {"KB", 10},  {"KiB", 10}, {"M", 20},
                                                    {"MB", 20}, {"MiB", 20}, {"G", 30}, {"GB", 30}, {"GiB", 30}};
  auto shift = shifts.find(std::string(end, text.data() + text.size()));
  if (shift == shifts.end() || number > (INT64_MAX >> shift->second))
    return refuse();
  return number << shift->second;
}

runtime::Mesh parseMesh(const std::string &text) {
  auto mesh = runtime::Mesh::parse(text);
  if (!mesh.isOk())
    throw ToolError(ExitCode::Usage, "--mesh: " + mesh.status().message());
  return std::move(mesh).value();
}

void RunOptions::addTo(CLI::App &command) {
  command.add_option("algorithm", what, "a shipped algorithm (see kolo list) or a plugin file X.so")->required();
  command.add_option("--mesh", mesh, "ranks by dimension, slowest first: node=2,gpu=4")->required();
  command.add_option("--program", program, "which program of a plugin that has several");
  command.add_option("--dtype", type, "f16 bf16 f32 f64 i8 u8 i32 u32 i64 u64")->capture_default_str();
  command.add_option("--op", reduction, "sum product min max average")->capture_default_str();
  command.add_option("--root", root, "number of the root")->capture_default_str();
  command.add_option("--ranks-as", ranksAs, "processes or threads")
      ->check(CLI::IsMember({"processes", "threads"}))
      ->capture_default_str();
  command.add_option("--memory", memory, "windows, which peers access directly, or ordinary, as malloc gives it")
      ->check(CLI::IsMember({"windows", "ordinary"}))
      ->capture_default_str();
  command.add_option("--lanes", lanes, "threads per rank")->capture_default_str();
  command.add_option("--timeout-ms", timeoutMs, "longest wait for a peer; 0: the runtime's default")->capture_default_str();
  command.add_flag("--in-place", isInPlace, "input and output are the same memory, as in NCCL");
  command.add_flag("--no-optimization", noOptimization, "compile with the required passes only");
}

/// Compiles a shipped algorithm to a plugin that no file remains of.
static runtime::Plugin loadPlugin(const std::string &path) {
  auto plugin = runtime::Plugin::load(path);
  if (!plugin.isOk())
    throw ToolError(ExitCode::Usage, plugin.status().message());
  return std::move(plugin).value();
}

static runtime::Plugin compileShipped(const std::string &name, const runtime::Mesh &mesh, bool optimize) {
  const dsl::Definition &definition = findShipped(name);
  char path[] = "/tmp/kolo-plugin-XXXXXX";
  int file = mkstemp(path);
  if (file < 0)
    throw ToolError(ExitCode::Usage, "cannot write a temporary file in /tmp");
  close(file);
  struct Remover {
    const char *path;
    ~Remover() { std::remove(path); }
  } remover{path};
  compile({{definition}, {mesh}, path, optimize});
  return loadPlugin(path);
}

RankJob RunOptions::makeJob() const {
  runtime::Mesh parsedMesh = parseMesh(mesh);
  auto parsedType = runtime::parseDataType(type);
  if (!parsedType)
    throw ToolError(ExitCode::Usage, "--dtype: '" + type + "' is none of f16 bf16 f32 f64 i8 u8 i32 u32 i64 u64");
  auto parsedReduction = runtime::parseReduction(reduction);
  if (!parsedReduction)
    throw ToolError(ExitCode::Usage, "--op: '" + reduction + "' is none of sum product min max average");
  bool isFile = what.ends_with(".so") || what.find('/') != std::string::npos;
  RankJob job{isFile ? loadPlugin(what) : compileShipped(what, parsedMesh, !noOptimization),
              program, parsedMesh, *parsedType, *parsedReduction, root, isInPlace, memory == "windows",
              ranksAs == "processes", true, {}, {}};
  if (job.program.empty() && job.plugin.programs().size() == 1)
    job.program = job.plugin.programs().front().name;
  if (!job.plugin.findProgram(job.program)) {
    std::string names;
    for (const runtime::ProgramInfo &info : job.plugin.programs())
      names += " " + info.name;
    throw ToolError(ExitCode::Usage, "--program: choose one of" + names);
  }
  if (parsedMesh.numRanks() > runtime::maxRanks)
    throw ToolError(ExitCode::Usage, "--mesh: " + mesh + " has " + std::to_string(parsedMesh.numRanks()) +
                                         " ranks; one host runs at most " + std::to_string(runtime::maxRanks));
  const runtime::ProgramInfo &info = *job.plugin.findProgram(job.program);
  std::vector<std::string> names;
  std::vector<int64_t> sizes;
  for (const runtime::MeshDim &dim : parsedMesh.dims()) {
    names.push_back(dim.name);
    sizes.push_back(dim.size);
  }
  if (names != info.meshDims || std::ranges::find(info.meshes, sizes) == info.meshes.end())
    throw ToolError(ExitCode::Usage, "--mesh: " + info.name + " was not compiled for " + parsedMesh.toString() +
                                         " (kolo inspect shows what for)");
  job.options.lanes = lanes;
  if (timeoutMs > 0)
    job.options.timeoutMs = timeoutMs;
  return job;
}

static int64_t groupSizeOf(const RankJob &job) {
  int64_t size = 1;
  for (int dim : job.plugin.findProgram(job.program)->groupDims)
    size *= job.mesh.dims()[size_t(dim)].size;
  return size;
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
