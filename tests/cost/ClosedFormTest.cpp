// The closed form against the formulas of textbooks, and against what others found on Frontier.
#include "compiler/cost/closedform/ClosedForm.h"
#include "compiler/Pipeline.h"
#include "tests/support/Algorithms.h"

#include "ir/Kolo.h"

#include "mlir/IR/BuiltinOps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <fstream>

using namespace mlir;

namespace kolo::cost {
namespace {

template <typename T> T orFail(std::variant<T, CostMistake> result) {
  if (auto *mistake = std::get_if<CostMistake>(&result))
    throw std::runtime_error(mistake->message);
  return std::get<T>(std::move(result));
}

Machine alphaBeta() { return orFail(Machine::read(KOLO_TEST_MACHINES "/alpha-beta.json")); }
const Machine &frontier() {
  static const Machine machine = orFail(Machine::read("frontier"));
  return machine;
}

ResolvedSchedule resolved(const Schedule &schedule) {
  return std::get<ResolvedSchedule>(resolve(schedule, Setting{Runners::Any, true}));
}

/// A choreography, ready to be costed.
class Prepared {
public:
  Prepared(const dsl::Definition &definition, const test::Sizes &mesh, const Schedule &asked = {})
      : context(test::makeContext()), schedule(resolved(asked)) {
    names = definition.mesh.dims;
    std::unique_ptr<dsl::Recording> recording = dsl::record(definition);
    for (const dsl::Diagnostic &diagnostic : recording->diagnostics)
      ADD_FAILURE() << diagnostic.message;
    module = dsl::emitChoreography(*context, *recording, {mesh});
    PassManager manager(context.get(), ModuleOp::getOperationName());
    buildChoreographyPipeline(manager, {.schedule = schedule});
    EXPECT_TRUE(succeeded(manager.run(*module)));
  }
  Prepared(const std::string &name, const test::Sizes &mesh, const Schedule &asked = {})
      : Prepared(test::definitionOf(name), mesh, asked) {}

