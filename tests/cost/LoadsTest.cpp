// The closed form counts what ranks that are alike put on resources; here every rank is looked at.
#include "compiler/cost/closedform/StatementMoves.h"
#include "compiler/model/Unfold.h"
#include "tests/support/Algorithms.h"

#include "mlir/Parser/Parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

using namespace mlir;

namespace kolo::cost {
namespace {

/// Four devices that differ in their links and in their way to a NIC; switches of two nodes in groups of six or eight.
Machine makeMachine(int nodesOfGroup) {
  std::string text = fmt::format(R"({{
    "version": 1, "name": "small", "title": "Small", "nodes": 64,
    "node": {{
      "devices": {{"name": "device", "count": 4, "memory": {{"gigabytesPerSecond": 100, "writes": {{"gigabytesPerSecond": 60}}}}}},
      "nics": [{{"name": "nic", "class": "wire"}}],
      "links": [
        {{"from": "device 0", "to": "device 1", "class": "wide", "count": 2}},
        {{"from": "device 1", "to": "device 2", "class": "narrow", "count": 1}},
        {{"from": "device 2", "to": "device 3", "class": "wide", "count": 1}},
        {{"from": "device 3", "to": "nic", "class": "narrow", "count": 1}}
      ]
    }},
    "linkClasses": [
      {{"name": "wide", "gigabytesPerSecond": 50, "latencyMicroseconds": {{"bulk": 1, "ll": 1, "ll128": 1}}}},
      {{"name": "narrow", "gigabytesPerSecond": 20, "latencyMicroseconds": {{"bulk": 3, "ll": 1, "ll128": 1}}}},
      {{"name": "wire", "gigabytesPerSecond": 10, "latencyMicroseconds": {{"bulk": 0.5, "ll": 1, "ll128": 1}}}}
    ],
    "payloadShare": {{"ll": 0.5, "ll128": 0.9375}},
    "levels": [
      {{"name": "switch", "nodes": 2, "gigabytesPerSecond": 15, "latencyMicroseconds": {{"bulk": 10, "ll": 1, "ll128": 1}}}},
      {{"name": "group", "nodes": {}, "gigabytesPerSecond": 17, "latencyMicroseconds": {{"bulk": 20, "ll": 1, "ll128": 1}}}},
      {{"name": "global", "nodes": 64, "latencyMicroseconds": {{"bulk": 40, "ll": 1, "ll128": 1}}}}
    ]
  }})",
                                 nodesOfGroup);
  auto machine = Machine::parse(text, "small");
  if (auto *mistake = std::get_if<CostMistake>(&machine))
    ADD_FAILURE() << mistake->message;
  return std::get<Machine>(std::move(machine));
}

/// A statement in textual IR, on a mesh and a placement; all of them random.
class Case {
public:
  Case(uint64_t seed, const Machine &machine) : random(seed) {
    do {
      mesh = {};
      for (int64_t dim = 0, numDims = pick(1, 3); dim < numDims; ++dim) {
        mesh.names.push_back("d" + std::to_string(dim));
        int64_t most = numDims == 1 ? 64 : numDims == 2 ? 16 : 8;
        mesh.sizes.push_back(pick(0, 1) ? pick(1, most)
                                        : int64_t(1) << pick(0, int64_t(llvm::Log2_64(uint64_t(most)))));
      }
    } while (!place(machine));
    std::string steps, arguments, slices = pick(0, 1) ? "%one" : "%two";
    for (size_t dim = 0; dim < mesh.sizes.size(); ++dim)
      steps += (dim ? ", " : "") + step(dim);
    isTransfer = pick(0, 7) > 0;
    for (size_t end = 0; end < (isTransfer ? 2 : 1); ++end)
      for (size_t dim = 0; dim < mesh.sizes.size(); ++dim)
        names.push_back((end ? "%p" : "%m") + std::to_string(dim));
    for (const std::string &name : names)
      arguments += (arguments.empty() ? "" : ", ") + name + ": index";
    std::string body, condition;
    if (pick(0, 5) == 0)
      body += remainder("%size", 3) + "%chunks = arith.addi %size, %one : index\n", slices = "%chunks";
    if (pick(0, 5) == 0)
      body += remainder("%which", 3) + "%when = arith.cmpi ne, %which, %one : index\n", condition = "when %when";
    else if (pick(0, 3) == 0)
      body += isParent(), condition = "when %when";
    text = fmt::format(R"(kolo.choreography @random #kolo.collective<all_reduce over 0> mesh ["{}"] meshes [[{}]] {{
{}  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %eight = arith.constant 8 : index
  %b = kolo.buffer output "b" grid(%eight) blocks 0 : !kolo.buffer<1>
  %s = kolo.buffer scratch "s" grid(%eight) blocks 0 : !kolo.buffer<1>
  {} {{
  ^bb0({}):
    {}kolo.slices from [%one] size [{}] to [%one] size [{}] {}
  }} : !kolo.buffer<1> -> !kolo.buffer<1>
}})",
                       fmt::join(mesh.names, "\", \""), fmt::join(mesh.sizes, ", "), constants,
                       isTransfer ? "kolo.transfer %b -> %s to [" + steps + "]" : "kolo.copy %b -> %s", arguments, body,
                       slices, slices, condition);
  }

  PlacedMesh mesh;
  std::optional<Placement> placement;
  std::string placementText, text;

