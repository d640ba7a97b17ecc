// kolo list and compile.
#include "tools/CommandLine.h"
#include "tools/Commands.h"
#include "tools/SourceOptions.h"
#include "tools/compile/Devices.h"
#include "tools/compile/Kinds.h"
#include "tools/compile/Ptxas.h"
#include "tools/compile/TuningTable.h"

#include "kolo/runtime/Plugin.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>

namespace kolo::tools {

static std::string collectiveName(const dsl::Collective &collective) {
  std::string name = runtime::toString(kindOf(collective));
  for (size_t i = 0; i < collective.dims.size(); ++i)
    name += (i ? "," : " over ") + collective.dims[i];
  return name;
}

static void list(bool asJson) {
  std::vector<dsl::Definition> all = shippedAlgorithms();
  std::ranges::sort(all, {}, [](const dsl::Definition &definition) {
    return std::pair(collectiveName(definition.collective), definition.name);
  });
  if (asJson) {
    auto rows = nlohmann::ordered_json::array();
    for (const dsl::Definition &definition : all)
      rows.push_back({{"name", definition.name},
                      {"collective", collectiveName(definition.collective)},
                      {"mesh", definition.mesh.dims}});
    fmt::print("{}\n", rows.dump(2));
    return;
  }
  fmt::print("{:<32} {:<24} {}\n", "name", "collective", "mesh");
  for (const dsl::Definition &definition : all)
    fmt::print("{:<32} {:<24} {}\n", definition.name, collectiveName(definition.collective),
               fmt::join(definition.mesh.dims, ","));
}

void addListCommand(CLI::App &app) {
  CLI::App *command = addCommand(app, "list", "shows the algorithms that ship with Kolo");
  auto asJson = std::make_shared<bool>(false);
  command->add_flag("--json", *asJson, "as JSON: an array of {name, collective, mesh}");
  command->callback([asJson] { list(*asJson); });
}

namespace {
struct CompileOptions : SourceOptions {
  std::string table, output, target = "cpu", sanitizer, types = "f16,bf16,f32", reductions = "sum,average",
                             accumulate = "f32", networkMemory = "direct";
  std::optional<std::string> ptxas, stage;
  std::vector<std::string> network;
  bool unproved = false, represented = false;
};
} // namespace

/// Says which meshes were proved on a smaller one in their place, and which were not proved.
static void printProofs(const std::string &plugin) {
  auto manifest = runtime::Plugin::readManifest(plugin);
  if (!manifest.isOk())
    throw ToolError(ExitCode::Failed, manifest.status().message());
  using Json = nlohmann::ordered_json;
  const Json parsed = Json::parse(*manifest);
  for (const Json &program : parsed["programs"])
    for (const Json &mesh : program["meshes"]) {
      const Json &proofs = program["proved"], &names = program["mesh"];
      auto proof = std::ranges::find_if(proofs, [&](const Json &entry) { return entry["mesh"] == mesh; });
      std::string name = program["name"].get<std::string>();
      if (proof == proofs.end())
        fmt::print("{}: {} is not proved\n", name, meshText(names, mesh));
      else if ((*proof)["on"] != mesh)
        fmt::print("{}: {} is represented: {} was proved in its place\n", name, meshText(names, mesh),
                   meshText(names, (*proof)["on"]));
    }
}

/// The programs of a table, instead of one algorithm's. Throws ToolError (Usage).
static CompileRequest makeTableRequest(const CompileOptions &options) {
  CompileRequest request;
  try {
    request = requestFor(readTable(tablePath(options.table)));
  } catch (const ToolError &error) {
    throw ToolError(error.code(), std::string("--table: ") + error.what());
  }
  request.optimize = !options.noOptimization;
  request.budget = options.parseBudget();
  return request;
}

static CompileRequest makeRequest(const CompileOptions &options) {
  if (!options.table.empty())
    return makeTableRequest(options);
  if (options.what.empty())
    throw ToolError(ExitCode::Usage, "an algorithm or --table is required (kolo compile --help)");
  return options.makeRequest();
}

static bool hasTarget(const CompileRequest &request, const char *kind) {
  return std::ranges::find(request.devices, kind, &DeviceArchitecture::kind) != request.devices.end();
}

/// Throws ToolError (Usage).
static void checkNetwork(const CompileRequest &request) {
  if (request.network.memory == NetworkMemory::Staged && request.network.dims.empty())
    throw ToolError(ExitCode::Usage, "--network-memory staged: needs --network");
  if (request.network.dims.empty())
    return;
  if (!request.irPath.empty())
    throw ToolError(ExitCode::Usage, "--network: not with " + request.irPath + "; the mesh is needed");
  auto hasDim = [](const runtime::Mesh &mesh, const std::string &name) {
    return std::ranges::find(mesh.dims(), name, &runtime::MeshDim::name) != mesh.dims().end();
  };
  for (const std::string &name : request.network.dims) {
    auto isKnown = [&](const ProgramRequest &program) { return hasDim(program.meshes.front(), name); };
    if (request.programs.empty() && !hasDim(request.meshes.front(), name))
      throw ToolError(ExitCode::Usage,
                      "--network: there is no dimension '" + name + "' in mesh " + request.meshes.front().toString());
    if (!request.programs.empty() && std::ranges::none_of(request.programs, isKnown))
      throw ToolError(ExitCode::Usage, "--network: no program of the table has a dimension '" + name + "'");
  }
}

/// Throws ToolError (Usage).
static CompileRequest makeFullRequest(const CompileOptions &options) {
  CompileRequest request = makeRequest(options);
  const std::string &source = options.table.empty() ? options.what : options.table;
  request.output = options.output.empty() ? std::filesystem::path(source).stem().string() + ".so" : options.output;
  request.network = {options.network, parseNetworkMemory(options.networkMemory)};
  checkNetwork(request);
  request.unproved = options.unproved;
  request.represented = options.represented;
  request.sanitizeThread = options.sanitizer == "thread";
  Targets targets = parseTargets(options.target);
  request.cpu = targets.cpu;
  request.devices = targets.devices;
  if (options.ptxas) {
    if (!hasTarget(request, "cuda"))
      throw ToolError(ExitCode::Usage, "--ptxas: there is no PTX without a target such as cuda:sm_90");
    request.ptxas = findPtxas(*options.ptxas);
  }
  request.deviceOptions = {parseTypes(options.types, "--device-types"),
                           parseReductions(options.reductions, "--device-ops"),
                           options.accumulate == "native" ? Accumulation::Native : Accumulation::F32};
  return request;
}

static const std::map<std::string, Stage> stages = {{"choreography", Stage::Choreography},
                                                    {"channel", Stage::Channel},
                                                    {"llvm", Stage::LlvmIr},
                                                    {"asm", Stage::Assembly},
                                                    {"ptx", Stage::Ptx},
                                                    {"hsaco-asm", Stage::HsacoAssembly}};

static void emitCommand(const CompileOptions &options) {
  CompileRequest request = makeFullRequest(options);
  Stage stage = stages.at(*options.stage);
  if (stage == Stage::Ptx && !hasTarget(request, "cuda"))
    throw ToolError(ExitCode::Usage, "--emit ptx needs a target such as --target cpu,cuda:sm_90");
  if (stage == Stage::HsacoAssembly && !hasTarget(request, "hip"))
    throw ToolError(ExitCode::Usage, "--emit hsaco-asm needs a target such as --target cpu,hip:gfx90a");
  if (request.sanitizeThread && stage != Stage::LlvmIr && stage != Stage::Assembly)
    throw ToolError(ExitCode::Usage, "--sanitize instruments the host's code: with --emit, llvm and asm only");
  bool toStandardOutput = options.output.empty() || options.output == "-";
  if (!toStandardOutput)
    checkRegular(options.output, "-o");
  checkWritable(options.output, "-o");
  StageText emitted = emitStage(request, stage);
  for (const std::string &warning : emitted.warnings)
    fmt::print(stderr, "{}\n", warning);
  if (toStandardOutput)
    fmt::print("{}", emitted.text);
  else
    writeWhole(options.output, emitted.text, "-o");
}

static void compileCommand(const CompileOptions &options) {
  CompileRequest request = makeFullRequest(options);
  auto start = std::chrono::steady_clock::now(); // the host compiler's time is not Kolo's
  std::vector<std::string> warnings = compile(request);
  double milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  for (const std::string &warning : warnings)
    fmt::print(stderr, "{}\n", warning);
  fmt::print("{}: compiled in {:.0f} ms\n", request.output, milliseconds);
  printProofs(request.output);
}

void addCompileCommand(CLI::App &app) {
  CLI::App *command = addCommand(app, "compile", "compiles an algorithm, or a file of your own, to a plugin");
  auto options = std::make_shared<CompileOptions>();
  options->addTo(*command);
  auto *table = command->add_option("--table", options->table,
                                    "instead of an algorithm, the programs and the selection of a table\n"
                                    "that kolo tune or explore wrote: a file, or one that ships, frontier or\n"
                                    "default, which is cpu");
  command->get_option("algorithm")->required(false)->excludes(table);
  for (const char *own :
       {"--mesh", "--program", "--pipeline", "--synchronisation", "--transfers", "--entry", "--protocol", "--order"})
    table->excludes(command->get_option(own));
  command
      ->add_option("--target", options->target,
                   "targets of the code: cpu, or cpu:x86-64-v3 or cpu:x86-64-v4 for one kind alone, and cuda:sm_90, "
                   "hip:gfx90a, ...")
      ->capture_default_str();
  command->add_option("--ptxas", options->ptxas,
                      "also pack machine code for every cuda target, assembled by this program of\n"
                      "the CUDA toolkit, a path, or auto to look for it; without it, drivers\n"
                      "compile the PTX when they load it");
  command->add_option("--device-types", options->types, "element types that devices reduce; all: all ten")
      ->capture_default_str();
  command
      ->add_option("--device-ops", options->reductions,
                   "reductions that devices know, among sum, product, min, max,\n"
                   "average; all: all five")
      ->capture_default_str();
  command
      ->add_option("--accumulate", options->accumulate,
                   "the type that devices compute with f16 and bf16 in: f32, or native")
      ->check(CLI::IsMember({"f32", "native"}))
      ->capture_default_str();
  std::vector<std::string> stageNames;
  for (const auto &[name, stage] : stages)
    stageNames.push_back(name);
  command
      ->add_option("--emit", options->stage,
                   "writes a stage of the compilation as text, instead of a plugin: choreography\n"
                   "or channel, IR that kolo-opt reads; llvm or asm, the host's code; ptx or\n"
                   "hsaco-asm, the code for the first cuda or hip target")
      ->type_name("STAGE")
      ->check(CLI::IsMember(stageNames))
      ->excludes(table)
      ->excludes("--ptxas");
  command
      ->add_option("--network", options->network,
                   "dimensions whose ranks may be on different hosts, with commas: data along them is\n"
                   "always sent, never read; without it, all ranks must be on one host")
      ->type_name("DIM")
      ->delimiter(',');
  command
      ->add_option("--network-memory", options->networkMemory,
                   "how data crosses the network: direct, or staged in memory of the hosts, for\n"
                   "devices whose memory the network does not reach")
      ->check(CLI::IsMember({"direct", "staged"}))
      ->capture_default_str();
  command->add_option("-o,--output", options->output,
                      "the plugin; without it, NAME.so. With --emit, the text; - or nothing: standard output");
  command->add_flag("--represented", options->represented,
                    "let a smaller mesh stand for one whose proof is beyond the budget; the plugin then says so");
  command->add_flag("--unproved", options->unproved, "also pack programs that are not proved; the plugin then says so");
  command
      ->add_option("--sanitize", options->sanitizer,
                   "instruments the code, to test Kolo itself: only a process under that\n"
                   "sanitizer loads such a plugin")
      ->check(CLI::IsMember({"thread"}));
  command->callback([options] { options->stage ? emitCommand(*options) : compileCommand(*options); });
}

} // namespace kolo::tools