  /// On a mesh of the same kind, as large as it may be.
  std::variant<ClosedForm, CostMistake> tryOn(const Machine &machine, const test::Sizes &mesh,
                                              const std::string &placement = "", Rates rates = Rates::Peak) {
    Placement placed = orFail(Placement::create(machine, {names, mesh}, placement));
    return ClosedForm::create(*module->getOps<ChoreographyOp>().begin(), schedule, machine, placed, rates, 0);
  }
  ClosedForm on(const Machine &machine, const test::Sizes &mesh, const std::string &placement = "") {
    return orFail(tryOn(machine, mesh, placement));
  }

private:
  std::unique_ptr<MLIRContext> context;
  ResolvedSchedule schedule;
  std::vector<std::string> names;
  OwningOpRef<ModuleOp> module;
};

constexpr int64_t mib = int64_t(1) << 20, gib = int64_t(1) << 30;

double gigabytesPerSecond(const ClosedForm &cost, int64_t bytes) { return double(bytes) / cost.seconds(bytes) / 1e9; }

//===--- Oracles
//---------------------------------------------------------------------------------------------------===//

struct Oracle {
  const char *algorithm;
  double microseconds;
};

class TextbookCosts : public testing::TestWithParam<Oracle> {};

TEST_P(TextbookCosts, AreReproducedWithin0Point1Percent) {
  Machine machine = alphaBeta();
  double seconds = Prepared(GetParam().algorithm, {8}).on(machine, {8}).seconds(8 * mib);
  EXPECT_NEAR(seconds * 1e6, GetParam().microseconds, GetParam().microseconds * 1e-3);
}

// P = 8 ranks, n = 8 MiB, a = 1 us, b = 1 s / 25 GB, without reductions' time.
// Chan et al., Collective communication: theory, practice, and experience, 2007; Patarasuk and Yuan, 2009.
INSTANTIATE_TEST_SUITE_P(Closed, TextbookCosts,
                         testing::Values(Oracle{"ringAllReduce", 601.20}, Oracle{"rabenseifnerAllReduce", 593.20},
                                         Oracle{"recursiveDoublingAllReduce", 1009.63}, Oracle{"ringAllGather", 300.60},
                                         Oracle{"recursiveDoublingAllGather", 296.60}, Oracle{"bruckAllGather", 296.60},
                                         Oracle{"ringReduceScatter", 300.60},
                                         Oracle{"recursiveHalvingReduceScatter", 296.60},
                                         Oracle{"bruckAllToAll", 506.32}, Oracle{"pairwiseAllToAll", 300.60},
                                         Oracle{"binomialBroadcast", 1009.63},
                                         Oracle{"scatterAllGatherBroadcast", 597.20}, Oracle{"directAllToAll", 294.60},
                                         Oracle{"oneShotAllReduce", 2349.81}, Oracle{"twoShotAllReduce", 589.20}),
                         [](const auto &info) { return std::string(info.param.algorithm); });

//===--- Frontier
//--------------------------------------------------------------------------------------------------===//

TEST(Frontier, RcclsRingsOnOneNodeGive228Point6GigabytesPerSecond) {
  ClosedForm cost = Prepared("rcclRingsAllGather", {8}).on(frontier(), {8});
  // Without the copy of a rank's own block, which those figures leave out.
  const StatementCost rings = cost.predict(64 * gib).statements.back();
  EXPECT_EQ(rings.executions, 8 * 7);
  EXPECT_NEAR(64 * gib / rings.seconds / 1e9, 228.6, 0.2);
}

/// The pairs of Frontier's MI250X, four of them behind a switch that is as fast as a module's links: what the figures
/// of an unpipelined all-gather by three levels assume.
Machine pairsBehindASwitch() {
  std::string links;
  for (int device = 0; device < 8; ++device)
    links += fmt::format(R"({{"from": "GCD {}", "to": "switch", "class": "port", "count": 1}},)", device);
  for (int pair = 0; pair < 4; ++pair)
    links += fmt::format(R"({}{{"from": "GCD {}", "to": "GCD {}", "class": "quad", "count": 4}})", pair ? "," : "",
                         2 * pair, 2 * pair + 1);
  return orFail(Machine::parse(
      R"({"version": 1, "name": "pairs", "title": "Pairs behind a switch", "nodes": 1,
          "node": {"devices": {"name": "GCD", "count": 8}, "switches": [{"name": "switch"}], "links": [)" +
          links + R"(]},
          "linkClasses": [
            {"name": "port", "gigabytesPerSecond": 125, "latencyMicroseconds": {"bulk": 1.8, "ll": 0.4, "ll128": 1.8}},
            {"name": "quad", "gigabytesPerSecond": 50, "latencyMicroseconds": {"bulk": 3.6, "ll": 0.8, "ll128": 3.6}}
          ],
          "payloadShare": {"ll": 0.5, "ll128": 0.9375}})",
      "pairs"));
}

TEST(Frontier, AnAllGatherByThreeLevelsGains70PercentByAPipeline) {
  Machine machine = pairsBehindASwitch();
  test::Sizes mesh = {1, 4, 2};
  double plain = gigabytesPerSecond(Prepared("threeLevelAllGather", mesh).on(machine, mesh), gib);
  double pipelined =
      gigabytesPerSecond(Prepared("threeLevelAllGather", mesh, {.pipelineDepth = 16}).on(machine, mesh), gib);
  EXPECT_NEAR(plain, 182, 1);
  EXPECT_GT(pipelined, 300);
  EXPECT_LT(pipelined, 333.4);
}

// On the node's own graph, devices of different modules are one to three links apart, and the links between modules are
// not alike: the phase among modules goes at the pace of its most loaded link.
TEST(Frontier, AnAllGatherByThreeLevelsGainsByAPipelineOnTheNodesOwnLinksToo) {
  test::Sizes mesh = {1, 4, 2};
  double plain = gigabytesPerSecond(Prepared("threeLevelAllGather", mesh).on(frontier(), mesh), gib);
  ClosedForm pipelined = Prepared("threeLevelAllGather", mesh, {.pipelineDepth = 16}).on(frontier(), mesh);
  fmt::print("by three levels: {:.1f} GB/s, pipelined {:.1f}, limited by {}\n", plain,
             gigabytesPerSecond(pipelined, gib), pipelined.predict(gib).bottleneck);
  EXPECT_LT(plain, gigabytesPerSecond(pipelined, gib));
  EXPECT_LT(gigabytesPerSecond(pipelined, gib), 333.4);
}

// HiCCL measured 8, 40 and 77 GB/s on 4 nodes, within 2 (Hidayetoglu et al., 2024). Those are figures of a real
// network; a model knows no more than what its machine file says.
TEST(Frontier, HicclsLadderIsClimbed) {
  double direct = gigabytesPerSecond(Prepared("allPairsAllGather", {32}).on(frontier(), {32}), gib);
  double hierarchical = gigabytesPerSecond(Prepared("railAllGather", {4, 8}).on(frontier(), {4, 8}), gib);
  double pipelined =
      gigabytesPerSecond(Prepared("railAllGather", {4, 8}, {.pipelineDepth = 16}).on(frontier(), {4, 8}), gib);
  fmt::print("GB/s, predicted / measured by HiCCL: direct {:.1f} / 8 = {:.2f}, hierarchical {:.1f} / 40 = {:.2f}, "
             "pipelined {:.1f} / 77 = {:.2f}\n",
             direct, direct / 8, hierarchical, hierarchical / 40, pipelined, pipelined / 77);
  EXPECT_LT(direct * 1.5, hierarchical);
  EXPECT_LT(hierarchical * 1.2, pipelined);
  EXPECT_LT(pipelined, 133.4);
}

// PCCL's all-gathers by rails against flat rings (Singh et al., The Big Send-off, 2025): latency and bandwidth alone
// explain a part of what they measured.
TEST(Frontier, RailsBeatFlatRingsTheMoreTheMoreDevicesThereAre) {
  Prepared rail("railRecursiveAllGather", {8, 8}), ring("ringAllGather", {64});
  double last = 1;
  for (int64_t devices = 64; devices <= 2048; devices *= 2) {
    double railSeconds = rail.on(frontier(), {devices / 8, 8}).seconds(64 * mib);
    double ringSeconds = ring.on(frontier(), {devices}).seconds(64 * mib);
    fmt::print("{} GCDs, 64 MiB: flat ring {:.2f} ms, rails {:.2f} ms, {:.1f} times\n", devices, ringSeconds * 1e3,
               railSeconds * 1e3, ringSeconds / railSeconds);
    EXPECT_GT(ringSeconds / railSeconds, last);
    last = ringSeconds / railSeconds;
  }
  EXPECT_GT(last, 6);
}

//===--- What grows with what
//--------------------------------------------------------------------------------------===//

double createSeconds(Prepared &prepared, const Machine &machine, const test::Sizes &mesh) {
  constexpr int times = 5;
  double best = 1e9;
  for (int i = 0; i < times; ++i) {
    auto start = std::chrono::steady_clock::now();
    (void)prepared.on(machine, mesh).seconds(mib);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

struct Growth {
  const char *algorithm;
  test::Sizes small, large;
};

class WholeOfFrontier : public testing::TestWithParam<Growth> {};

TEST_P(WholeOfFrontier, CostsNoMoreThanAFewNodes) {
  Prepared prepared(GetParam().algorithm, GetParam().small);
  double small = createSeconds(prepared, frontier(), GetParam().small),
         large = createSeconds(prepared, frontier(), GetParam().large);
  fmt::print("{}: {:.3f} ms, and {:.3f} ms on all of Frontier\n", GetParam().algorithm, small * 1e3, large * 1e3);
  EXPECT_LT(large, 10e-3); // 1 ms on a machine that does nothing else
}

INSTANTIATE_TEST_SUITE_P(
    Closed, WholeOfFrontier,
    testing::Values(Growth{"ringAllGather", {64}, {75264}}, Growth{"railAllGather", {8, 8}, {9408, 8}},
                    Growth{"railRecursiveAllGather", {8, 8}, {8192, 8}},
                    Growth{"threeLevelAllReduce", {8, 4, 2}, {9408, 4, 2}}, Growth{"directAllToAll", {64}, {75264}},
                    Growth{"bruckAllToAll", {64}, {75264}}, Growth{"twoLevelAllToAll", {8, 8}, {9408, 8}}),
    [](const auto &info) { return std::string(info.param.algorithm); });

/// Frontier with 131,072 nodes.
Machine hugeFrontier() {
  std::ifstream file(KOLO_TEST_MACHINES "/../../../machines/frontier.json");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::string nodes = "\"nodes\": 9408";
  for (size_t at; (at = text.find(nodes)) != std::string::npos;)
    text.replace(at, nodes.size(), "\"nodes\": 131072");
  return orFail(Machine::parse(text, "huge"));
}

TEST(ClosedForm, CostsAMillionRanksInTheTimeOf64) {
  Machine machine = hugeFrontier();
  Prepared ring("ringAllGather", {64}), rail("railAllGather", {8, 8});
  EXPECT_LT(createSeconds(ring, machine, {1048576}), 10e-3);
  EXPECT_LT(createSeconds(rail, machine, {131072, 8}), 10e-3);
  EXPECT_GT(ring.on(machine, {1048576}).seconds(mib), 1048575 * 3.6e-6);
}

TEST(ClosedForm, TakesTheTimeOfALoopWhoseStepsDifferFromEachOfThem) {
  // Two groups of ranks: step k crosses the border between groups for min(k, n - k) ranks each way.
  ClosedForm cost = Prepared("pairwiseAllToAll", {64}).on(frontier(), {2048});
  EXPECT_GT(cost.seconds(gib), 0);
  EXPECT_EQ(cost.predict(gib).statements.back().executions, 2047);
}

TEST(ClosedForm, CountsTripsThatAreAlikeAndTheOneThatIsShorter) {
  Prepared bruck("bruckAllToAll", {8});
  for (int64_t n : {3, 5, 8, 64, 104, 1000}) {
    int64_t runs = 0, distances = 0; // of distances with some bit, over all bits; those distances
    for (int64_t bit = 1; bit < n; bit *= 2) {
      runs += (n + bit - 1) / (2 * bit);
      for (int64_t distance = 0; distance < n; ++distance)
        distances += (distance & bit) != 0;
    }
    std::vector<StatementCost> statements = bruck.on(frontier(), {n}).predict(gib).statements;
    ASSERT_EQ(statements.size(), 4u);
    for (size_t copy : {1, 3}) {
      EXPECT_EQ(statements[copy].executions, runs) << n << " ranks";
      EXPECT_NEAR(statements[copy].bytes, 2.0 * double(distances) / double(n) * gib, 1) << n << " ranks";
    }
  }
}

TEST(ClosedForm, AddsUpToItsStatements) {
  for (int64_t depth : {1, 4}) {
    ClosedForm cost = Prepared("hierarchicalAllReduce", {4, 8}, {.pipelineDepth = depth}).on(frontier(), {128, 8});
    Prediction prediction = cost.predict(16 * mib);
    double seconds = 0;
    for (const StatementCost &statement : prediction.statements) {
      seconds += statement.seconds;
      EXPECT_GE(statement.seconds, statement.latencySeconds - 1e-12);
      EXPECT_TRUE(statement.line == 0 || !statement.file.empty());
    }
    EXPECT_NEAR(seconds, prediction.seconds, 1e-9 * seconds);
    EXPECT_DOUBLE_EQ(prediction.seconds, cost.seconds(16 * mib));
    for (const ResourceLoad &load : prediction.loads)
      EXPECT_LE(load.share, 1 + 1e-9) << load.resource;
  }
}

TEST(ClosedForm, PacketsTakeTheirLatencyAndTheirShareOfBandwidth) {
  test::Sizes mesh = {8};
  ClosedForm bulk = Prepared("allPairsAllGather", mesh).on(frontier(), mesh),
             ll = Prepared("allPairsAllGather", mesh, {.protocol = Protocol::LL}).on(frontier(), mesh);
  EXPECT_LT(ll.seconds(1024) * 3, bulk.seconds(1024));
  EXPECT_NEAR(ll.seconds(16 * gib) / bulk.seconds(16 * gib), 5, 0.3); // RCCL's factor of this board
}

TEST(ClosedForm, TrafficIsWhatRanksOfANodeSendEachOther) {
  // Blocks of 32 KiB: a rank sends the blocks of its rail to each other rank of its node.
  Prediction prediction = Prepared("railAllGather", {4, 8}).on(frontier(), {4, 8}).predict(mib);
  for (size_t from = 0; from < 8; ++from)
    for (size_t to = 0; to < 8; ++to)
      EXPECT_EQ(prediction.traffic[from][to], from == to ? 0 : 4.0 * mib / 32) << from << " to " << to;
}

TEST(ClosedForm, RefusesAProtocolThatTheMachineDoesNotHave) {
  auto refused = Prepared("allPairsAllGather", {8}, {.protocol = Protocol::LL128}).tryOn(frontier(), {8});
  ASSERT_TRUE(std::holds_alternative<CostMistake>(refused));
  EXPECT_EQ(std::get<CostMistake>(refused).message,
            "protocol ll128: frontier has none (payloadShare.ll128 of its file)");
}

TEST(ClosedForm, LooksAtRanksThatDifferAndSaysWhereThatIsTooMuch) {
  // The worst way of a tree: with reach 2^k, from the root to its child; on the whole of Frontier in 17 rounds.
  Prepared tree("binomialBroadcast", {8});
  EXPECT_GT(tree.on(frontier(), {75264}).seconds(mib), 17 * mib / 25e9 / 2);
  Prepared everyPair("unevenAllPairs", {8});
  EXPECT_GT(everyPair.on(frontier(), {64}).seconds(mib), 0);
  auto refused = everyPair.tryOn(frontier(), {75264});
  ASSERT_TRUE(std::holds_alternative<CostMistake>(refused));
  const std::string &message = std::get<CostMistake>(refused).message;
  EXPECT_NE(message.find("ClosedFormTest.cpp:"), std::string::npos) << message;
  EXPECT_NE(message.find("more ranks and peers than can be looked at one by one"), std::string::npos) << message;
}

} // namespace
} // namespace kolo::cost

#include <kolo/dsl/Language.h>

namespace kolo::dsl {
namespace {

// One peer after the other: in step k, from rank r to rank r + k.
KOLO_COLLECTIVE(pairwiseAllToAll, AllToAll, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output();
  c.copy(in[me], out[me]);
  c.loop(d.size() - 1, [&, d = d](Index step) {
    Rank peer = me.next(d, step + 1);
    c.send(in[peer]).to(peer).at(out[me]);
  });
}

// All-gather around RCCL's rings for one Frontier node, each twice: every ring takes an eighth of every block.
KOLO_COLLECTIVE(rcclRingsAllGather, AllGather, Mesh("gpu")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output();
  c.copy(in, out[me]);
  static const std::vector<std::vector<int64_t>> rings = {
      {0, 1, 5, 4, 6, 7, 3, 2}, {2, 3, 7, 6, 4, 5, 1, 0}, {7, 6, 0, 1, 3, 2, 4, 5}, {5, 4, 2, 3, 1, 0, 6, 7}};
  c.stripe(8, [&, d = d](int variant) {
    const std::vector<int64_t> &ring = rings[size_t(variant % 4)];
    std::vector<int64_t> places(8), nextOf(8);
    for (size_t place = 0; place < 8; ++place) {
      places[size_t(ring[place])] = int64_t(place);
      nextOf[size_t(ring[place])] = ring[(place + 1) % 8];
    }
    Table order(ring), placeOf(places);
    c.loop(d.size() - 1,
           [&](Index step) { c.send(out[order[(placeOf[me[d]] + 8 - step) % 8]]).to(me.mapped(d, nextOf)); });
  });
}

// Rail, module, pair.
KOLO_COLLECTIVE(threeLevelAllGather, AllGather, Mesh("node", "module", "die")) {
  auto [node, module, die] = c.dims<3>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output();
  c.copy(in, out[me]);
  c.loop(node.size() - 1, [&, node = node, module = module, die = die](Index step) {
    c.send(out[{me[node] - step, me[module], me[die]}]).to(me.next(node));
  });
  c.send(out[{all, me[module], me[die]}]).to(me.others(module));
  c.send(out[{all, all, me[die]}]).to(me.others(die));
}

// What is sent depends on both ends, so every pair has to be looked at.
KOLO_COLLECTIVE(unevenAllPairs, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank(), peer = me.others(d);
  Buffer in = c.input(), out = c.output();
  c.copy(in, out[me]);
  c.when(peer[d] > me[d], [&] { c.send(out[me]).to(peer); });
  c.when(peer[d] < me[d], [&] { c.send(out[me]).to(peer); });
}

} // namespace
} // namespace kolo::dsl
