#include "driver/Explore.h"
#include "driver/Assemble.h"
#include "driver/Coster.h"
#include "driver/Kinds.h"
#include "driver/LastBits.h"

#include "compiler/Pipeline.h"
#include "compiler/cost/ClosedForm.h"
#include "compiler/cost/Simulation.h"
#include "dsl/PrintSource.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

using namespace mlir;

namespace kolo::tools {

using cost::ClosedForm;
using cost::CostMistake;
using cost::PlacedMesh;
using cost::Placement;
using explore::Costs;

namespace {

/// The shipped algorithms on all meshes that they can have here.
std::vector<Contender> shippedContenders(const ExploreRequest &request) {
  std::vector<Contender> result;
  for (const dsl::Definition &definition : dsl::registeredChoreographies())
    for (const explore::MeshChoice &mesh : explore::meshesFor(request.machine, request.numNodes)) {
      std::vector<std::string> dims = mesh.dims;
      std::vector<int64_t> sizes = mesh.sizes;
      if (dims.size() + 1 == definition.mesh.dims.size() && request.numNodes == 1) { // a mesh names no dimension of one
        dims.insert(dims.begin(), "node");
        sizes.insert(sizes.begin(), 1);
      }
      bool isAlike = definition.mesh.dims == dims || (definition.mesh.dims.size() == 1 && dims.size() == 1);
      if (KoloCollective(int(kindOf(definition.collective))) == request.collective &&
          definition.collective.dims.empty() && isAlike && !usesCodecs(definition)) // nothing is rounded unasked
        result.push_back({Origin::Shipped, definition, "", {definition.mesh.dims, sizes}, mesh.placement, {}, {}});
    }
  return result;
}

class Explorer {
public:
  explicit Explorer(const ExploreRequest &request)
      : request(request), coster(request, schedulesToTry()), ringsCoster(request, {{}, {.protocol = Protocol::LL}}) {}

  Exploration run() {
    costShipped();
    costRings();
    searchSpace();
    if (result.numCandidates == 0)
      throw ToolError(ExitCode::Usage, std::string("no candidate does the collective on ") + request.machine.name());
    const Placement placement = std::get<Placement>(Placement::create(request.machine, allRanks()));
    const cost::LowerBounds bounds(request.machine, placement);
    for (int64_t bytes : request.sizes)
      result.sizes.push_back({bounds.of(request.collective, bytes), {}, {}, {}});
    findNear();
    refused.assign(result.contenders.size(), false);
    notSimulated.assign(result.contenders.size(), false);
    do {
      simulateNear();
      chooseProved();
    } while (widenNear());
    for (size_t size = 0; size < request.sizes.size(); ++size) {
      result.sizes[size].shipped = fastest(Origin::Shipped, size);
      result.sizes[size].rings = fastest(Origin::Rings, size);
    }
    return std::move(result);
  }

private:
  PlacedMesh allRanks() const { return {{"rank"}, {request.numNodes * request.machine.devicesPerNode()}}; }

  void add(const Contender &contender, const Costs &costs, const std::vector<Schedule> &schedules) {
    for (size_t schedule = 0; schedule < schedules.size(); ++schedule) {
      if (!costs.refusals[schedule].empty()) {
        ++result.leftOut[costs.refusals[schedule]];
        continue;
      }
      ++result.numCandidates;
      Contender &added = result.contenders.emplace_back(contender);
      added.schedule = schedules[schedule];
      added.seconds = costs.seconds[schedule];
    }
  }

  /// Every step of a ring takes the same time, so that more nodes take in proportion to the steps.
  void costRings() {
    bool hasRings = request.collective == KOLO_ALL_GATHER || request.collective == KOLO_REDUCE_SCATTER ||
                    request.collective == KOLO_ALL_REDUCE;
    std::vector<std::vector<int64_t>> rings = explore::findGraphs(request.machine).rings;
    if (!hasRings || rings.empty())
      return;
    explore::Structure structure =
        explore::ringsThroughNodes(request.collective, explore::turnedToNics(rings, request.machine),
                                   std::min(request.numNodes, mostSimulatedNodes));
    Contender contender{Origin::Rings, assemble(structure), structure.describe(), structure.mesh(), "", {}, {}};
    contender.definition.name = "ringsThroughNodes";
    PlacedMesh mesh = allRanks(), smaller = structure.mesh();
    contender.isScaled = mesh.numRanks() != smaller.numRanks();
    Costs costs = ringsCoster.cost(0, contender.definition, smaller, "", [&](int64_t bytes) {
      return shrinkBytes(bytes, request.collective, mesh, smaller);
    });
    double scale = double(mesh.numRanks() - 1) / double(smaller.numRanks() - 1);
    for (std::vector<double> &seconds : costs.seconds)
      for (double &time : seconds)
        time *= scale;
    add(contender, costs, ringsCoster.tried());
  }