private:
  int64_t pick(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random); }

  bool place(const Machine &machine) {
    std::vector<std::string> order = mesh.names;
    std::ranges::shuffle(order, random);
    std::vector<int> devices = {0, 1, 2, 3};
    std::ranges::shuffle(devices, random);
    devices.resize(size_t(pick(1, 4)));
    placementText = fmt::format("order={} devices={}", fmt::join(order, ","), fmt::join(devices, ","));
    auto result = Placement::create(machine, mesh, placementText);
    if (std::holds_alternative<CostMistake>(result))
      return false;
    placement = std::get<Placement>(std::move(result));
    return true;
  }

  std::string constant(int64_t value) {
    std::string name = fmt::format("%k{}", numConstants++);
    constants += fmt::format("  {} = arith.constant {} : index\n", name, value);
    return name;
  }

  std::string step(size_t dim) {
    int64_t size = mesh.sizes[dim];
    switch (pick(0, 5)) {
    case 0:
      return "keep";
    case 1:
      return "next " + constant(pick(-size, 2 * size));
    case 2: {
      int64_t mask = pick(0, size - 1);
      while (mask > 0 && size % (2 * int64_t(llvm::bit_floor(uint64_t(mask)))) != 0)
        mask = pick(0, size - 1);
      return "flip " + constant(mask);
    }
    case 3:
      return "others";
    case 4:
      return "at " + constant(pick(0, size - 1));
    default:
      std::vector<int64_t> table(static_cast<size_t>(size));
      std::iota(table.begin(), table.end(), 0);
      std::ranges::shuffle(table, random);
      return fmt::format("mapped [{}]", fmt::join(table, ", "));
    }
  }

  /// A number below `divisor` that depends on one or two coordinates.
  std::string remainder(const std::string &name, int64_t divisor) {
    const std::string &a = names[size_t(pick(0, int64_t(names.size()) - 1))],
                      &b = names[size_t(pick(0, int64_t(names.size()) - 1))];
    return fmt::format("{0}sum = arith.addi {1}, {2} : index\n    {0} = arith.remsi {0}sum, {3} : index\n    ", name, a,
                       b, constant(divisor));
  }

  /// As BinomialTree::isParent.
  std::string isParent() {
    int64_t reach = int64_t(1) << pick(0, 5);
    return fmt::format("%rest = arith.remsi %m0, {} : index\n    %zero = arith.subi %one, %one : index\n"
                       "    %first = arith.cmpi eq, %rest, %zero : index\n    %end = arith.addi %m0, {} : index\n"
                       "    %fits = arith.cmpi slt, %end, {} : index\n    %when = arith.andi %first, %fits : i1\n    ",
                       constant(2 * reach), constant(reach), constant(mesh.sizes[0]));
  }

  std::mt19937_64 random;
  int numConstants = 0;
  bool isTransfer = true;
  std::string constants;
  std::vector<std::string> names;
};

/// By name: the largest load on any of the resources of that name.
using Largest = std::map<std::string, double>;

constexpr MoveCost cost = {3, 1, 0.5, 0.25, 32, 2, 4, 0.125, 0.0625, 64};

/// Every rank's moves, one by one.
class BruteForce {
public:
  BruteForce(const Machine &machine, const Placement &placement) : machine(machine), placement(placement) {}

