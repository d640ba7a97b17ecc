#include "tools/explore/Explore.h"
#include "tools/compile/Kinds.h"
#include "tools/explore/Assemble.h"
#include "tools/explore/CandidateTimes.h"
#include "tools/explore/StableSort.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <set>

namespace kolo::tools {

using cost::PlacedMesh;
using cost::Placement;
using explore::Costs;

namespace {

/// The shipped algorithms on all meshes that they can have here.
std::vector<PlacedCandidate> shippedCandidates(const ExploreRequest &request) {
  std::vector<PlacedCandidate> result;
  for (const dsl::Definition &definition : shippedAlgorithms())
    for (const explore::FittingMesh &mesh : explore::meshesFor(request.machine, request.numNodes)) {
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
      : request(request), coster(request, schedulesToTry(), request.mostScratchBytes),
        ringsCoster(request, {{}, {.protocol = Protocol::LL}}), programs(request, coster), times(request, programs) {}

  Exploration run() {
    costShipped();
    costRings();
    searchSpace();
    if (result.numCandidates == 0)
      throw ToolError(ExitCode::Usage, std::string("no candidate does the collective on ") + request.machine.name());
    const Placement placement = std::get<Placement>(Placement::create(request.machine, allRanks(request)));
    const cost::LowerBounds bounds(request.machine, placement);
    for (int64_t bytes : request.sizes)
      result.sizes.push_back(
          {request.counts ? std::nullopt : std::optional(bounds.of(request.collective, bytes)), {}, {}, {}});
    refused.assign(result.candidates.size(), false);
    notSimulated.assign(result.candidates.size(), false);
    findNear();
    do {
      do
        chooseProved();
      while (simulateAllNodes());
    } while (widenNear());
    for (size_t size = 0; size < request.sizes.size(); ++size) {
      result.sizes[size].shipped = fastest(Origin::Shipped, size);
      result.sizes[size].rings = fastest(Origin::Rings, size);
    }
    return std::move(result);
  }

private:
  void add(const PlacedCandidate &candidate, const Costs &costs, const std::vector<Schedule> &schedules) {
    for (size_t schedule = 0; schedule < schedules.size(); ++schedule) {
      if (!costs.refusals[schedule].empty()) {
        ++result.leftOut[costs.refusals[schedule]];
        continue;
      }
      ++result.numCandidates;
      PlacedCandidate &added = result.candidates.emplace_back(candidate);
      added.schedule = schedules[schedule];
      added.seconds = costs.seconds[schedule];
    }
  }

  /// Every step of a ring takes the same time, so that more nodes take in proportion to the steps.
  void costRings() {
    bool hasRings = request.collective == KOLO_ALL_GATHER || request.collective == KOLO_REDUCE_SCATTER ||
                    request.collective == KOLO_ALL_REDUCE;
    std::vector<std::vector<int64_t>> rings = explore::findGraphs(request.machine).rings;
    const bool isScalable = !request.counts || request.numNodes <= mostSimulatedNodes;
    if (!hasRings || rings.empty() || !isScalable)
      return;
    explore::Structure structure =
        explore::ringsThroughNodes(request.collective, explore::turnedToNics(rings, request.machine),
                                   std::min(request.numNodes, mostSimulatedNodes));
    PlacedCandidate candidate{Origin::Rings, assemble(structure), structure.describe(), structure.mesh(), "", {}, {}};
    candidate.definition.name = "ringsThroughNodes";
    PlacedMesh mesh = allRanks(request), smaller = structure.mesh();
    candidate.isScaled = mesh.numRanks() != smaller.numRanks();
    Costs costs = ringsCoster.cost(0, candidate.definition, smaller, "", [&](int64_t bytes) {
      return shrinkBytes(bytes, request.collective, mesh, smaller);
    });
    double scale = double(mesh.numRanks() - 1) / double(smaller.numRanks() - 1);
    for (std::vector<double> &seconds : costs.seconds)
      for (double &time : seconds)
        time *= scale;
    add(candidate, costs, ringsCoster.tried());
  }

  void costShipped() {
    std::vector<PlacedCandidate> shipped = shippedCandidates(request);
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
          result.candidates.push_back({Origin::Explored, assemble(structure), structure.describe(), structure.mesh(),
                                       structure.placement, coster.tried()[schedule],
                                       found.costs[number].seconds[schedule]});
    }
  }

  size_t numWanted() const { return request.numRunnersUp + 1; }

  size_t numNear() const { return numWanted() + 1; } // structures of a size that are simulated

  /// At its size, or at all.
  bool isRefused(const Choice &choice) const { return refused[choice.candidate] || !std::isfinite(choice.seconds); }

  std::optional<Choice> fastest(Origin origin, size_t size) const {
    std::optional<Choice> best;
    for (const Choice &choice : near[size])
      if (!isRefused(choice) && result.candidates[choice.candidate].origin == origin &&
          (!best || choice.seconds < best->seconds))
        best = choice;
    return best;
  }

  bool areOfOneStructure(const PlacedCandidate &a, const PlacedCandidate &b) const {
    return a.definition.name == b.definition.name && a.mesh.names == b.mesh.names && a.placement == b.placement;
  }

  /// The fastest of a kind at a size, in closed form: so many structures. Each has the schedules that take at most
  /// twice as long as the best does with any; with block tables, of which the closed form does not know, all.
  void addNear(size_t size, llvm::function_ref<bool(size_t candidate)> isWanted, size_t numStructures) {
    std::vector<Choice> order;
    for (size_t i = 0; i < result.candidates.size(); ++i)
      if (isWanted(i) && std::isfinite(result.candidates[i].seconds[size]))
        order.push_back({i, result.candidates[i].seconds[size]});
    std::ranges::sort(order, {}, [](const Choice &choice) { return std::pair(choice.seconds, choice.candidate); });
    std::vector<size_t> structures; // by their best candidate
    for (const Choice &choice : order) {
      if (!request.counts && choice.seconds > 2 * order.front().seconds)
        break;
      const PlacedCandidate &candidate = result.candidates[choice.candidate];
      auto isOf = [&](size_t other) { return areOfOneStructure(result.candidates[other], candidate); };
      if (std::ranges::none_of(structures, isOf)) {
        if (structures.size() == numStructures)
          continue;
        structures.push_back(choice.candidate);
      }
      if (std::ranges::find(near[size], choice.candidate, &Choice::candidate) == near[size].end())
        near[size].push_back(choice);
    }
  }

  /// The fastest at a size that were not refused, one of each structure. Of equal times the shipped one is first.
  std::vector<Choice> ranking(size_t size) const {
    std::vector<Choice> order, best;
    for (const Choice &choice : near[size])
      if (!isRefused(choice) && result.candidates[choice.candidate].origin != Origin::Rings)
        order.push_back(choice);
    std::ranges::sort(order, {}, [](const Choice &choice) { return std::pair(choice.seconds, choice.candidate); });
    for (const Choice &choice : order) {
      auto isAlike = [&](const Choice &other) {
        return other.seconds == choice.seconds ||
               areOfOneStructure(result.candidates[other.candidate], result.candidates[choice.candidate]);
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
        numbers.insert(choice.candidate);
    return {numbers.begin(), numbers.end()};
  }

  /// Calls body(thread, group) for all groups of candidates with the same key: large groups first.
  template <typename Key> void forEachGroup(const std::vector<size_t> &numbers, Key key, auto body) {
    std::map<decltype(key(result.candidates[0])), std::vector<size_t>> byKey;
    for (size_t number : numbers)
      byKey[key(result.candidates[number])].push_back(number);
    std::vector<std::vector<size_t>> groups;
    for (auto &[_, group] : byKey)
      groups.push_back(std::move(group));
    explore::sortStably(groups, [](const std::vector<size_t> &group) { return -int64_t(group.size()); });
    explore::forEach(groups.size(), request.search.numThreads,
                     [&](unsigned thread, size_t number) { body(thread, groups[number]); });
  }

  /// Proves who is ranked, and ranks again without those that are refused, until all are proved. Those of one program
  /// share a proof. Whose program is another one after that is simulated again.
  void chooseProved() {
    for (bool isFinal = false; !isFinal;) {
      simulateNear();
      for (size_t size = 0; size < request.sizes.size(); ++size)
        result.sizes[size].best = ranking(size);
      std::vector<size_t> open = chosen();
      std::erase_if(open, [&](size_t number) { return !result.candidates[number].provedOn.empty(); });
      isFinal = open.empty();
      std::map<size_t, std::string> reasons;
      for (size_t number : open)
        reasons[number];
      std::mutex mutex;
      std::set<std::string> replaced; // programs
      auto programOf = [&](const PlacedCandidate &candidate) { return programs.programOf(candidate); };
      forEachGroup(open, programOf, [&](unsigned thread, const std::vector<size_t> &group) {
        const PlacedCandidate &first = result.candidates[group.front()];
        CandidatePrograms::Proof proof = programs.prove(thread, first);
        for (size_t number : group) {
          reasons.at(number) = proof.refusal;
          result.candidates[number].provedOn = proof.mesh;
        }
        std::lock_guard lock(mutex);
        if (proof.isOfAllNodes)
          replaced.insert(programOf(first));
      });
      simulateAnew(replaced);
      for (const auto &[number, reason] : reasons)
        if (!reason.empty()) {
          refused[number] = true;
          ++result.leftOut[reason];
        }
    }
  }

  /// Forgets the times of programs that others took the place of.
  void simulateAnew(const std::set<std::string> &replaced) {
    result.numInferredForAll += replaced.size();
    for (size_t size = 0; size < near.size() && !replaced.empty(); ++size)
      for (Choice &choice : near[size])
        if (const PlacedCandidate &candidate = result.candidates[choice.candidate];
            replaced.contains(programs.programOf(candidate)))
          choice = {choice.candidate, candidate.seconds[size]};
  }

  void findNear() {
    near.resize(request.sizes.size());
    auto isOf = [&](Origin origin) {
      return [this, origin](size_t number) { return result.candidates[number].origin == origin; };
    };
    for (size_t size = 0; size < near.size(); ++size) {
      if (request.counts)
        addExplored(size);
      else
        addNear(size, [&](size_t number) { return result.candidates[number].origin != Origin::Rings; }, numNear());
      addNear(size, isOf(Origin::Shipped), request.counts ? result.candidates.size() : 1);
      addNear(size, isOf(Origin::Rings), 1);
    }
  }

  /// As many explored structures of a size as are to be simulated, in place of those that were refused. False if there
  /// are no more.
  bool addExplored(size_t size) {
    std::vector<bool> isNear(result.candidates.size());
    std::vector<size_t> structures; // by one of their candidates
    for (const Choice &choice : near[size]) {
      isNear[choice.candidate] = true;
      const PlacedCandidate &candidate = result.candidates[choice.candidate];
      auto isOf = [&](size_t other) { return areOfOneStructure(result.candidates[other], candidate); };
      if (candidate.origin == Origin::Explored && !isRefused(choice) && std::ranges::none_of(structures, isOf))
        structures.push_back(choice.candidate);
    }
    const size_t before = near[size].size();
    if (structures.size() < numNear())
      addNear(
          size, [&](size_t number) { return !isNear[number] && result.candidates[number].origin == Origin::Explored; },
          numNear() - structures.size());
    return near[size].size() > before;
  }

  /// Adds the next structures of a size, and their schedules: those that take less in closed form than the best does by
  /// simulation. A shipped one has to take less than the best shipped one. False if there are none.
  bool widenNear() {
    bool hasMore = false;
    for (size_t size = 0; size < near.size(); ++size) {
      if (request.counts) {
        hasMore |= addExplored(size);
        continue;
      }
      const std::vector<Choice> &best = result.sizes[size].best;
      std::optional<Choice> shipped = fastest(Origin::Shipped, size);
      constexpr double any = std::numeric_limits<double>::infinity();
      double most = best.empty() ? any : best.front().seconds, mostOfShipped = shipped ? shipped->seconds : any;
      std::vector<bool> isNear(result.candidates.size());
      for (const Choice &choice : near[size])
        isNear[choice.candidate] = true;
      size_t before = near[size].size();
      addNear(
          size,
          [&](size_t number) {
            const PlacedCandidate &candidate = result.candidates[number];
            return !isNear[number] && candidate.origin != Origin::Rings &&
                   candidate.seconds[size] < (candidate.origin == Origin::Shipped ? mostOfShipped : most);
          },
          numNear());
      hasMore |= near[size].size() > before;
    }
    return hasMore;
  }

  /// Corrects the times of candidates that are near the best at some size and may be ranked there. Of each structure
  /// that is the fastest in closed form, and the others while that says that they may take less.
  void simulateNear() {
    result.simulatedNodes = request.counts ? request.numNodes : std::min(request.numNodes, mostSimulatedNodes);
    while (true) {
      std::set<size_t> open;
      for (size_t size = 0; size < near.size(); ++size)
        addWorthwhile(size, open);
      if (open.empty())
        addRanked(open);
      if (open.empty())
        return;
      simulate({open.begin(), open.end()});
    }
  }

  /// The next of every structure at a size. What it takes on many nodes is at least what the closed form says.
  void addWorthwhile(size_t size, std::set<size_t> &open) const {
    for (const Choice &choice : near[size])
      if (request.counts && !refused[choice.candidate] && !choice.correction)
        open.insert(choice.candidate);
    if (request.counts)
      return;
    struct Best {
      std::optional<double> seconds; // of those that were simulated
      std::optional<Choice> next;    // of the others
    };
    std::map<size_t, Best> structures; // by the first candidate
    for (const Choice &choice : near[size]) {
      if (refused[choice.candidate])
        continue;
      const PlacedCandidate &candidate = result.candidates[choice.candidate];
      auto known = std::ranges::find_if(
          structures, [&](const auto &entry) { return areOfOneStructure(result.candidates[entry.first], candidate); });
      Best &best = known != structures.end() ? known->second : structures[choice.candidate];
      if (choice.correction)
        best.seconds = std::min(best.seconds.value_or(choice.seconds), choice.seconds);
      else if (!notSimulated[choice.candidate] && (!best.next || choice.seconds < best.next->seconds))
        best.next = choice;
    }
    for (const auto &[_, best] : structures)
      if (best.next && (!best.seconds || best.next->seconds <= margin * *best.seconds || isWhole(best.next->candidate)))
        open.insert(best.next->candidate);
  }

  /// Those that come into the ranking because the fastest of their structure takes as long as another one.
  void addRanked(std::set<size_t> &open) const {
    for (size_t size = 0; size < near.size(); ++size)
      for (const Choice &choice : ranking(size))
        if (!choice.correction && !notSimulated[choice.candidate])
          open.insert(choice.candidate);
  }

  /// Whether few nodes are all nodes, on which a simulation may take less than the closed form.
  bool isWhole(size_t number) const {
    const PlacedCandidate &candidate = result.candidates[number];
    return programs.fewNodes(candidate).numRanks() == candidate.mesh.numRanks();
  }

  /// One of every choreography first, whose synchronisation is remembered for the others; then deep pipelines, which
  /// take longest.
  std::vector<size_t> inOrderOfWork(const std::vector<size_t> &numbers) {
    std::set<size_t> begun; // choreographies
    std::vector<size_t> leaders, others;
    for (size_t number : numbers)
      (begun.insert(programs.choreographyOf(result.candidates[number])).second ? leaders : others).push_back(number);
    std::ranges::sort(others, {}, [&](size_t number) {
      return std::pair(-result.candidates[number].schedule.pipelineDepth, number);
    });
    std::ranges::copy(others, std::back_inserter(leaders));
    return leaders;
  }

  void simulate(const std::vector<size_t> &numbers) {
    std::map<size_t, std::string> reasons;
    for (size_t number : numbers)
      reasons[number];
    const std::vector<size_t> inOrder = inOrderOfWork(numbers);
    explore::forEach(inOrder.size(), request.search.numThreads, [&](unsigned thread, size_t i) {
      size_t number = inOrder[i];
      CandidateTimes::Choices choices;
      for (size_t size = 0; size < near.size(); ++size)
        for (Choice &choice : near[size])
          if (choice.candidate == number && !choice.correction)
            choices.emplace_back(size, &choice);
      reasons.at(number) = request.counts ? simulateTabled(thread, number, choices)
                                          : times.onFewNodes(thread, result.candidates[number], choices);
    });
    for (const auto &[number, reason] : reasons)
      if (!reason.empty()) {
        notSimulated[number] = !request.counts;
        ++(request.counts ? result.leftOut : result.notSimulated)[reason];
      }
  }

  /// Nothing else than a simulation knows of block tables: refuses a candidate at the sizes at which there is none.
  std::string simulateTabled(unsigned thread, size_t number, const CandidateTimes::Choices &choices) {
    std::string reason = times.onAllNodes(thread, result.candidates[number], choices);
    for (auto [_, choice] : choices)
      if (!choice->correction)
        choice->seconds = *(choice->correction = std::numeric_limits<double>::infinity());
    return reason;
  }

  /// Simulates on all nodes, if these are not too many, who is the best at some size or may be. False if nobody was.
  bool simulateAllNodes() {
    std::map<size_t, CandidateTimes::Choices> open; // by candidate
    for (size_t size = 0; size < near.size(); ++size)
      for (Choice &choice : near[size])
        if (!result.sizes[size].best.empty() && isWorthAllNodes(choice, result.sizes[size].best.front().seconds))
          open[choice.candidate].push_back({size, &choice});
    std::vector<size_t> numbers;
    for (const auto &[number, choices] : open)
      numbers.push_back(number);
    explore::forEach(numbers.size(), request.search.numThreads, [&](unsigned thread, size_t i) {
      times.onAllNodes(thread, result.candidates[numbers[i]], open.at(numbers[i]));
    });
    return !numbers.empty();
  }

  bool isWorthAllNodes(const Choice &choice, double bestSeconds) const {
    constexpr int64_t mostTransfers = int64_t(1) << 22; // some seconds
    const PlacedCandidate &candidate = result.candidates[choice.candidate];
    int64_t numFew = programs.fewNodes(candidate).numRanks();
    int64_t growth = (candidate.mesh.numRanks() + numFew - 1) / numFew;
    return request.numNodes <= mostNodesOfBest && candidate.origin != Origin::Rings && !refused[choice.candidate] &&
           choice.correction && !choice.wasOnAllNodes && choice.seconds <= margin * bestSeconds &&
           choice.numTransfers * growth * growth <= mostTransfers; // of each rank in proportion to the ranks, at most
  }

  static constexpr double margin = 1.1; // of what few nodes say: who may be the best on all

  const ExploreRequest &request;
  Coster coster, ringsCoster;
  CandidatePrograms programs;
  CandidateTimes times;
  Exploration result;
  std::vector<std::vector<Choice>> near;   // by size: who is simulated
  std::vector<bool> refused, notSimulated; // by candidate
};

} // namespace

Exploration explore(const ExploreRequest &request) { return Explorer(request).run(); }

} // namespace kolo::tools