  void costShipped() {
    std::vector<Contender> shipped = shippedContenders(request);
    std::vector<Costs> costs(shipped.size());
    explore::forEach(shipped.size(), request.search.numThreads, [&](unsigned thread, size_t i) {
      costs[i] = coster.cost(thread, shipped[i].definition, shipped[i].mesh, shipped[i].placement);
    });
    for (size_t i = 0; i < shipped.size(); ++i)
      add(shipped[i], costs[i], coster.tried());
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
    std::set<size_t> isNear;
    for (size_t size = 0; size < request.sizes.size(); ++size)
      for (const explore::Ranked &ranked : explore::rank(found, size, 2 * numNear()))
        isNear.insert(ranked.structure);
    for (size_t number : isNear) {
      const explore::Structure &structure = found.structures[number];
      for (size_t schedule = 0; schedule < coster.tried().size(); ++schedule)
        if (found.costs[number].refusals[schedule].empty())
          result.contenders.push_back({Origin::Explored, assemble(structure), structure.describe(), structure.mesh(),
                                       structure.placement, coster.tried()[schedule],
                                       found.costs[number].seconds[schedule]});
    }
  }

  size_t numWanted() const { return request.numRunnersUp + 1; }

  size_t numNear() const { return numWanted() + 1; } // structures of a size that are simulated

  std::optional<Choice> fastest(Origin origin, size_t size) const {
    std::optional<Choice> best;
    for (const Choice &choice : near[size])
      if (!refused[choice.contender] && result.contenders[choice.contender].origin == origin &&
          (!best || choice.seconds < best->seconds))
        best = choice;
    return best;
  }

  bool areOfOneStructure(const Contender &a, const Contender &b) const {
    return a.definition.name == b.definition.name && a.mesh.names == b.mesh.names && a.placement == b.placement;
  }

  /// The fastest of a kind at a size, in closed form: so many structures, each with the schedules that take at most
  /// twice as long as the best does with any.
  void addNear(size_t size, llvm::function_ref<bool(size_t contender)> isWanted, size_t numStructures) {
    std::vector<Choice> order;
    for (size_t i = 0; i < result.contenders.size(); ++i)
      if (isWanted(i))
        order.push_back({i, result.contenders[i].seconds[size]});
    std::ranges::sort(order, {}, [](const Choice &choice) { return std::pair(choice.seconds, choice.contender); });
    std::vector<size_t> structures; // by their best contender
    for (const Choice &choice : order) {
      if (choice.seconds > 2 * order.front().seconds)
        break;
      const Contender &contender = result.contenders[choice.contender];
      auto isOf = [&](size_t other) { return areOfOneStructure(result.contenders[other], contender); };
      if (std::ranges::none_of(structures, isOf)) {
        if (structures.size() == numStructures)
          continue;
        structures.push_back(choice.contender);
      }
      if (std::ranges::find(near[size], choice.contender, &Choice::contender) == near[size].end())
        near[size].push_back(choice);
    }
  }

  /// The fastest at a size that were not refused, one of each structure. Of equal times the shipped one is first.
  std::vector<Choice> ranking(size_t size) const {
    std::vector<Choice> order, best;
    for (const Choice &choice : near[size])
      if (!refused[choice.contender] && result.contenders[choice.contender].origin != Origin::Rings)
        order.push_back(choice);
    std::ranges::sort(order, {}, [](const Choice &choice) { return std::pair(choice.seconds, choice.contender); });
    for (const Choice &choice : order) {
      auto isAlike = [&](const Choice &other) {
        return other.seconds == choice.seconds ||
               areOfOneStructure(result.contenders[other.contender], result.contenders[choice.contender]);
      };
      if (best.size() < numWanted() && std::ranges::none_of(best, isAlike))
        best.push_back(choice);
    }
    return best;
  }