  void add(const ConcreteMove &move) {
    double share = 1;
    for (const GridRange &range : move.destination)
      share *= double(range.size) / 8;
    int64_t nodeA = placement.nodeOf(move.sender), nodeB = placement.nodeOf(move.receiver);
    int a = placement.deviceOf(move.sender), b = placement.deviceOf(move.receiver);
    double way = 0;
    auto addRoute = [&](int64_t node, const Route &route) {
      for (int resource : route.resources)
        at(node, machine.resources()[size_t(resource)], share * cost.wire);
      way += of(route.latency, Protocol::Bulk);
    };
    if (nodeA == nodeB) {
      addRoute(nodeA, machine.route(a, b));
      if (a != b)
        loads["traffic " + machine.vertices()[size_t(a)].name + " -> " + machine.vertices()[size_t(b)].name][nodeA] +=
            share * cost.payload;
    } else {
      addRoute(nodeA, machine.toNetwork(a));
      addRoute(nodeB, machine.fromNetwork(b));
      size_t common = machine.commonLevel(nodeA, nodeB);
      way += of(machine.levels()[common].latency, Protocol::Bulk);
      for (size_t level = 0; level < common; ++level) {
        const std::string &unit = machine.levels()[level].name;
        loads["out of a " + unit][machine.unitOf(level, nodeA)] += share * cost.wire;
        loads["into a " + unit][machine.unitOf(level, nodeB)] += share * cost.wire;
      }
    }
    latency = std::max(latency, way);
    at(nodeA, memory(a), share * cost.senderMemory);
    at(nodeB, memory(b), share * cost.receiverMemory);
    at(nodeB, writes(b), share * cost.receiverWrites);
    loads[lanes(a)][nodeA] += share * cost.senderLanes;
    loads[lanes(b)][nodeB] += share * cost.receiverLanes;
    sent[move.sender] = std::max(sent[move.sender], share);
    received[move.receiver] = std::max(received[move.receiver], share);
  }

  Largest largest() {
    for (auto [rank, share] : sent) {
      at(placement.nodeOf(rank), memory(placement.deviceOf(rank)), share * cost.senderMemoryOnce);
    }
    for (auto [rank, share] : received) {
      at(placement.nodeOf(rank), memory(placement.deviceOf(rank)), share * cost.receiverMemoryOnce);
      at(placement.nodeOf(rank), writes(placement.deviceOf(rank)), share * cost.receiverWritesOnce);
    }
    Largest result;
    for (const auto &[name, byPlace] : loads)
      for (auto [place, load] : byPlace)
        result[name] = std::max(result[name], load);
    return result;
  }

  double latency = 0;

private:
  void at(int64_t node, const Resource &resource, double load) { loads[resource.name][node] += load; }
  const Resource &memory(int device) const { return machine.resources()[size_t(machine.memoryOf(device))]; }
  const Resource &writes(int device) const { return machine.resources()[size_t(machine.writesOf(device))]; }
  std::string lanes(int device) const { return "lanes of " + machine.vertices()[size_t(device)].name; }

  const Machine &machine;
  const Placement &placement;
  std::map<std::string, std::map<int64_t, double>> loads; // by node or unit
  std::map<int64_t, double> sent, received;
};

Largest largestOf(const LoadModel &model, const Loads &loads) {
  Largest result;
  std::vector<double> most = model.largest(loads);
  for (size_t resource = 0; resource < model.numResources(); ++resource) {
    const Resource *inNode = model.nodeResource(resource);
    std::string name = inNode ? inNode->name : model.nameOf(resource);
    if (most[resource] > 0)
      result[name] = std::max(result[name], most[resource]);
  }
  return result;
}

void erase0(Largest &largest) {
  std::erase_if(largest, [](const auto &entry) { return entry.second == 0; });
}

/// Along which dimensions the model looked at ranks.
struct Seen {
  bool all = false, none = false;
  bool isAlike = false; // it found progressions of ranks
};

Seen compare(const Case &test, const Machine &machine) {
  std::unique_ptr<MLIRContext> context = test::makeContext();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(test.text, ParserConfig(context.get()));
  if (!module) {
    ADD_FAILURE() << test.text;
    return {};
  }
  auto choreography = *module->getOps<ChoreographyOp>().begin();
  StatementInterface statement;
  choreography.walk([&](StatementInterface found) { statement = found; });
  FailureOr<IndexEvaluator> evaluator = IndexEvaluator::create(choreography);
  evaluator->setMesh(test.mesh.sizes, 0);
  const Placement &placement = *test.placement;
  size_t numDims = test.mesh.sizes.size();

  BruteForce brute(machine, placement);
  Unfold unfold(*evaluator);
  LogicalResult unfolded = unfold.forEachExecution(choreography, [&](StatementInterface visited) -> LogicalResult {
    for (int64_t rank = 0; rank < placement.numRanks(); ++rank)
      if (failed(unfold.forEachMoveFrom(visited, rank, [&](const ConcreteMove &move) {
            brute.add(move);
            return success();
          })))
        return failure();
    return success();
  });
  EXPECT_TRUE(succeeded(unfolded));

  StatementMoves moves(statement, numDims);
  std::vector<bool> asked(numDims, false);
  LoadModel plain(machine, placement, {}, Protocol::Bulk, asked);
  for (size_t dim = 0; dim < numDims; ++dim)
    asked[dim] = moves.dependsOn(dim) || plain.mustEnumerate(dim, moves.steps()[dim]);
  LoadModel model(machine, placement, {}, Protocol::Bulk, asked);
  int64_t budget = 1 << 20;
  FailureOr<Moves> evaluated = moves.evaluate(*evaluator, model, placement, 1, budget);
  EXPECT_TRUE(succeeded(evaluated));
  evaluated->cost = cost;
  Loads loads = model.loadsOf(*evaluated);

  Largest expected = brute.largest(), found = largestOf(model, loads);
  erase0(expected);
  erase0(found);
  EXPECT_NEAR(loads.latency, brute.latency, 1e-12);
  EXPECT_EQ(expected.size(), found.size());
  for (const auto &[name, load] : expected)
    EXPECT_NEAR(found[name], load, 1e-9 * load) << name;
  return {llvm::all_of(model.enumerated(), [](bool is) { return is; }), !llvm::is_contained(model.enumerated(), true),
          !evaluated->alike.empty()};
}

