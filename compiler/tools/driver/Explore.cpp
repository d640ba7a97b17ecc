#include "driver/Explore.h"
#include "driver/Assemble.h"
#include "driver/Kinds.h"

#include "compiler/Pipeline.h"
#include "compiler/cost/ClosedForm.h"
#include "dsl/EmitChoreography.h"
#include "dsl/PrintSource.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <mutex>

using namespace mlir;

namespace kolo::tools {

using cost::ClosedForm;
using cost::CostMistake;
using cost::PlacedMesh;
using cost::Placement;
using explore::Costs;

namespace {

/// What every structure is tried with. Those that the choreography pipeline treats alike follow each other.
std::vector<Schedule> schedulesToTry() {
  std::vector<Schedule> schedules;
  for (int64_t depth : {1, 2, 4, 8, 16, 32, 64})
    schedules.push_back({.pipelineDepth = depth});
  schedules.push_back({.transfers = Transfers::Pull});
  schedules.push_back({.protocol = Protocol::LL});
  schedules.push_back({.protocol = Protocol::LL128});
  return schedules;
}

ResolvedSchedule resolved(const Schedule &schedule) {
  auto result = resolve(schedule, {});
  assert(std::holds_alternative<ResolvedSchedule>(result) && "every schedule to try is one that compiles");
  return std::get<ResolvedSchedule>(result);
}

/// What one thread works with.
class Workshop {
public:
  /// The choreography, its statements at their lines of the printed source; null with the reason when it is mistaken.
  OwningOpRef<ModuleOp> emit(const dsl::Definition &definition, const std::vector<int64_t> &sizes,
                             std::string &reason) {
    renew();
    std::unique_ptr<dsl::Recording> recording = dsl::record(definition);
    if (!recording->diagnostics.empty()) {
      reason = recording->diagnostics.front().message;
      return nullptr;
    }
    OwningOpRef<ModuleOp> module = dsl::emitChoreography(*context, *recording, {sizes});
    placeOnLines(*module, definition.name + ".cpp", dsl::printSource(*recording, "").lines);
    return module;
  }

  /// Runs a pipeline; gives the first error, empty where there is none.
  std::string run(ModuleOp module, void (*build)(OpPassManager &, const PipelineOptions &), const Schedule &schedule) {
    std::string reason;
    ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
      if (reason.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
        reason = diagnostic.str();
      return success();
    });
    PassManager manager(context.get(), ModuleOp::getOperationName());
    manager.enableVerifier(false);
    build(manager, {.schedule = resolved(schedule)});
    if (failed(manager.run(module)) && reason.empty())
      reason = "the compiler refuses it";
    return reason;
  }

private:
  /// A context keeps every attribute that was ever made in it.
  void renew() {
    constexpr int mostUses = 200;
    if (context && ++numUses < mostUses)
      return;
    numUses = 0;
    context = std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED);
    context->printOpOnDiagnostic(false);
    context->loadDialect<KoloDialect, arith::ArithDialect, math::MathDialect, scf::SCFDialect>();
  }

  void placeOnLines(ModuleOp module, const std::string &file, const std::vector<unsigned> &lines) {
    size_t statement = 0;
    StringAttr name = StringAttr::get(context.get(), file);
    module.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<CopyOp, ReduceOp, TransferOp>(op))
        op->setLoc(FileLineColLoc::get(name, lines[statement++], 1));
    });
  }

  std::unique_ptr<MLIRContext> context;
  int numUses = 0;
};

/// Costs choreographies in closed form, on several threads.
class Coster {
public:
  Coster(const ExploreRequest &request, std::vector<Schedule> schedules)
      : request(request), schedules(std::move(schedules)), workshops(request.search.numThreads) {}

  const std::vector<Schedule> &tried() const { return schedules; }
  Workshop &workshop(unsigned thread) { return workshops[thread]; }

  Costs cost(unsigned thread, const dsl::Definition &definition, const PlacedMesh &mesh, const std::string &placement) {
    Costs costs{std::vector<std::vector<double>>(schedules.size()), std::vector<std::string>(schedules.size())};
    auto placed = Placement::create(request.machine, mesh, placement);
    std::string reason;
    if (auto *mistake = std::get_if<CostMistake>(&placed))
      reason = mistake->message;
    OwningOpRef<ModuleOp> module;
    if (reason.empty())
      module = workshops[thread].emit(definition, mesh.sizes, reason);
    if (!module) {
      costs.refusals.assign(schedules.size(), reason);
      return costs;
    }
    for (size_t first = 0; first < schedules.size();) {
      size_t last = first + 1;
      while (last < schedules.size() && areAlike(schedules[first], schedules[last]))
        ++last;
      costGroup(workshops[thread], *module, std::get<Placement>(placed), first, last, costs);
      first = last;
    }
    return costs;
  }

private:
  /// Whether both are the same choreography still after the passes on it.
  static bool areAlike(const Schedule &a, const Schedule &b) {
    return a.protocol == b.protocol && a.transfers == b.transfers;
  }