  /// All that are ranked at some size, in order of number.
  std::vector<size_t> chosen() const {
    std::set<size_t> numbers;
    for (const SizeResult &size : result.sizes)
      for (const Choice &choice : size.best)
        numbers.insert(choice.contender);
    return {numbers.begin(), numbers.end()};
  }

  /// Calls body(thread, i) for all contenders `numbers[i]`: for those of one structure on one thread, which remembers
  /// the synchronisation that it found for the first of them.
  void forEachStructure(const std::vector<size_t> &numbers, const std::function<void(unsigned, size_t)> &body) {
    std::vector<std::vector<size_t>> groups;
    for (size_t i = 0; i < numbers.size(); ++i) {
      auto isSame = [&](const std::vector<size_t> &group) {
        return areOfOneStructure(result.contenders[numbers[group.front()]], result.contenders[numbers[i]]);
      };
      auto group = std::ranges::find_if(groups, isSame);
      (group == groups.end() ? groups.emplace_back() : *group).push_back(i);
    }
    std::ranges::stable_sort(groups, std::greater(), &std::vector<size_t>::size);
    explore::forEach(groups.size(), request.search.numThreads, [&](unsigned thread, size_t number) {
      for (size_t i : groups[number])
        body(thread, i);
    });
  }

  /// Proves who is ranked, and ranks again without those that are refused, until all are proved.
  void chooseProved() {
    for (bool isFinal = false; !isFinal;) {
      for (size_t size = 0; size < request.sizes.size(); ++size)
        result.sizes[size].best = ranking(size);
      std::vector<size_t> open = chosen();
      std::erase_if(open, [&](size_t number) { return !result.contenders[number].provedOn.empty(); });
      isFinal = open.empty();
      std::vector<std::string> reasons(open.size());
      forEachStructure(open,
                       [&](unsigned thread, size_t i) { reasons[i] = prove(thread, result.contenders[open[i]]); });
      for (size_t i = 0; i < open.size(); ++i)
        if (!reasons[i].empty()) {
          refused[open[i]] = true;
          ++result.leftOut[reasons[i]];
        }
    }
  }

  void findNear() {
    near.resize(request.sizes.size());
    auto isOf = [&](Origin origin) {
      return [this, origin](size_t number) { return result.contenders[number].origin == origin; };
    };
    for (size_t size = 0; size < near.size(); ++size) {
      addNear(size, [&](size_t number) { return result.contenders[number].origin != Origin::Rings; }, numNear());
      addNear(size, isOf(Origin::Shipped), 1);
      addNear(size, isOf(Origin::Rings), 1);
    }
  }

  /// Lets those join who take less in closed form than the best does by simulation, and shipped ones that take less
  /// than the best of these: the next structures of a size, and their schedules. False if there are none.
  bool widenNear() {
    bool hasMore = false;
    for (size_t size = 0; size < near.size(); ++size) {
      const std::vector<Choice> &best = result.sizes[size].best;
      std::optional<Choice> shipped = fastest(Origin::Shipped, size);
      constexpr double any = std::numeric_limits<double>::infinity();
      double most = best.empty() ? any : best.front().seconds, mostOfShipped = shipped ? shipped->seconds : any;
      std::vector<bool> isNear(result.contenders.size());
      for (const Choice &choice : near[size])
        isNear[choice.contender] = true;
      size_t before = near[size].size();
      addNear(
          size,
          [&](size_t number) {
            const Contender &contender = result.contenders[number];
            return !isNear[number] && contender.origin != Origin::Rings &&
                   contender.seconds[size] < (contender.origin == Origin::Shipped ? mostOfShipped : most);
          },
          numNear());
      hasMore |= near[size].size() > before;
    }
    return hasMore;
  }

