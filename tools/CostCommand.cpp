// kolo cost: what algorithms cost on a machine, in closed form.
#include "tools/CommandLine.h"
#include "tools/Commands.h"
#include "tools/CostReport.h"
#include "tools/compile/Kinds.h"

#include "compiler/cost/closedform/ClosedForm.h"
#include "compiler/model/BlockCounts.h"
#include "ir/Kolo.h"

#include "mlir/IR/BuiltinOps.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace kolo::tools {

namespace {

struct CostCommand {
  CostOptions options;
  CostedPrograms programs;
  CountsOption counts;
  ReportOutput output;

  void run();

private:
  void checkCounts(ProgramOp program, const cost::Placement &placement) const;
  CostedSchedule costOf(CompileRequest request, const cost::Machine &machine) const;
};

/// The closed form is of equal blocks: it takes counts that give these, of programs that take block tables. Throws
/// ToolError (Usage).
void CostCommand::checkCounts(ProgramOp program, const cost::Placement &placement) const {
  const std::optional<BlockLaw> law = counts.law();
  if (!law)
    return;
  checkTakesTables(program, placement.mesh());
  const CollectiveAttr collective = program.getCollective();
  int64_t groupSize = 1;
  for (int64_t dim : collective.getGroupDims())
    groupSize *= placement.mesh().sizes[size_t(dim)];
  for (int64_t bytes : options.sizes()) {
    auto made = BlockCounts::create(*law, collective.getKind(), groupSize, bytes);
    if (auto *mistake = std::get_if<std::string>(&made))
      throw ToolError(ExitCode::Usage, "--counts: " + *mistake);
    const auto &blocks = std::get<BlockCounts>(made);
    if (blocks.shortest() != blocks.longest())
      throw ToolError(ExitCode::Usage,
                      fmt::format("--counts: the closed form is of equal blocks, and of {} bytes these "
                                  "have {} to {}; kolo simulate --counts follows each of them",
                                  bytes, blocks.shortest(), blocks.longest()));
  }
}

CostedSchedule CostCommand::costOf(CompileRequest request, const cost::Machine &machine) const {
  PlacedRequest placed(std::move(request), options, machine);
  compileForCosts(placed.request, placed.runners,
                  [&](mlir::ModuleOp choreographies, mlir::ModuleOp channel, const ResolvedSchedule &schedule) {
                    checkCounts(*channel.getOps<ProgramOp>().begin(), placed.placement);
                    cost::ProgramFacts facts = cost::ProgramFacts::of(*channel.getOps<ProgramOp>().begin());
                    auto cost = orThrow(cost::ClosedForm::create(
                        *choreographies.getOps<ChoreographyOp>().begin(), schedule, machine, placed.placement,
                        options.parsedRates(), programs.lanes, &facts, programs.elementBytes()));
                    placed.keepBounds(!findCoded(choreographies));
                    for (int64_t bytes : options.sizes())
                      placed.add(bytes, cost.predict(bytes));
                  });
  return std::move(placed.schedule);
}

void CostCommand::run() {
  runtime::Mesh mesh = options.parsedMesh();
  cost::Machine machine = options.readMachine();
  (void)options.sizes(); // mistakes first
  (void)counts.law();
  output.check(options);
  std::vector<CompileRequest> requests = programs.makeRequests(mesh);
  for (const CompileRequest &request : requests)
    if (!request.irPath.empty())
      throw ToolError(ExitCode::Usage,
                      request.irPath + " has no statements to cost in closed form; kolo simulate follows its steps");
  CostReport report = startReport(options, machine, requests, "closed form");
  for (const CompileRequest &request : requests)
    report.schedules.push_back(costOf(request, machine));
  output.write(report, options, machine, nlohmann::ordered_json::array());
}

} // namespace

void addCostCommand(CLI::App &app) {
  CLI::App *command = addCommand(app, "cost", "predicts what algorithms cost on a machine, in closed form");
  auto cost = std::make_shared<CostCommand>();
  cost->programs.addTo(*command);
  cost->options.addTo(*command);
  cost->counts.addTo(*command);
  cost->output.addTo(*command);
  command->footer(
      "The closed form is of equal blocks. Where --counts gives others, kolo simulate --counts follows them.");
  command->callback([cost] { cost->run(); });
}

} // namespace kolo::tools
