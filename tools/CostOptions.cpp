#include "tools/CostOptions.h"
#include "tools/SourceOptions.h"
#include "tools/compile/ForeignFile.h"

#include "dsl/Recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace kolo::tools {

void CostOptions::addTo(CLI::App &command, bool hasMesh) {
  command.add_option("--machine", machine, "a machine that ships with Kolo, or the file of one (kolo machine)")
      ->required();
  command
      .add_option("--network-memory", networkMemory,
                  "how data crosses the network: direct, or staged in memory of the hosts. Programs are\n"
                  "then those of kolo compile --network, along all dimensions between nodes. Without it\n"
                  "they may also read from other nodes and send them packets, which does not run there")
      ->check(CLI::IsMember({"direct", "staged"}));
  if (hasMesh)
    command.add_option("--mesh", mesh, "ranks by dimension, slowest first: node=128,gpu=8")->required();
  command.add_option("--placement", placement,
                     "which rank runs where; fields, separated by blanks: order=gpu,node\n"
                     "devices=0,1,5,4,6,7,3,2 per-node=4; without it, ranks fill nodes in their order");
  command
      .add_option("--rates", rates,
                  "what moves of data reach: peak, all that links have; kernel or copy, what\n"
                  "kernels or copy engines reach. Lower bounds are always at peak")
      ->check(CLI::IsMember({"peak", "kernel", "copy"}))
      ->capture_default_str();
  command
      .add_option("--bytes", bytes,
                  "of the larger buffer of one rank: 64M; a range by factors of 2, 1K..1G; or a\n"
                  "list, 1K,64K,1M")
      ->capture_default_str();
  command.add_option("--json", json, "as JSON, to this file; without one, or with -, to standard output")
      ->type_name("[FILE]")
      ->expected(0, 1);
}

cost::Machine CostOptions::readMachine() const {
  cost::Machine read = orThrow(cost::Machine::read(machine), "--machine: ");
  return network() == NetworkMemory::Staged ? orThrow(read.staged(), "--network-memory: ") : read;
}

std::optional<NetworkMemory> CostOptions::network() const {
  return networkMemory.empty() ? std::nullopt : std::optional(parseNetworkMemory(networkMemory));
}

runtime::Mesh CostOptions::parsedMesh() const { return parseMesh(mesh); }

cost::PlacedMesh toPlacedMesh(const runtime::Mesh &mesh) {
  cost::PlacedMesh placed;
  for (const runtime::MeshDim &dim : mesh.dims()) {
    placed.names.push_back(dim.name);
    placed.sizes.push_back(dim.size);
  }
  return placed;
}

cost::Placement CostOptions::place(const cost::Machine &on) const {
  return orThrow(cost::Placement::create(on, toPlacedMesh(parsedMesh()), placement));
}

cost::Rates CostOptions::parsedRates() const {
  return rates == "peak" ? cost::Rates::Peak : rates == "kernel" ? cost::Rates::Kernel : cost::Rates::Copy;
}

static int64_t parseOneSize(const std::string &text, const std::string &flag) {
  int64_t size = parseSize(text, flag);
  if (size < 1 || size > mostCostBytes)
    throw ToolError(ExitCode::Usage, flag + ": " + text + " must be at least 1 byte and at most 16T");
  return size;
}

static std::vector<int64_t> parseRange(const std::string &text, size_t dots, const std::string &flag) {
  int64_t first = parseOneSize(text.substr(0, dots), flag), last = parseOneSize(text.substr(dots + 2), flag);
  if (first > last)
    throw ToolError(ExitCode::Usage, fmt::format("{}: {} ends before it begins", flag, text));
  std::vector<int64_t> sizes;
  for (int64_t size = first; size < last; size *= 2)
    sizes.push_back(size);
  sizes.push_back(last);
  return sizes;
}

std::vector<int64_t> parseSizes(const std::string &text, const std::string &flag) {
  if (size_t dots = text.find(".."); dots != std::string::npos)
    return parseRange(text, dots, flag);
  std::vector<int64_t> sizes;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    sizes.push_back(parseOneSize(text.substr(begin, end - begin), flag));
    begin = end + 1;
  }
  std::ranges::sort(sizes);
  sizes.erase(std::ranges::unique(sizes).begin(), sizes.end());
  return sizes;
}

std::vector<int64_t> CostOptions::sizes() const { return parseSizes(bytes, "--bytes"); }

