// Packings of trees reach the cut bound, and their programs are proved and reach most of it in simulation.
#include "compiler/cost/simulation/Simulation.h"
#include "tools/compile/Compile.h"
#include "tools/explore/TreeProgram.h"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

namespace kolo::explore {
namespace {

using cost::CostMistake;
using cost::Machine;

Machine machineCalled(const std::string &name) { return std::get<Machine>(Machine::read(name)); }

CapacityGraph graphOf(const Machine &machine) {
  std::vector<int> devices(size_t(machine.devicesPerNode()));
  std::iota(devices.begin(), devices.end(), 0);
  return std::get<CapacityGraph>(nodeGraph(machine, devices));
}

TreePacking packed(const CapacityGraph &graph, int64_t mostTreesPerRoot) {
  return std::get<TreePacking>(packTrees(graph, mostTreesPerRoot));
}

/// The smallest, over all sets of devices but the empty one and the whole, of what leaves the set by its number of
/// devices; of graphs without switches.
double boundByAllCuts(const CapacityGraph &graph) {
  double least = INFINITY;
  for (size_t set = 1; set + 1 < size_t(1) << graph.numDevices; ++set) {
    int64_t capacity = 0;
    for (size_t from = 0; from < graph.numDevices; ++from)
      for (size_t to = 0; to < graph.numDevices; ++to)
        capacity += (set >> from & 1) && !(set >> to & 1) ? graph.capacity[from][to] : 0;
    least = std::min(least, double(capacity) / std::popcount(set));
  }
  return least * graph.unit;
}

/// Every tree spans, every root has as many.
std::map<std::pair<int, int>, int64_t> checkedLoads(const TreePacking &packing) {
  std::map<std::pair<int, int>, int64_t> loads;
  std::vector<int64_t> numTrees(packing.numDevices, 0);
  for (const Tree &tree : packing.trees) {
    std::vector<int> levels(packing.numDevices, -1);
    levels[size_t(tree.root)] = 0;
    for (const TreeEdge &edge : tree.edges) {
      EXPECT_EQ(levels[size_t(edge.from)], edge.level);
      EXPECT_EQ(levels[size_t(edge.to)], -1) << "reached twice";
      levels[size_t(edge.to)] = edge.level + 1;
      loads[{edge.from, edge.to}] += tree.copies;
    }
    EXPECT_EQ(std::ranges::count(levels, -1), 0) << "does not span";
    numTrees[size_t(tree.root)] += tree.copies;
  }
  for (int64_t trees : numTrees)
    EXPECT_EQ(trees, packing.treesPerRoot);
  return loads;
}

void expectNoLinkIsOverloaded(const TreePacking &packing, const CapacityGraph &graph) {
  for (const auto &[link, copies] : checkedLoads(packing))
    EXPECT_LE(double(copies) * packing.treeBandwidth,
              double(graph.capacity[size_t(link.first)][size_t(link.second)]) * graph.unit * (1 + 1e-12));
}

CapacityGraph randomGraph(unsigned seed) {
  std::mt19937 random(seed);
  size_t size = 4 + seed % 9;
  CapacityGraph graph{size, std::vector<std::vector<int64_t>>(size, std::vector<int64_t>(size, 0)), 1e9};
  for (size_t i = 1; i < size; ++i)
    for (size_t j = 0, parent = random() % i; j < i; ++j)
      if (j == parent || random() % 2)
        graph.capacity[i][j] = graph.capacity[j][i] = 1 + int64_t(random() % 10);
  return graph;
}

TEST(TreePacking, ReachesTheBoundOfEveryMachine) {
  const std::pair<const char *, double> bounds[] = {
      {"frontier", 1000e9 / 3}, {"dgx-h100", 450e9 * 8 / 7}, {"ring8", 50e9 * 8 / 7}, {"perlmutter", 400e9}};
  for (auto [name, bound] : bounds) {
    Machine machine = machineCalled(name);
    TreePacking packing = packed(graphOf(machine), 16);
    EXPECT_NEAR(packing.bound(), bound, bound * 1e-9) << name;
    EXPECT_NEAR(packing.fractionOfBound(), 1, 1e-12) << name;
    std::vector<double> loads(machine.resources().size());
    for (const auto &[link, copies] : checkedLoads(packing))
      for (int resource : machine.route(link.first, link.second).resources)
        loads[size_t(resource)] += double(copies) * packing.treeBandwidth;
    for (size_t i = 0; i < loads.size(); ++i)
      if (double peak = machine.resources()[i].bandwidth(cost::Rates::Peak); peak > 0)
        EXPECT_LE(loads[i], peak * (1 + 1e-12)) << name << ", " << machine.resources()[i].name;
  }
}

TEST(TreePacking, ReachesTheBoundOfRandomGraphs) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    CapacityGraph graph = randomGraph(seed);
    auto start = std::chrono::steady_clock::now();
    TreePacking packing = packed(graph, INT64_MAX);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1)) << "seed " << seed;
    EXPECT_NEAR(packing.boundPerRoot, boundByAllCuts(graph), packing.boundPerRoot * 1e-12) << "seed " << seed;
    EXPECT_NEAR(packing.fractionOfBound(), 1, 1e-12) << "seed " << seed;
    expectNoLinkIsOverloaded(packing, graph);
  }
}