  /// Corrects the times of who is near the best at some size.
  void simulateNear() {
    result.simulatedNodes = std::min(request.numNodes, mostSimulatedNodes);
    std::set<size_t> all;
    for (const std::vector<Choice> &choices : near)
      for (const Choice &choice : choices)
        if (!choice.correction && !notSimulated[choice.contender])
          all.insert(choice.contender);
    std::vector<size_t> numbers(all.begin(), all.end());
    std::vector<std::string> reasons(numbers.size());
    forEachStructure(numbers, [&](unsigned thread, size_t i) { reasons[i] = simulate(thread, numbers[i]); });
    for (size_t i = 0; i < numbers.size(); ++i)
      if (!reasons[i].empty()) {
        notSimulated[numbers[i]] = true;
        ++result.notSimulated[reasons[i]];
      }
  }

  /// Why it is not simulated; empty: it is, at all sizes where it is near the best.
  std::string simulate(unsigned thread, size_t number) {
    const Contender &contender = result.contenders[number];
    Compiled compiled;
    // Without a proof: only those that are ranked are proved.
    if (std::string reason = compile(thread, contender, /*isProof=*/false, compiled); !reason.empty())
      return reason;
    PlacedMesh mesh = fewNodes(contender);
    auto placed = Placement::create(request.machine, mesh, contender.placement);
    if (auto *mistake = std::get_if<CostMistake>(&placed))
      return mistake->message;
    const Placement &placement = std::get<Placement>(placed);
    auto form = ClosedForm::create(*compiled.choreography->getOps<ChoreographyOp>().begin(),
                                   resolved(contender.schedule), request.machine, placement, request.rates, 0);
    auto simulation = cost::Simulation::create(*compiled.program->getOps<ProgramOp>().begin(), request.machine,
                                               placement, {.rates = request.rates});
    for (const CostMistake *mistake : {std::get_if<CostMistake>(&form), std::get_if<CostMistake>(&simulation)})
      if (mistake)
        return mistake->message;
    std::optional<ClosedForm> whole; // nothing: other nodes are not costed, but scaled
    if (!contender.isScaled)
      whole = std::get<ClosedForm>(ClosedForm::create(
          *compiled.choreography->getOps<ChoreographyOp>().begin(), resolved(contender.schedule), request.machine,
          std::get<Placement>(Placement::create(request.machine, contender.mesh, contender.placement)), request.rates,
          0));
    for (size_t size = 0; size < request.sizes.size(); ++size)
      for (Choice &choice : near[size])
        if (choice.contender == number && !choice.correction) {
          int64_t bytes = shrinkBytes(request.sizes[size], request.collective, allRanks(), mesh);
          auto outcome = std::get<cost::Simulation>(simulation).predict(bytes);
          if (auto *mistake = std::get_if<CostMistake>(&outcome))
            return mistake->message;
          choice.correction =
              std::get<cost::SimulationOutcome>(outcome).prediction.seconds / std::get<ClosedForm>(form).seconds(bytes);
          // What takes less on few nodes than the closed form says are moves inside a node, a smaller share on many.
          if (mesh.numRanks() != contender.mesh.numRanks())
            choice.correction = std::max(*choice.correction, 1.0);
          choice.seconds *= *choice.correction;
          if (whole)
            choice.seconds = std::max(choice.seconds, busySeconds(*whole, request.sizes[size]));
        }
    return "";
  }

  /// Of the resource that is busy for longest: no overlap makes a program faster. It may be another one on all nodes
  /// than on the few that are simulated.
  static double busySeconds(const ClosedForm &form, int64_t bytes) {
    cost::Prediction prediction = form.predict(bytes);
    double share = 0;
    for (const cost::ResourceLoad &load : prediction.loads)
      share = std::max(share, load.share);
    return share * prediction.seconds;
  }

  /// Why it is left out; empty: it is proved, and its ranks get the same bits of one result. What was simulated on few
  /// nodes is looked at on all of them. Where many nodes need more synchronisation, it is inferred for these.
  std::string prove(unsigned thread, Contender &contender) {
    Compiled compiled;
    std::string reason = compile(thread, contender, /*isProof=*/false, compiled);
    if (!reason.empty())
      return reason;
    ProgramOp few = *compiled.program->getOps<ProgramOp>().begin();
    setWholeMesh(few, contender);
    if (!coster.workshop(thread).run(*compiled.program, buildProof, {}).empty())
      reason = compile(thread, contender, /*isProof=*/true, compiled);
    if (!reason.empty())
      return reason;
    ProgramOp program = *compiled.program->getOps<ProgramOp>().begin();
    if (mayDifferInLastBits(program, fewNodes(contender).sizes))
      return differsInLastBits;
    contender.provedOn = meshOfProof(program);
    return "";
  }