  void costGroup(Workshop &workshop, ModuleOp module, const Placement &placement, size_t first, size_t last,
                 Costs &costs) {
    OwningOpRef<ModuleOp> copy = module.clone();
    std::string reason = workshop.run(*copy, buildChoreographyPipeline, schedules[first]);
    for (size_t i = first; i < last; ++i) {
      costs.refusals[i] = reason;
      if (!reason.empty())
        continue;
      auto form = ClosedForm::create(*copy->getOps<ChoreographyOp>().begin(), resolved(schedules[i]), request.machine,
                                     placement, request.rates, 0);
      if (auto *mistake = std::get_if<CostMistake>(&form)) {
        costs.refusals[i] = mistake->message;
        continue;
      }
      for (int64_t bytes : request.sizes)
        costs.seconds[i].push_back(std::get<ClosedForm>(form).seconds(bytes));
    }
  }

  const ExploreRequest &request;
  std::vector<Schedule> schedules;
  std::vector<Workshop> workshops;
};

/// The shipped algorithms on all meshes that they can have here.
std::vector<Contender> shippedContenders(const ExploreRequest &request) {
  std::vector<Contender> result;
  for (const dsl::Definition &definition : dsl::registeredChoreographies())
    for (const explore::MeshChoice &mesh : explore::meshesFor(request.machine, request.numNodes)) {
      bool isAlike = definition.mesh.dims == mesh.dims || (definition.mesh.dims.size() == 1 && mesh.dims.size() == 1);
      if (KoloCollective(int(kindOf(definition.collective))) == request.collective &&
          definition.collective.dims.empty() && isAlike)
        result.push_back({Origin::Shipped, definition, "", {definition.mesh.dims, mesh.sizes}, mesh.placement, {}, {}});
    }
  return result;
}

class Explorer {
public:
  explicit Explorer(const ExploreRequest &request) : request(request), coster(request, schedulesToTry()) {}

  Exploration run() {
    costShipped();
    searchSpace();
    if (result.numCandidates == 0)
      throw ToolError(ExitCode::Usage, std::string("no candidate does the collective on ") + request.machine.name());
    for (size_t size = 0; size < request.sizes.size(); ++size)
      result.sizes.push_back({boundAt(size), {}, fastest(Origin::Shipped, size), std::nullopt});
    chooseProved();
    return std::move(result);
  }

private:
  cost::LowerBound boundAt(size_t size) const {
    PlacedMesh all{{"rank"}, {request.numNodes * request.machine.devicesPerNode()}};
    auto placement = Placement::create(request.machine, all);
    return cost::lowerBound(request.machine, std::get<Placement>(placement), request.collective, request.sizes[size]);
  }

  void costShipped() {
    std::vector<Contender> shipped = shippedContenders(request);
    std::vector<Costs> costs(shipped.size());
    explore::forEach(shipped.size(), request.search.numThreads, [&](unsigned thread, size_t i) {
      costs[i] = coster.cost(thread, shipped[i].definition, shipped[i].mesh, shipped[i].placement);
    });
    for (size_t i = 0; i < shipped.size(); ++i)
      for (size_t schedule = 0; schedule < coster.tried().size(); ++schedule) {
        if (!costs[i].refusals[schedule].empty()) {
          ++result.leftOut[costs[i].refusals[schedule]];
          continue;
        }
        ++result.numCandidates;
        Contender &contender = result.contenders.emplace_back(shipped[i]);
        contender.schedule = coster.tried()[schedule];
        contender.seconds = costs[i].seconds[schedule];
      }
  }

  /// Adds whoever may be among the best of some size, with some to spare for those that are refused.
  void searchSpace() {
    explore::Space space = explore::enumerate(request.machine, request.numNodes, request.collective);
    auto found = explore::search(space, request.search, [this](unsigned thread, const explore::Structure &structure) {
      return coster.cost(thread, assemble(structure), structure.mesh(), structure.placement);
    });
    result.numCandidates += found.numCandidates;
    result.numStructures = found.structures.size();
    result.numInSpace = found.numInSpace;
    for (const auto &[reason, count] : found.leftOut)
      result.leftOut[reason] += count;
    std::map<std::pair<size_t, size_t>, bool> isKnown;
    for (size_t size = 0; size < request.sizes.size(); ++size)
      for (const explore::Ranked &ranked : explore::rank(found, size, 2 * numWanted())) {
        if (std::exchange(isKnown[{ranked.structure, ranked.schedule}], true))
          continue;
        const explore::Structure &structure = found.structures[ranked.structure];
        result.contenders.push_back({Origin::Explored, assemble(structure), structure.describe(), structure.mesh(),
                                     structure.placement, coster.tried()[ranked.schedule],
                                     found.costs[ranked.structure].seconds[ranked.schedule]});
      }
  }