void CostedPrograms::addTo(CLI::App &command) {
  command
      .add_option("algorithms", what,
                  "shipped algorithms, FILE.cpp or, for kolo simulate,\nfiles of other libraries, X.xml or X.json; "
                  "several are compared")
      ->required();
  command.add_option("--program", program, "one choreography of FILE.cpp; without it, all");
  command.add_option("--codec", codecs, "NAME=CODEC for a codec that a choreography names: network=int4; may repeat");
  command.add_option("--dtype", type, "of the call's elements, f16, bf16 or f32, where a choreography has codecs")
      ->check(CLI::IsMember({"f16", "bf16", "f32"}))
      ->capture_default_str();
  command
      .add_option("--lanes", lanes, "of every rank, where a lane has a bandwidth of its own; 0: as many as it takes")
      ->check(CLI::Range(int64_t(0), int64_t(65536)))
      ->capture_default_str();
  command.add_flag("--no-optimization", noOptimization, "required passes only");
  scheduleOptions.addTo(command);
}

/// A foreign file's program by name, without a body: it is simulated as it is. Throws ToolError.
static dsl::Definition foreignDefinition(const std::string &path, const runtime::Mesh &mesh) {
  foreign::ForeignSchedule schedule = readForeign(path);
  if (mesh.numRanks() != schedule.numRanks)
    throw ToolError(ExitCode::Usage, fmt::format("--mesh: {} is for {} ranks, and {} has {}", path, schedule.numRanks,
                                                 mesh.toString(), mesh.numRanks()));
  return {schedule.name, collectiveOf(schedule), dsl::Mesh("rank"), {}, {}};
}

/// All choreographies of the command line. Throws ToolError.
static std::vector<dsl::Definition> definitionsOf(const CostedPrograms &programs) {
  std::vector<dsl::Definition> all;
  for (const std::string &what : programs.what) {
    if (isForeignFile(what))
      continue;
    if (!isSourceFile(what)) {
      if (what.find_first_of("./") != std::string::npos)
        throw ToolError(ExitCode::Usage, what + " is neither an algorithm nor a file that ends in .cpp, .cc or .cxx");
      all.push_back(findShipped(what));
      continue;
    }
    std::vector<dsl::Definition> loaded = loadUserSource(what);
    if (!programs.program.empty())
      std::erase_if(loaded, [&](const dsl::Definition &definition) { return definition.name != programs.program; });
    if (loaded.empty())
      throw ToolError(ExitCode::Usage, fmt::format("--program: there is no '{}' in {}", programs.program, what));
    all.insert(all.end(), loaded.begin(), loaded.end());
  }
  return all;
}

/// Of several choreographies, each one gets the choices of the codecs that it names.
static std::map<std::string, dsl::Codec> choicesFor(const dsl::Definition &definition,
                                                    std::map<std::string, dsl::Codec> choices) {
  std::set<std::string> names;
  std::unique_ptr<dsl::Recording> recording = dsl::record(definition);
  for (const dsl::RecordedCodec &codec : recording->codecs)
    names.insert(codec.name);
  std::erase_if(choices, [&](const auto &choice) { return !names.contains(choice.first); });
  return choices;
}

std::vector<CompileRequest> CostedPrograms::makeRequests(const runtime::Mesh &mesh) const {
  if (scheduleOptions.schedule().order == Summation::OneOrder)
    throw ToolError(ExitCode::Usage, "--order fixed changes no time: kolo check proves it, kolo compile packs it");
  std::vector<CompileRequest> requests;
  std::vector<dsl::Definition> definitions = definitionsOf(*this);
  std::map<std::string, dsl::Codec> choices = parseCodecs(codecs), unknown = choices;
  for (const dsl::Definition &definition : definitions) {
    CompileRequest &request = requests.emplace_back();
    request.definitions = {definition};
    request.meshes = {mesh};
    request.optimize = !noOptimization;
    request.schedule = scheduleOptions.schedule();
    request.codecs = definitions.size() == 1 ? choices : choicesFor(definition, choices);
    for (const auto &[name, codec] : request.codecs)
      unknown.erase(name);
  }
  for (const std::string &path : what) {
    if (!isForeignFile(path))
      continue;
    CompileRequest &request = requests.emplace_back();
    request.definitions = {foreignDefinition(path, mesh)};
    request.meshes = {mesh};
    request.irPath = path;
  }
  if (!unknown.empty())
    throw ToolError(ExitCode::Usage, "--codec: no program has a codec named '" + unknown.begin()->first + "'");
  return requests;
}

} // namespace kolo::tools