  struct Compiled {
    OwningOpRef<ModuleOp> choreography, program;
  };

  PlacedMesh fewNodes(const Contender &contender) const {
    return shrink(contender.mesh, request.machine.devicesPerNode(), mostSimulatedNodes);
  }

  /// Why the compiler refuses it; empty: it does not. Of a proof, the program is that of all nodes; else of few.
  std::string compile(unsigned thread, const Contender &contender, bool isProof, Compiled &compiled) {
    std::string reason;
    Workshop &workshop = coster.workshop(thread);
    PipelineOptions options = {
        .schedule = resolved(contender.schedule), .check = isProof, .isChecked = true, .memory = workshop.memory()};
    compiled.program = workshop.emit(contender.definition, fewNodes(contender).sizes, reason);
    if (compiled.program)
      reason = workshop.run(*compiled.program, buildChoreographyPipeline, options);
    if (!reason.empty())
      return reason;
    compiled.choreography = compiled.program->clone();
    if (isProof) {
      // What these passes made holds for any number of nodes. The check that follows decides, on the whole mesh's kind.
      ChoreographyOp choreography = *compiled.program->getOps<ChoreographyOp>().begin();
      setWholeMesh(choreography, contender);
      choreography.removeCheckedAttr();
    }
    return workshop.run(*compiled.program, buildProgramPipeline, options);
  }

  template <typename Op> static void setWholeMesh(Op op, const Contender &contender) {
    Builder builder(op.getContext());
    op.setMeshesAttr(builder.getArrayAttr(builder.getDenseI64ArrayAttr(contender.mesh.sizes)));
  }

  static std::string meshOfProof(ProgramOp program) {
    auto proof = cast<ProofAttr>((*program.getProved())[0]);
    std::string text;
    for (auto [name, size] : llvm::zip(program.getMesh().getAsValueRange<StringAttr>(), proof.getOn()))
      text += (text.empty() ? "" : ",") + name.str() + "=" + std::to_string(size);
    return text;
  }

  const ExploreRequest &request;
  Coster coster, ringsCoster;
  Exploration result;
  std::vector<std::vector<Choice>> near;   // by size: who is simulated
  std::vector<bool> refused, notSimulated; // by contender
};

} // namespace

Exploration explore(const ExploreRequest &request) { return Explorer(request).run(); }

std::string sourceOf(const Contender &contender, const std::string &comment) {
  return dsl::printSource(*dsl::record(contender.definition), comment).text;
}

std::vector<cost::Prediction> predict(const Contender &contender, const ExploreRequest &request) {
  std::vector<cost::Prediction> predictions(request.sizes.size());
  for (size_t size = 0; size < predictions.size(); ++size) {
    predictions[size].bytes = request.sizes[size];
    predictions[size].seconds = contender.seconds[size];
  }
  if (contender.isScaled)
    return predictions;
  Workshop workshop;
  std::string reason;
  PlacedMesh emitted = shrink(contender.mesh, request.machine.devicesPerNode(), mostSimulatedNodes);
  OwningOpRef<ModuleOp> module = workshop.emit(contender.definition, emitted.sizes, reason);
  if (module)
    reason = workshop.run(*module, buildChoreographyPipeline, {.schedule = resolved(contender.schedule)});
  if (!reason.empty())
    throw ToolError(ExitCode::Failed, contender.definition.name + ": " + reason);
  const Placement placement =
      std::get<Placement>(Placement::create(request.machine, contender.mesh, contender.placement));
  auto form = ClosedForm::create(*module->getOps<ChoreographyOp>().begin(), resolved(contender.schedule),
                                 request.machine, placement, request.rates, 0);
  for (cost::Prediction &prediction : predictions)
    prediction = std::get<ClosedForm>(form).predict(prediction.bytes);
  return predictions;
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