TEST(TreePacking, WithFewerTreesSaysWhatItReaches) {
  CapacityGraph graph = graphOf(machineCalled("frontier"));
  const std::pair<int64_t, double> fractions[] = {{1, 0.8}, {3, 0.9}, {4, 0.96}, {5, 1}};
  for (auto [most, fraction] : fractions) {
    TreePacking packing = packed(graph, most);
    EXPECT_LE(packing.treesPerRoot, most);
    EXPECT_NEAR(packing.fractionOfBound(), fraction, 1e-9);
    expectNoLinkIsOverloaded(packing, graph);
  }
}

TEST(TreePacking, NamesWhatCannotBePacked) {
  auto mistakeIn = [](const auto &result) { return std::get<CostMistake>(result).message; };
  CapacityGraph apart{3, {{0, 1, 0}, {1, 0, 0}, {0, 0, 0}}};
  EXPECT_EQ(mistakeIn(packTrees(apart, 4)), "trees: some device cannot be reached from all others");
  EXPECT_EQ(mistakeIn(packTrees({1, {{0}}}, 4)), "trees: between 2 and 64 devices, not 1");
  EXPECT_EQ(mistakeIn(packTrees(apart, 0)), "trees: at least one tree for each root, not 0");
  std::vector<int> twice = {1, 2, 1};
  EXPECT_EQ(mistakeIn(nodeGraph(machineCalled("frontier"), twice)), "trees: device 1 is named twice");
}

/// Bytes per second, simulated, of a program that was proved.
double simulated(const Machine &machine, dsl::CollectiveKind kind, int64_t depth, int64_t bytes) {
  tools::CompileRequest request;
  int numRanks = machine.devicesPerNode();
  request.definitions = {treeCollective("trees", kind, packed(graphOf(machine), 16))};
  request.meshes = {*runtime::Mesh::create({{"rank", numRanks}})};
  request.schedule.pipelineDepth = depth;
  auto placement = std::get<cost::Placement>(cost::Placement::create(machine, {{"rank"}, {numRanks}}));
  double seconds = 0;
  tools::compileToChannel(request, [&](mlir::ModuleOp module) {
    auto simulation = cost::Simulation::create(*module.getOps<ProgramOp>().begin(), machine, placement, {});
    auto outcome = std::get<cost::Simulation>(simulation).predict(bytes);
    seconds = std::get<cost::SimulationOutcome>(outcome).prediction.seconds;
  });
  return double(bytes) / seconds;
}

constexpr int64_t gib = 1 << 30;

TEST(TreeProgram, OfEveryKindIsProved) {
  for (auto kind : {dsl::CollectiveKind::AllGather, dsl::CollectiveKind::ReduceScatter, dsl::CollectiveKind::AllReduce})
    for (int64_t depth : {1, 4})
      EXPECT_GT(simulated(machineCalled("frontier"), kind, depth, gib), 0) << int(kind);
}

/// What is missing is the time until all levels are busy: latencies pass while other slices travel.
TEST(TreeProgram, ComesNearTheBoundOfOneFrontierNode) {
  Machine machine = machineCalled("frontier");
  double bound = 1000e9 / 3;
  EXPECT_GT(simulated(machine, dsl::CollectiveKind::AllGather, 32, gib), 0.95 * bound);
  EXPECT_GT(simulated(machine, dsl::CollectiveKind::AllGather, 64, gib), 0.97 * bound);
}

} // namespace
} // namespace kolo::explore
