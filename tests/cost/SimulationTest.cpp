// Simulations of compiled programs, against textbooks' formulas, bounds, and what must hold of any prediction.
#include "compiler/cost/simulation/Simulation.h"
#include "compiler/check/Verdict.h"
#include "compiler/cost/bounds/Bounds.h"
#include "compiler/cost/simulation/PerfettoTrace.h"
#include "tests/cost/Costs.h"
#include "tests/support/Algorithms.h"
#include "tools/compile/Compile.h"
#include "tools/compile/Kinds.h"

#include <kolo/dsl/Choreography.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <map>
#include <set>

namespace kolo::cost {
namespace {

using test::Sizes;

Machine machineOf(const std::string &name) { return get(Machine::read(name)); }

Machine alphaBeta() { return machineOf(MACHINES "/alpha-beta.json"); }

struct Simulated {
  dsl::Definition definition;
  Sizes mesh;
  Schedule schedule = {};
  SimulationOptions options = {};
  std::string placement = {};
};

Placement placeOn(const Machine &machine, const Simulated &what) {
  auto placed = Placement::create(machine, {what.definition.mesh.dims, what.mesh}, what.placement);
  if (const auto *mistake = std::get_if<CostMistake>(&placed))
    throw std::runtime_error(mistake->message);
  return std::get<Placement>(std::move(placed));
}

/// Compiles the case as it is packed, and hands over its simulation.
void withSimulation(const Machine &machine, const Simulated &what, const std::function<void(const Simulation &)> &use) {
  tools::CompileRequest request;
  request.definitions = {what.definition};
  request.meshes = {test::namedMesh(what.definition, what.mesh)};
  request.schedule = what.schedule;
  Placement placement = placeOn(machine, what);
  tools::compileToChannel(request, [&](mlir::ModuleOp module) {
    auto simulation = Simulation::create(*module.getOps<ProgramOp>().begin(), machine, placement, what.options);
    if (const auto *mistake = std::get_if<CostMistake>(&simulation))
      throw std::runtime_error(mistake->message);
    use(std::get<Simulation>(simulation));
  });
}

SimulationOutcome outcomeOf(const Simulation &simulation, int64_t bytes, Timeline *timeline = nullptr) {
  auto outcome = simulation.predict(bytes, timeline);
  if (const auto *mistake = std::get_if<CostMistake>(&outcome))
    throw std::runtime_error(mistake->message);
  return std::get<SimulationOutcome>(std::move(outcome));
}

Prediction predict(const Machine &machine, const Simulated &what, int64_t bytes) {
  Prediction prediction;
  withSimulation(machine, what,
                 [&](const Simulation &simulation) { prediction = outcomeOf(simulation, bytes).prediction; });
  return prediction;
}

Simulated shipped(const std::string &name, const Sizes &mesh) { return {test::definitionOf(name), mesh}; }

double secondsWithoutEntry(const Prediction &prediction) {
  double seconds = 0;
  for (const StatementCost &row : prediction.statements)
    seconds += row.line ? row.seconds : 0;
  return seconds;
}

struct Oracle {
  const char *name;
  double microseconds;
  int numCredits = 0; // on the chain that ends last, of one latency each: formulas have none
  Synchronisation synchronisation = Synchronisation::Least;
};

/// P = 8 ranks, 8 MiB, one microsecond per message, 25 GB/s per port: Chan et al. 2007, Thakur et al. 2005.
class Textbook : public testing::TestWithParam<Oracle> {};

TEST_P(Textbook, FormulaHolds) {
  Simulated what = shipped(GetParam().name, {8});
  what.schedule.synchronisation = GetParam().synchronisation;
  double microseconds = secondsWithoutEntry(predict(alphaBeta(), what, 8 * mib)) * 1e6;
  EXPECT_NEAR(microseconds - GetParam().numCredits, GetParam().microseconds, 1e-3 * GetParam().microseconds);
}

// With the least synchronisation, a parent of a binomial tree sends to all its children at once: see Agreement.
// directAllToAll sends to all at once, so that it has one latency, where the pairwise exchange has seven: 300.60.
INSTANTIATE_TEST_SUITE_P(AlphaBeta, Textbook,
                         testing::Values(Oracle{"ringAllReduce", 601.20}, Oracle{"rabenseifnerAllReduce", 593.20},
                                         Oracle{"recursiveDoublingAllReduce", 1009.63, 3},
                                         Oracle{"ringAllGather", 300.60}, Oracle{"recursiveDoublingAllGather", 296.60},
                                         Oracle{"bruckAllToAll", 506.32, 3}, Oracle{"directAllToAll", 294.60},
                                         Oracle{"binomialBroadcast", 1009.63, 1, Synchronisation::Handshake},
                                         Oracle{"oneShotAllReduce", 1 + 7 * 335.544},
                                         Oracle{"twoShotAllReduce", 589.20}),
                         [](const auto &info) { return std::string(info.param.name); });

TEST(Simulation, PacketsTakeOneLatencyWithoutSignals) {
  Simulated what = shipped("ringAllGather", {8});
  what.schedule.protocol = Protocol::LL;
  EXPECT_NEAR(secondsWithoutEntry(predict(alphaBeta(), what, 8 * mib)) * 1e6, 300.60, 0.3);
}

// --- What holds of every prediction ---

class EveryShippedAlgorithm : public test::EveryAlgorithm {};

TEST_P(EveryShippedAlgorithm, TakesAtLeastTheBoundAndRowsAddUp) {
  dsl::Definition definition = test::definitionOf(GetParam());
  for (std::string machineName : {MACHINES "/alpha-beta.json", "frontier", "dgx-h100", "ring8"}) {
    Machine machine = machineOf(machineName);
    Simulated what{definition, test::smallMesh(definition)};
    what.mesh[0] = std::min(what.mesh[0], std::max(machine.numNodes() * machine.devicesPerNode() * what.mesh[0] /
                                                       test::namedMesh(definition, what.mesh).numRanks(),
                                                   int64_t(1)));
    withSimulation(machine, what, [&](const Simulation &simulation) {
      for (int64_t bytes : {kib, mib, 64 * mib}) {
        Prediction prediction = outcomeOf(simulation, bytes).prediction;
        double rows = 0;
        for (const StatementCost &row : prediction.statements)
          rows += row.seconds;
        EXPECT_NEAR(rows, prediction.seconds, 1e-9 * prediction.seconds) << machineName;
        EXPECT_FALSE(prediction.bottleneck.empty());
        if (!definition.collective.dims.empty())
          continue;
        LowerBound bound =
            lowerBound(machine, placeOn(machine, what), KoloCollective(tools::kindOf(definition.collective)), bytes);
        EXPECT_GE(prediction.seconds, bound.seconds * (1 - 1e-9)) << machineName << ", " << bytes << " bytes";
        for (const ResourceLoad &load : prediction.loads)
          EXPECT_LE(load.share, 1 + 1e-9) << load.resource;
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Shipped, EveryShippedAlgorithm, testing::ValuesIn(test::algorithmNames()));

TEST(Simulation, GivesTheSameEveryTime) {
  Machine machine = machineOf("frontier");
  Simulated what = shipped("railRingAllGather", {4, 8});
  what.schedule.pipelineDepth = 4;
  std::vector<double> seconds;
  std::vector<std::string> traces;
  for (int i = 0; i < 2; ++i)
    withSimulation(machine, what, [&](const Simulation &simulation) {
      Timeline timeline;
      seconds.push_back(outcomeOf(simulation, mib, &timeline).prediction.seconds);
      std::vector<StatementLabel> labels(simulation.statements().size());
      traces.push_back(perfettoTrace(timeline, labels, std::vector<std::string>(32, "rank")));
    });
  EXPECT_EQ(seconds[0], seconds[1]);
  EXPECT_EQ(traces[0], traces[1]);
}

/// With a timeline all ranks are simulated; without one, those that stand for others. 384 nodes are three groups, whose
/// exits are shared; 6 nodes share a switch, and 32 nodes have two. In the last two, the nodes move
/// different chunks of the same length.
TEST(Simulation, RanksThatStandForOthersTakeAsLongAsAllRanks) {
  Machine machine = machineOf("frontier");
  for (const Simulated &what :
       {shipped("ringAllGather", {256}), shipped("directAllToAll", {48}), shipped("directAllToAll", {256}),
        shipped("recursiveDoublingAllGather", {2048}), shipped("bruckAllGather", {3072}),
        shipped("hierarchicalAllReduce", {32, 8}), shipped("railRecursiveAllGather", {32, 8})})
    withSimulation(machine, what, [&](const Simulation &simulation) {
      Timeline timeline;
      SimulationOutcome alone = outcomeOf(simulation, 3 * mib), all = outcomeOf(simulation, 3 * mib, &timeline);
      SCOPED_TRACE(what.definition.name);
      EXPECT_EQ(alone.numTransfers, all.numTransfers);
      EXPECT_NEAR(alone.prediction.seconds, all.prediction.seconds, 1e-9 * all.prediction.seconds);
      ASSERT_EQ(alone.prediction.loads.size(), all.prediction.loads.size());
      for (size_t i = 0; i < all.prediction.loads.size(); ++i)
        EXPECT_NEAR(alone.prediction.loads[i].bytes, all.prediction.loads[i].bytes,
                    1e-9 * all.prediction.loads[i].bytes);
    });
}

TEST(Simulation, ChunksOfUnequalLengthTakeAsLongAsEqualOnes) {
  withSimulation(alphaBeta(), shipped("ringAllReduce", {8}), [&](const Simulation &simulation) {
    double equal = outcomeOf(simulation, 8 * mib).prediction.seconds;
    double unequal = outcomeOf(simulation, 8 * mib + 8).prediction.seconds;
    EXPECT_GE(unequal, equal);
    EXPECT_NEAR(unequal, equal, 2e-5 * equal);
  });
}

TEST(Simulation, CallsThatFollowEachOtherOverlapAtMost) {
  Simulated what = shipped("ringAllGather", {8});
  double one = predict(alphaBeta(), what, mib).seconds;
  what.options.numCalls = 10;
  double mean = predict(alphaBeta(), what, mib).seconds;
  EXPECT_LE(mean, one * (1 + 1e-9));
  EXPECT_GE(mean, 0.9 * one);
}

TEST(Simulation, AStagedNetworkTakesFourTimesItsBytesOfTheHostsMemory) {
  const Machine direct = machineOf("frontier"), staged = std::get<Machine>(direct.staged());
  Simulated what = shipped("railAllGather", {2, 8});
  what.schedule.pipelineDepth = 16; // so that nodes send all the time
  const int64_t bytes = 1024 * mib;
  // Half of the bytes leaves a node, and half arrives; each is written to the host's memory and read there.
  const double leastSeconds = 2 * double(bytes) / 204.8e9;
  Prediction prediction = predict(staged, what, bytes);
  EXPECT_GE(prediction.seconds, leastSeconds);
  EXPECT_LE(prediction.seconds, 1.5 * leastSeconds);
  auto memory = std::ranges::find(prediction.loads, "memory of the host", &ResourceLoad::resource);
  ASSERT_NE(memory, prediction.loads.end());
  EXPECT_NEAR(memory->bytes, 2 * double(bytes), 1);
  double networkSeconds = 0;
  for (const StatementCost &statement : predict(direct, what, bytes).statements)
    if (statement.bottleneck.starts_with("slingshot"))
      networkSeconds += statement.seconds;
  EXPECT_LT(networkSeconds, 0.5 * leastSeconds);
}

TEST(Simulation, PutsOfOneRankShareItsPort) {
  // The root of a binomial tree sends to its 3 children at once, and each child's subtree waits for its third of the
  // port: 3 + 2 + 1 blocks instead of the 3 of a root that sends to one child after the other.
  double microseconds = secondsWithoutEntry(predict(alphaBeta(), shipped("binomialBroadcast", {8}), 8 * mib)) * 1e6;
  EXPECT_NEAR(microseconds, 3 + 6 * 335.544, 1);
}

TEST(Simulation, TrafficIsWhatRanksSend) {
  withSimulation(alphaBeta(), shipped("ringAllGather", {8}), [&](const Simulation &simulation) {
    std::vector<std::vector<double>> traffic = outcomeOf(simulation, 8 * mib).prediction.traffic;
    for (size_t from = 0; from < 8; ++from)
      for (size_t to = 0; to < 8; ++to)
        EXPECT_EQ(traffic[from][to], to == (from + 1) % 8 ? 7.0 * mib : 0);
  });
}

TEST(Simulation, RefusesMoreRanksThanItTakes) {
  Machine machine = machineOf("frontier");
  try {
    withSimulation(machine, shipped("recursiveDoublingAllGather", {32768}), [](const Simulation &) { FAIL(); });
    FAIL();
  } catch (const std::runtime_error &error) {
    EXPECT_STREQ(error.what(), "32768 ranks are more than the 16384 that can be simulated; the closed form (kolo cost) "
                               "takes any number");
  }
}

TEST(Simulation, Takes4096Ranks) {
  Machine machine = machineOf("frontier");
  withSimulation(machine, shipped("recursiveDoublingAllGather", {4096}), [&](const Simulation &simulation) {
    SimulationOutcome outcome = outcomeOf(simulation, 256 * mib);
    EXPECT_EQ(outcome.numTransfers, 4096 * (12 + 1)); // a copy each
    EXPECT_GT(outcome.prediction.seconds, 0);
  });
}

// --- RCCL's rings on one Frontier node ---

/// Its model 74 has four rings, each of them twice.
const std::vector<std::vector<int64_t>> rcclRings = {
    {0, 1, 5, 4, 6, 7, 3, 2}, {2, 3, 7, 6, 4, 5, 1, 0}, {7, 6, 0, 1, 3, 2, 4, 5}, {5, 4, 2, 3, 1, 0, 6, 7}};

void ringsAllGather(dsl::Choreography &c) {
  auto [d] = c.dims<1>();
  dsl::Rank me = c.rank();
  dsl::Buffer out = c.output();
  c.copy(c.input(), out[me]);
  c.stripe(int(rcclRings.size()), [&, d = d](int variant) {
    const std::vector<int64_t> &ring = rcclRings[size_t(variant)];
    std::vector<int64_t> next(8), place(8);
    for (size_t i = 0; i < 8; ++i) {
      next[size_t(ring[i])] = ring[(i + 1) % 8];
      place[size_t(ring[i])] = int64_t(i);
    }
    dsl::Table order(ring), places(place);
    c.loop(d.size() - 1, [&](dsl::Index step) {
      dsl::Index at = order[(places[me[d]] - step + 8) % 8];
      c.send(out[at]).to(me.mapped(d, next));
    });
  });
}

TEST(Simulation, RcclsRingsReachTheirShareOfAFrontierNode) {
  Machine machine = machineOf("frontier");
  Simulated what{{"rcclRings", dsl::AllGather, dsl::Mesh("rank"), ringsAllGather, std::source_location::current()},
                 {8}};
  // RCCL's channels run beside each other. With entry credits, a lane would wait for one ring before it feeds another.
  what.schedule.entry = Entry::Together;
  Prediction prediction = predict(machine, what, 1024 * mib);
  const StatementCost &sends = prediction.statements.back();
  EXPECT_EQ(sends.executions, 4 * 7);
  double gigabytesPerSecond = 1024.0 * mib / (sends.seconds - sends.latencySeconds) / 1e9;
  EXPECT_NEAR(gigabytesPerSecond, 228.6, 0.01 * 228.6);
}

// --- Timelines ---

TEST(PerfettoTrace, HasOrderedTimesBalancedFlowsAndSlicesThatDoNotOverlap) {
  Machine machine = machineOf("frontier");
  for (const char *name : {"railAllGather", "hierarchicalAllReduce"})
    withSimulation(machine, shipped(name, {2, 8}), [&](const Simulation &simulation) {
      Timeline timeline;
      (void)outcomeOf(simulation, mib, &timeline);
      std::vector<StatementLabel> labels;
      for (const SimulatedLine &line : simulation.statements())
        labels.push_back({line.file + ":" + std::to_string(line.line), "c.send(\"x\") \\ \xff"});
      auto trace = nlohmann::json::parse(perfettoTrace(timeline, labels, std::vector<std::string>(16, "a rank")));
      double last = 0;
      std::map<int64_t, int> flows;
      std::map<std::pair<int, int>, double> ends;
      size_t numSlices = 0;
      for (const auto &event : trace["traceEvents"]) {
        std::string phase = event["ph"];
        if (phase == "M")
          continue;
        double time = event["ts"];
        EXPECT_GE(time, last);
        last = time;
        if (phase == "s")
          EXPECT_EQ(flows[event["id"]]++, 0);
        if (phase == "f")
          EXPECT_EQ(flows[event["id"]]++, 1);
        if (phase != "X")
          continue;
        ++numSlices;
        double &end = ends[{event["pid"], event["tid"]}];
        EXPECT_GE(time, end - 2e-6); // times are rounded to picoseconds
        end = time + event["dur"].get<double>();
      }
      EXPECT_EQ(numSlices, timeline.records.size());
      EXPECT_EQ(flows.size(), timeline.arrows.size());
      EXPECT_GT(flows.size(), 0u);
      for (const auto &[id, number] : flows)
        EXPECT_EQ(number, 2) << id;
    });
}

TEST(CostedPrograms, KeepTheirSynchronisationWhereNoCheckFollowsTheirInference) {
  Simulated what = shipped("ringAllGather", {8});
  auto countWaits = [&](std::optional<int64_t> budget) {
    tools::CompileRequest request;
    request.definitions = {what.definition};
    request.meshes = {test::namedMesh(what.definition, what.mesh)};
    request.budget = budget;
    int64_t numWaits = 0;
    tools::compileForCosts(request, Runners::Any, [&](mlir::ModuleOp, mlir::ModuleOp programs, const auto &) {
      ProgramOp program = *programs.getOps<ProgramOp>().begin();
      EXPECT_TRUE(checkProgram(program, what.mesh).isProved());
      numWaits = countSynchronisation(program, what.mesh)->waits();
    });
    return numWaits;
  };
  EXPECT_GT(countWaits(1), countWaits(std::nullopt));
}

/// What goes between groups of the dragonfly, which has one rank on each of 64 nodes.
double globalBytes(const std::string &name, int64_t bytes) {
  const Machine machine = machineOf(MACHINES "/dragonfly.json");
  Simulated what = shipped(name, {64});
  what.placement = "per-node=1";
  what.options.countsLevels = true;
  double result = 0;
  withSimulation(machine, what, [&](const Simulation &simulation) {
    const SimulationOutcome outcome = outcomeOf(simulation, bytes);
    ASSERT_EQ(outcome.levels.size(), 2u);
    EXPECT_EQ(outcome.levels[0].level, "group");
    EXPECT_EQ(outcome.levels[1].level, "global");
    EXPECT_GT(outcome.levels[0].bytes, 0);
    result = outcome.levels[1].bytes;
  });
  return result;
}

constexpr int64_t dragonflyRanks = 64, dragonflyGroup = 18;

int64_t groupOf(int64_t rank) { return rank / dragonflyGroup; }

/// The peer of a step of the alternating butterfly.
int64_t alternatingPeer(int64_t rank, int step) {
  int64_t distance = 0, power = 1;
  for (int i = 0; i <= step; ++i, power *= -2)
    distance += power;
  return ((rank + (rank % 2 ? -distance : distance)) % dragonflyRanks + dragonflyRanks) % dragonflyRanks;
}

TEST(Simulation, CountsWhatAReduceScatterSendsBetweenGroups) {
  double alternating = 0, halving = 0;
  for (int64_t rank = 0; rank < dragonflyRanks; ++rank)
    for (int step = 0; step < 6; ++step) {
      double bytes = double(mib >> (step + 1));
      alternating += groupOf(rank) != groupOf(alternatingPeer(rank, step)) ? bytes : 0;
      halving += groupOf(rank) != groupOf(rank ^ (dragonflyRanks >> (step + 1))) ? bytes : 0;
    }
  EXPECT_EQ(globalBytes("bineReduceScatter", mib), alternating);
  EXPECT_EQ(globalBytes("recursiveHalvingReduceScatter", mib), halving);
}

TEST(Simulation, CountsWhatABroadcastSendsBetweenGroups) {
  std::vector<int64_t> ranks = {0};
  double bytes = 0;
  for (int step = 5; step >= 0; --step)
    for (size_t i = 0, numKnown = ranks.size(); i < numKnown; ++i) {
      ranks.push_back(alternatingPeer(ranks[i], step));
      bytes += groupOf(ranks[i]) != groupOf(ranks.back()) ? double(mib) : 0;
    }
  EXPECT_EQ(std::set<int64_t>(ranks.begin(), ranks.end()).size(), size_t(dragonflyRanks));
  EXPECT_EQ(globalBytes("bineBroadcast", mib), bytes);
}

TEST(Simulation, SendsAtMostSevenTenthsBetweenGroupsAlongBineTrees) {
  const std::pair<const char *, const char *> algorithms[] = {{"bineBroadcast", "binomialBroadcast"},
                                                              {"bineReduceScatter", "recursiveHalvingReduceScatter"},
                                                              {"bineAllGather", "recursiveDoublingAllGather"},
                                                              {"bineAllReduce", "rabenseifnerAllReduce"}};
  for (auto [bine, other] : algorithms) {
    double most = 0.7 * globalBytes(other, mib);
    EXPECT_GT(most, 0) << other;
    EXPECT_LE(globalBytes(bine, mib), most) << bine;
  }
}

} // namespace
} // namespace kolo::cost