  size_t numWanted() const { return request.numRunnersUp + 1; }

  std::optional<size_t> fastest(Origin origin, size_t size) const {
    std::optional<size_t> best;
    for (size_t i = 0; i < result.contenders.size(); ++i)
      if (result.contenders[i].origin == origin &&
          (!best || result.contenders[i].seconds[size] < result.contenders[*best].seconds[size]))
        best = i;
    return best;
  }

  /// The fastest at a size that were not refused, one for each time. Of equal times the shipped one is first.
  std::vector<size_t> ranking(size_t size) const {
    std::vector<size_t> order;
    for (size_t i = 0; i < result.contenders.size(); ++i)
      if (!refused[i] && result.contenders[i].origin != Origin::Rings)
        order.push_back(i);
    auto secondsOf = [&](size_t i) { return result.contenders[i].seconds[size]; };
    std::ranges::sort(order, {}, [&](size_t i) { return std::pair(secondsOf(i), i); });
    order.erase(std::ranges::unique(order, {}, secondsOf).begin(), order.end());
    order.resize(std::min(order.size(), numWanted()));
    return order;
  }

  /// Proves who is ranked, and ranks again without those that are refused, until all are proved.
  void chooseProved() {
    refused.assign(result.contenders.size(), false);
    for (bool isFinal = false; !isFinal;) {
      std::vector<size_t> open;
      for (size_t size = 0; size < request.sizes.size(); ++size) {
        result.sizes[size].best = ranking(size);
        for (size_t i : result.sizes[size].best)
          if (result.contenders[i].provedOn.empty() && std::ranges::find(open, i) == open.end())
            open.push_back(i);
      }
      isFinal = open.empty();
      std::vector<std::string> reasons(open.size());
      explore::forEach(open.size(), request.search.numThreads,
                       [&](unsigned thread, size_t i) { reasons[i] = prove(thread, result.contenders[open[i]]); });
      for (size_t i = 0; i < open.size(); ++i)
        if (!reasons[i].empty()) {
          refused[open[i]] = true;
          ++result.leftOut[reasons[i]];
        }
    }
  }

  /// Why the checker refuses it; empty: it is proved.
  std::string prove(unsigned thread, Contender &contender) {
    std::string reason;
    Workshop &workshop = coster.workshop(thread);
    OwningOpRef<ModuleOp> module = workshop.emit(contender.definition, contender.mesh.sizes, reason);
    if (module)
      reason = workshop.run(*module, buildChannelPipeline, contender.schedule);
    if (reason.empty())
      contender.provedOn = meshOfProof(*module->getOps<ProgramOp>().begin());
    return reason;
  }

  static std::string meshOfProof(ProgramOp program) {
    auto proof = cast<ProofAttr>((*program.getProved())[0]);
    std::string text;
    for (auto [name, size] : llvm::zip(program.getMesh().getAsValueRange<StringAttr>(), proof.getOn()))
      text += (text.empty() ? "" : ",") + name.str() + "=" + std::to_string(size);
    return text;
  }

  const ExploreRequest &request;
  Coster coster;
  Exploration result;
  std::vector<bool> refused; // by contender
};

} // namespace

Exploration explore(const ExploreRequest &request) { return Explorer(request).run(); }

std::string sourceOf(const Contender &contender, const std::string &comment) {
  return dsl::printSource(*dsl::record(contender.definition), comment).text;
}

cost::Prediction predict(const Contender &contender, const ExploreRequest &request, int64_t bytes) {
  Workshop workshop;
  std::string reason;
  OwningOpRef<ModuleOp> module = workshop.emit(contender.definition, contender.mesh.sizes, reason);
  if (module)
    reason = workshop.run(*module, buildChoreographyPipeline, contender.schedule);
  auto placement = Placement::create(request.machine, contender.mesh, contender.placement);
  if (!reason.empty())
    throw ToolError(ExitCode::Failed, contender.definition.name + ": " + reason);
  auto form = ClosedForm::create(*module->getOps<ChoreographyOp>().begin(), resolved(contender.schedule),
                                 request.machine, std::get<Placement>(placement), request.rates, 0);
  return std::get<ClosedForm>(form).predict(bytes);
}

runtime::Mesh toMesh(const PlacedMesh &mesh) {
  std::vector<runtime::MeshDim> dims;
  for (size_t i = 0; i < mesh.names.size(); ++i)
    dims.push_back({mesh.names[i], mesh.sizes[i]});
  auto result = runtime::Mesh::create(std::move(dims));
  if (!result.isOk())
    throw ToolError(ExitCode::Usage, result.status().message());
  return std::move(result).value();
}

} // namespace kolo::tools