TEST(Loads, OfRanksThatAreCountedAreThoseOfAllRanksLookedAtOneByOne) {
  Machine six = makeMachine(6), eight = makeMachine(8);
  int numCounted = 0, numMixed = 0, numAlike = 0;
  for (uint64_t seed = 0; seed < 3000 && !testing::Test::HasFailure(); ++seed) {
    const Machine &machine = seed % 2 ? six : eight;
    Case test(seed, machine);
    SCOPED_TRACE(fmt::format("seed {}, mesh {}, placement {}\n{}", seed, fmt::join(test.mesh.sizes, "x"),
                             test.placementText, test.text));
    Seen seen = compare(test, machine);
    numCounted += seen.none;
    numMixed += !seen.none && !seen.all;
    numAlike += seen.isAlike;
  }
  EXPECT_GT(numCounted, 700);
  EXPECT_GT(numMixed, 300);
  EXPECT_GT(numAlike, 100);
}

/// Each of its moves told by itself.
Moves enumerated(const Moves &moves) {
  Moves result = moves;
  result.alike.clear();
  for (const AlikeMoves &some : moves.alike)
    for (int64_t k = 0; k < std::max(some.from.count, some.to.count); ++k)
      result.enumerated.push_back(
          {some.from[std::min(k, some.from.count - 1)], some.to[std::min(k, some.to.count - 1)], some.share});
  return result;
}

TEST(Loads, AddUpInWhateverWayTheyAreTold) {
  Machine machine = makeMachine(6);
  auto created = Placement::create(machine, {{"rank"}, {104}}, "devices=2,0,1,3");
  ASSERT_TRUE(std::holds_alternative<Placement>(created));
  const auto &placement = std::get<Placement>(created);
  LoadModel model(machine, placement, {}, Protocol::Bulk, {true});
  for (uint64_t seed = 0; seed < 300 && !testing::Test::HasFailure(); ++seed) {
    std::mt19937_64 random(seed);
    auto pick = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(random);
    };
    auto progression = [&](int64_t count) {
      int64_t stride = count == 1 ? 1 : pick(1, 103 / (count - 1));
      return Progression{pick(0, 103 - stride * (count - 1)), stride, count};
    };
    Loads sum, expected;
    for (int64_t k = 0, numStatements = pick(1, 4); k < numStatements; ++k) {
      Moves moves;
      moves.steps = {{DimStep::Along::Next, pick(0, 103)}};
      moves.cost = cost;
      moves.isEnumerated = pick(0, 3) > 0;
      double share = 1 / double(pick(1, 9));
      if (moves.isEnumerated) {
        int64_t count = pick(1, 40), fan = pick(0, 2); // to many, from many, or from each to one
        Progression ranks = progression(count), peers = ranks;
        peers.first = pick(0, 103 - ranks.stride * (count - 1));
        moves.alike = {{fan == 0 ? progression(1) : ranks, fan == 1 ? progression(1) : peers, share}};
      } else {
        moves.share = share;
      }
      auto times = double(pick(1, 5));
      sum.add(model.loadsOf(moves), times);
      expected.add(model.loadsOf(enumerated(moves)), times);
    }
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::vector<double> found = model.largest(sum), wanted = model.largest(expected);
    for (size_t resource = 0; resource < model.numResources(); ++resource)
      EXPECT_NEAR(found[resource], wanted[resource], 1e-9 * wanted[resource]) << model.nameOf(resource);
    EXPECT_EQ(sum.moves, expected.moves);
  }
}

} // namespace
} // namespace kolo::cost
