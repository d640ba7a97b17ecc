#include "driver/Candidates.h"
#include "driver/Kinds.h"
#include "driver/Schedules.h"
#include "driver/TemporaryFile.h"

#include "mlir/IR/BuiltinOps.h"

namespace kolo::tools {

namespace {

bool isFor(const dsl::Definition &definition, runtime::CollectiveKind collective, const runtime::Mesh &mesh) {
  return kindOf(definition.collective) == collective && definition.collective.dims.empty() && mesh.dims().size() == 1 &&
         definition.mesh.dims == std::vector{mesh.dims().front().name} &&
         !usesCodecs(definition); // nothing is rounded unasked
}

/// Each of its ranks sums in another order, so that the ranks' results may differ in the last bits. With two ranks both
/// orders give the same bits.
bool sumsInManyOrders(const dsl::Definition &definition, const runtime::Mesh &mesh) {
  return definition.name == "oneShotAllReduce" && mesh.numRanks() > 2;
}

/// What the compiler has against a candidate, without its place; empty if nothing.
std::string refusalOf(const ProgramRequest &program) {
  CompileRequest request{{program.definition}, program.meshes, ""};
  request.schedule = program.schedule;
  try {
    compileToChannel(request, [](mlir::ModuleOp) {});
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

} // namespace

std::string Candidate::program() const { return algorithm + suffixFor(schedule); }

Candidates compileCandidates(runtime::CollectiveKind collective, const runtime::Mesh &mesh) {
  std::vector<Candidate> all;
  std::vector<LeftOut> leftOut;
  CompileRequest request;
  for (const dsl::Definition &definition : dsl::registeredChoreographies())
    for (Protocol protocol : {Protocol::Bulk, Protocol::Published}) {
      if (!isFor(definition, collective, mesh))
        continue;
      Candidate candidate{definition.name, {.protocol = protocol}};
      if (sumsInManyOrders(definition, mesh)) {
        leftOut.push_back({candidate.program(), "its ranks may get different last bits"});
        continue;
      }
      ProgramRequest program{definition, {mesh}, candidate.schedule};
      program.definition.name = candidate.program();
      if (std::string reason = refusalOf(program); !reason.empty()) {
        leftOut.push_back({candidate.program(), reason});
        continue;
      }
      all.push_back(candidate);
      request.programs.push_back(std::move(program));
    }
  if (all.empty())
    throw ToolError(ExitCode::Usage, std::string("--mesh: no shipped algorithm does ") + runtime::toString(collective) +
                                         " on " + mesh.toString());
  TemporaryFile file("so");
  request.output = file.path();
  compile(request);
  auto plugin = runtime::Plugin::load(file.path());
  if (!plugin.isOk())
    throw ToolError(ExitCode::Failed, plugin.status().message());
  return {std::move(plugin).value(), std::move(all), std::move(leftOut)};
}

} // namespace kolo::tools
