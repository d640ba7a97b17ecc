#include "tools/explore/Coster.h"

#include "compiler/Passes.h"
#include "compiler/Pipeline.h"
#include "compiler/cost/closedform/ClosedForm.h"
#include "compiler/model/BlockCounts.h"
#include "dsl/EmitChoreography.h"
#include "dsl/PrintSource.h"
#include "ir/BlockTables.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <limits>

using namespace mlir;

namespace kolo::tools {

using cost::ClosedForm;
using cost::CostMistake;
using cost::PlacedMesh;
using cost::Placement;
using explore::Costs;

std::vector<Schedule> schedulesToTry() {
  std::vector<Schedule> schedules;
  for (int64_t depth : {1, 2, 4, 8, 16, 32, 64})
    schedules.push_back({.pipelineDepth = depth});
  schedules.push_back({.transfers = Transfers::Pull});
  schedules.push_back({.protocol = Protocol::LL});
  schedules.push_back({.protocol = Protocol::LL128});
  return schedules;
}

static bool isOfNode(const std::string &dim) { return dim == "gpu" || dim == "module" || dim == "die"; }

PlacedMesh shrink(PlacedMesh mesh, int64_t devicesPerNode, int64_t mostNodes) {
  int64_t numNodeDims = std::ranges::count_if(mesh.names, [](const std::string &name) { return !isOfNode(name); });
  int64_t most = numNodeDims > 1 ? 2 : mostNodes;
  for (size_t i = 0; i < mesh.names.size(); ++i) {
    int64_t unit = mesh.names[i] == "rank" ? devicesPerNode : 1, nodes = mesh.sizes[i] / unit;
    if (!isOfNode(mesh.names[i]) && nodes > most)
      mesh.sizes[i] = unit * (llvm::isPowerOf2_64(uint64_t(nodes)) || most < 4 ? most : most - 1);
  }
  return mesh;
}

std::vector<std::string> networkDimsOf(const PlacedMesh &mesh) {
  std::vector<std::string> dims = mesh.names;
  std::erase_if(dims, isOfNode);
  return dims;
}

int64_t shrinkBytes(int64_t bytes, KoloCollective collective, const PlacedMesh &from, const PlacedMesh &to) {
  if (collective == KOLO_BROADCAST || collective == KOLO_REDUCE || collective == KOLO_SCAN || collective == KOLO_EXSCAN)
    return bytes;
  return std::max<int64_t>(1, int64_t(double(bytes) * double(to.numRanks()) / double(from.numRanks())));
}

ResolvedSchedule resolved(const Schedule &schedule) {
  auto result = resolve(schedule, {});
  assert(std::holds_alternative<ResolvedSchedule>(result) && "every schedule to try is one that compiles");
  return std::get<ResolvedSchedule>(result);
}

OwningOpRef<ModuleOp> Workshop::emit(const dsl::Definition &definition, const PlacedMesh &mesh, std::string &reason) {
  renew();
  std::unique_ptr<dsl::Recording> recording = dsl::record(definition);
  if (!recording->diagnostics.empty()) {
    reason = recording->diagnostics.front().message;
    return nullptr;
  }
  if (const dsl::Requirement *unmet = dsl::findUnmet(*recording, mesh.sizes)) {
    reason = "needs " + unmet->what;
    return nullptr;
  }
  OwningOpRef<ModuleOp> module = dsl::emitChoreography(*context, *recording, {mesh.sizes});
  if (network)
    markNetwork(*module, {networkDimsOf(mesh), *network});
  placeOnLines(*module, definition.name + ".cpp", dsl::printSource(*recording, "").lines);
  auto check = [](OpPassManager &manager, const PipelineOptions &) {
    manager.nest<ChoreographyOp>().addPass(createCheckChoreography());
  };
  reason = run(*module, check, {});
  return reason.empty() ? std::move(module) : nullptr;
}

OwningOpRef<ModuleOp> Workshop::parse(const std::string &text) {
  if (!context)
    renew();
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, ParserConfig(context.get(), /*verifyAfterParse=*/false));
  assert(module && "what was printed can be parsed");
  return module;
}

std::optional<ScratchNeed> Workshop::scratchNeedOf(ChoreographyOp choreography, const std::vector<int64_t> &sizes,
                                                   std::string &reason) {
  ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
    reason = diagnostic.str();
    return success();
  });
  FailureOr<ScratchNeed> need = ScratchNeed::of(choreography, sizes);
  if (failed(need))
    return std::nullopt;
  ScratchNeed found = std::move(*need);
  return found;
}

std::string Workshop::run(ModuleOp module, void (*build)(OpPassManager &, const PipelineOptions &),
                          const PipelineOptions &options) {
  std::string reason;
  ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
    if (reason.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
      reason = diagnostic.str();
    return success();
  });
  PassManager manager(context.get(), ModuleOp::getOperationName());
  manager.enableVerifier(false);
  build(manager, options);
  if (failed(manager.run(module)) && reason.empty())
    reason = "the compiler refuses it";
  return reason;
}

/// A context keeps every attribute that was ever made in it.
void Workshop::renew() {
  constexpr int mostUses = 200;
  if (context && ++numUses < mostUses)
    return;
  numUses = 0;
  context = std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED);
  context->printOpOnDiagnostic(false);
  context->loadDialect<KoloDialect, arith::ArithDialect, math::MathDialect, scf::SCFDialect>();
}

