#include "tools/tune/Candidates.h"
#include "tools/compile/Kinds.h"
#include "tools/compile/LastBits.h"
#include "tools/compile/Schedules.h"
#include "tools/compile/TemporaryFile.h"

#include "mlir/IR/BuiltinOps.h"

#include <algorithm>

namespace kolo::tools {

namespace {

constexpr int64_t depths[] = {4, 16}; // of pipelines through the phases of a hierarchy
constexpr int64_t rootDepth = 4;      // of those that have others read what the root copies

bool isFor(const dsl::Definition &definition, runtime::CollectiveKind collective, const runtime::Mesh &mesh) {
  return kindOf(definition.collective) == collective && definition.collective.dims.empty() &&
         std::ranges::equal(definition.mesh.dims, mesh.dims(), {}, {}, &runtime::MeshDim::name) &&
         !usesCodecs(definition); // nothing is rounded unasked
}

/// Over a network only small inputs can be published, and a table's last entry is for all larger ones. Nothing is read
/// over it, either.
std::vector<Schedule> schedulesFor(runtime::CollectiveKind collective, const runtime::Mesh &mesh, bool hasNetwork) {
  std::vector<Schedule> schedules{{}};
  if (!hasNetwork)
    schedules.push_back({.protocol = Protocol::Published});
  if (!hasNetwork && runtime::isAtRoot(runtime::factsOf(collective).input))
    schedules.push_back({.pipelineDepth = rootDepth, .transfers = Transfers::Pull});
  for (int64_t depth : depths)
    if (mesh.dims().size() > 1)
      schedules.push_back({.pipelineDepth = depth});
  return schedules;
}

/// What `attempt` throws when the compiler refuses, without its place; empty if nothing.
template <class Attempt> std::string refusalOf(Attempt attempt) {
  try {
    attempt();
  } catch (const ToolError &error) {
    if (error.code() != ExitCode::Refused)
      throw;
    std::string text = error.what(), mark = "error: ";
    text = text.substr(0, text.find('\n'));
    size_t at = text.find(mark);
    return at == std::string::npos ? text : text.substr(at + mark.size());
  }
  return "";
}

/// What is against a candidate: that the compiler refuses it, or that its ranks may get different bits.
std::string objectionTo(const ProgramRequest &program, const std::vector<std::string> &network) {
  CompileRequest request{{program.definition}, program.meshes, ""};
  request.network.dims = network;
  request.schedule = program.schedule;
  bool mayDiffer = false;
  std::string refusal = refusalOf([&] {
    (void)emitStage(request, Stage::Channel); // which is proved
    compileToChannel(request, [&](mlir::ModuleOp module) {
      auto synchronised = *module.getOps<ProgramOp>().begin();
      mayDiffer = mayDifferInLastBits(synchronised, mlir::cast<mlir::DenseI64ArrayAttr>(synchronised.getMeshes()[0]));
    });
  });
  return mayDiffer ? differsInLastBits : refusal;
}

/// Compiles all candidates, or, as that takes longer, asks of each one whether the compiler refuses it, and leaves it
/// out. `request` has the programs of `all`.
void compileWhatCompiles(CompileRequest &request, std::vector<Candidate> &all, std::vector<LeftOut> &leftOut) {
  if (refusalOf([&] { compile(request); }).empty())
    return;
  std::vector<ProgramRequest> programs = std::move(request.programs);
  std::vector<Candidate> candidates = std::move(all);
  request.programs.clear();
  all.clear();
  for (size_t number = 0; number < programs.size(); ++number)
    if (std::string reason = objectionTo(programs[number], request.network.dims); !reason.empty()) {
      leftOut.push_back({candidates[number].program(), reason});
    } else {
      all.push_back(candidates[number]);
      request.programs.push_back(programs[number]);
    }
  if (!all.empty())
    compile(request);
}

} // namespace

std::string Candidate::program() const { return algorithm + suffixFor(schedule); }

bool hasCandidates(runtime::CollectiveKind collective, const runtime::Mesh &mesh) {
  return std::ranges::any_of(shippedAlgorithms(),
                             [&](const dsl::Definition &definition) { return isFor(definition, collective, mesh); });
}

Candidates compileCandidates(runtime::CollectiveKind collective, const runtime::Mesh &mesh,
                             const std::set<std::string> &only, const std::vector<std::string> &network) {
  std::vector<Candidate> all;
  std::vector<LeftOut> leftOut;
  CompileRequest request;
  request.network.dims = network;
  for (const dsl::Definition &definition : shippedAlgorithms())
    for (const Schedule &schedule : schedulesFor(collective, mesh, !network.empty())) {
      if (!isFor(definition, collective, mesh))
        continue;
      Candidate candidate{definition.name, schedule};
      if (!only.empty() && !only.contains(candidate.program()))
        continue;
      ProgramRequest program{definition, {mesh}, candidate.schedule};
      program.definition.name = candidate.program();
      if (collective == runtime::CollectiveKind::AllReduce)
        if (std::string reason = objectionTo(program, network); !reason.empty()) {
          leftOut.push_back({candidate.program(), reason});
          continue;
        }
      all.push_back(candidate);
      request.programs.push_back(std::move(program));
    }
  TemporaryFile file("so");
  request.output = file.path();
  if (!all.empty())
    compileWhatCompiles(request, all, leftOut);
  if (all.empty())
    throw ToolError(ExitCode::Usage, std::string("--mesh: no shipped algorithm does ") + runtime::toString(collective) +
                                         " on " + mesh.toString());
  auto plugin = runtime::Plugin::load(file.path());
  if (!plugin.isOk())
    throw ToolError(ExitCode::Failed, plugin.status().message());
  return {std::move(plugin).value(), std::move(all), std::move(leftOut)};
}

} // namespace kolo::tools