void Workshop::placeOnLines(ModuleOp module, const std::string &file, const std::vector<unsigned> &lines) {
  size_t statement = 0;
  StringAttr name = StringAttr::get(context.get(), file);
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<CopyOp, ReduceOp, TransferOp>(op))
      op->setLoc(FileLineColLoc::get(name, lines[statement++], 1));
  });
}

/// Whether both are the same choreography still after the passes on it.
static bool areAlike(const Schedule &a, const Schedule &b) {
  return a.protocol == b.protocol && a.transfers == b.transfers;
}

std::vector<Workshop> Coster::makeWorkshops(const ExploreRequest &request) {
  std::vector<Workshop> all;
  for (unsigned thread = 0; thread < request.search.numThreads; ++thread)
    all.emplace_back(request);
  return all;
}

Costs Coster::cost(unsigned thread, const dsl::Definition &definition, const PlacedMesh &mesh,
                   const std::string &placement, const std::function<int64_t(int64_t)> &bytesFor) {
  Costs costs{std::vector<std::vector<double>>(schedules.size()), std::vector<std::string>(schedules.size())};
  auto placed = Placement::create(request.machine, mesh, placement);
  std::string reason;
  if (auto *mistake = std::get_if<CostMistake>(&placed))
    reason = mistake->message;
  OwningOpRef<ModuleOp> module;
  // The passes take longer the more ranks there are; what they make is the same for any number of nodes.
  if (reason.empty())
    module =
        workshops[thread].emit(definition, shrink(mesh, request.machine.devicesPerNode(), mostSimulatedNodes), reason);
  if (!module) {
    costs.refusals.assign(schedules.size(), reason);
    return costs;
  }
  for (size_t first = 0; first < schedules.size();) {
    size_t last = first + 1;
    while (last < schedules.size() && areAlike(schedules[first], schedules[last]))
      ++last;
    costGroup(workshops[thread], *module, std::get<Placement>(placed), first, last, bytesFor, costs);
    first = last;
  }
  return costs;
}

void Coster::costGroup(Workshop &workshop, ModuleOp module, const Placement &placement, size_t first, size_t last,
                       const std::function<int64_t(int64_t)> &bytesFor, Costs &costs) {
  OwningOpRef<ModuleOp> copy = module.clone();
  std::string reason =
      workshop.run(*copy, buildChoreographyPipeline, {.schedule = resolved(schedules[first]), .isChecked = true});
  std::fill(costs.refusals.begin() + int64_t(first), costs.refusals.begin() + int64_t(last), reason);
  std::optional<std::variant<ClosedForm, CostMistake>> form;
  for (size_t i = first; i < last && reason.empty(); ++i) {
    int64_t depth = schedules[i].pipelineDepth;
    if (i > first && depth > 1 && schedules[i - 1].pipelineDepth > 1) {
      if (auto *pipeline = std::get_if<ClosedForm>(&*form))
        pipeline->setPipelineDepth(depth);
    } else {
      form = ClosedForm::create(*copy->getOps<ChoreographyOp>().begin(), resolved(schedules[i]), request.machine,
                                placement, request.rates, request.mostLanes);
    }
    if (auto *mistake = std::get_if<CostMistake>(&*form)) {
      costs.refusals[i] = mistake->message;
      continue;
    }
    for (int64_t bytes : request.sizes)
      costs.seconds[i].push_back(std::get<ClosedForm>(*form).seconds(bytesFor(bytes)));
    if (mostScratchBytes)
      limitScratch(workshop, *copy->getOps<ChoreographyOp>().begin(), placement.mesh(), i, costs);
  }
}

/// Of the longest block.
static double blockBytes(const ExploreRequest &request, int64_t bytes, int64_t numRanks) {
  const KoloCollective collective = request.collective;
  if (request.counts)
    if (auto counts = BlockCounts::create(*request.counts, CollectiveKind(int(collective)), numRanks, bytes);
        auto *made = std::get_if<BlockCounts>(&counts))
      return double(made->longest());
  return double(bytes) / (mayHaveBlockTables(CollectiveKind(int(collective))) ? double(numRanks) : 1);
}

/// At sizes at which there is too little scratch memory, the program takes for ever; if at all, it is refused.
void Coster::limitScratch(Workshop &workshop, ChoreographyOp choreography, const PlacedMesh &mesh, size_t schedule,
                          Costs &costs) const {
  std::string reason;
  std::optional<ScratchNeed> need = workshop.scratchNeedOf(choreography, mesh.sizes, reason);
  bool fits = false;
  for (size_t size = 0; size < request.sizes.size() && need; ++size) {
    double bytes = need->bytes(blockBytes(request, request.sizes[size], mesh.numRanks()));
    if (bytes > double(*mostScratchBytes))
      costs.seconds[schedule][size] = std::numeric_limits<double>::infinity();
    else
      fits = true;
  }
  if (fits)
    return;
  costs.seconds[schedule].clear();
  costs.refusals[schedule] = need ? "takes more scratch memory at every size than is allowed" : reason;
}

} // namespace kolo::tools
