// Simulations of calls whose blocks have counts of their own.
#include "compiler/cost/simulation/Simulation.h"
#include "tests/cost/Costs.h"
#include "tests/support/Algorithms.h"
#include "tests/support/Support.h"
#include "tools/compile/Compile.h"

#include <gtest/gtest.h>

#include <fstream>

namespace kolo::cost {
namespace {

constexpr int64_t numRanks = 4;

BlockLaw lawOf(const std::string &text) {
  auto parsed = parseBlockLaw(text);
  if (auto *mistake = std::get_if<std::string>(&parsed))
    throw std::runtime_error(*mistake);
  return std::get<BlockLaw>(std::move(parsed));
}

std::string mistakeOf(const std::string &text) {
  auto parsed = parseBlockLaw(text);
  auto *mistake = std::get_if<std::string>(&parsed);
  return mistake ? *mistake : "";
}

/// Of an algorithm on four ranks of one node; without counts, all blocks have as many.
std::variant<Prediction, std::string> predict(const std::string &name, const std::string &counts, int64_t bytes) {
  const dsl::Definition &definition = test::definitionOf(name);
  Machine machine = std::get<Machine>(Machine::read(MACHINES "/alpha-beta.json"));
  Placement placement = std::get<Placement>(Placement::create(machine, {definition.mesh.dims, {numRanks}}, ""));
  tools::CompileRequest request;
  request.definitions = {definition};
  request.meshes = {test::namedMesh(definition, {numRanks})};
  SimulationOptions options;
  if (!counts.empty())
    options.counts = lawOf(counts);
  std::variant<Prediction, std::string> result;
  tools::compileToChannel(request, [&](mlir::ModuleOp module) {
    auto made = Simulation::create(*module.getOps<ProgramOp>().begin(), machine, placement, options);
    if (auto *mistake = std::get_if<CostMistake>(&made)) {
      result = mistake->message;
      return;
    }
    auto outcome = std::get<Simulation>(made).predict(bytes);
    if (auto *mistake = std::get_if<CostMistake>(&outcome))
      result = mistake->message;
    else
      result = std::get<SimulationOutcome>(outcome).prediction;
  });
  return result;
}

Prediction predictionOf(const std::string &name, const std::string &counts, int64_t bytes) {
  auto result = predict(name, counts, bytes);
  if (auto *mistake = std::get_if<std::string>(&result))
    throw std::runtime_error(*mistake);
  return std::get<Prediction>(std::move(result));
}

} // namespace

TEST(BlockCounts, OfEqualBlocksArePredictedAsWithoutTables) {
  for (const char *name : {"directAllToAll", "ringAllGather", "allPairsAllGather", "ringReduceScatter", "directGather",
                           "binomialGather", "patAllGather", "patReduceScatter"}) {
    const Prediction without = predictionOf(name, "", mib), with = predictionOf(name, "zipf:0:0", mib);
    EXPECT_DOUBLE_EQ(with.seconds, without.seconds) << name;
    EXPECT_EQ(with.traffic, without.traffic) << name;
  }
}

TEST(BlockCounts, MoveWhatTheGiverHas) {
  const Prediction toOne = predictionOf("directAllToAll", "onehot:2", mib);
  const Prediction ring = predictionOf("ringAllGather", "onehot:2", mib);
  double moved = 0;
  for (size_t from = 0; from < numRanks; ++from)
    for (size_t to = 0; to < numRanks; ++to) {
      if (from != to) {
        EXPECT_EQ(toOne.traffic[from][to], to == 2 ? double(mib) : 0) << from << " to " << to;
      }
      moved += ring.traffic[from][to];
    }
  EXPECT_EQ(moved, 3.0 * mib); // the one block goes once to each other rank
}

/// Whoever forwards a block knows how long it is by what came with it: rank 3's goes over rank 2 to the root.
TEST(BlockCounts, AreForwarded) {
  const Prediction gather = predictionOf("binomialGather", "onehot:3", mib);
  for (size_t from = 0; from < numRanks; ++from)
    for (size_t to = 0; to < numRanks; ++to)
      EXPECT_EQ(gather.traffic[from][to], (from == 3 && to == 2) || (from == 2 && to == 0) ? double(mib) : 0)
          << from << " to " << to;
}

TEST(BlockCounts, OfAFileAreScaled) {
  test::TemporaryFolder folder;
  const std::string path = folder.file("counts");
  std::ofstream(path) << "0 1 2 3\n1 0 0 0\n0 0 0 0\n2 2 2 0\n";
  const Prediction pairs = predictionOf("directAllToAll", path, 6 * mib);
  EXPECT_EQ(pairs.traffic[0][1], double(mib));
  EXPECT_EQ(pairs.traffic[0][3], 3.0 * mib);
  EXPECT_EQ(pairs.traffic[1][0], double(mib));
  EXPECT_EQ(pairs.traffic[2][3], 0.0);
  EXPECT_EQ(pairs.traffic[3][2], 2.0 * mib);
  EXPECT_EQ(std::get<std::string>(predict("ringAllGather", path, mib)), "--counts: 16 counts are not the 4 of 4 ranks");
}

/// The longest block decides how long a rank sends, and nothing else.
TEST(BlockCounts, ThatAreSkewedTakeLonger) {
  for (const char *name : {"directAllToAll", "allPairsReduceScatter"})
    EXPECT_GT(predictionOf(name, "zipf:1.2:1", 16 * mib).seconds, 1.2 * predictionOf(name, "", 16 * mib).seconds)
        << name;
}

TEST(BlockCounts, ThatCannotBeAreRefused) {
  EXPECT_EQ(std::get<std::string>(predict("binomialScatter", "zipf:1:0", mib)),
            "--counts: the program takes no block tables: only the peer has a table of the chunks that it reads from "
            "there");
  EXPECT_EQ(std::get<std::string>(predict("directAllToAll", "onehot:4", mib)), "--counts: there is no block 4 among 4");
  EXPECT_EQ(mistakeOf("zipf:-1:0"), "'zipf:-1:0' is not zipf:EXPONENT:SEED, with an exponent from 0 to 100 and a seed");
  EXPECT_EQ(mistakeOf("random"), "'random' is not random:SEED");
  EXPECT_EQ(mistakeOf("onehot:x"), "'onehot:x' is not onehot:BLOCK");
  EXPECT_EQ(mistakeOf("/nowhere"), "'/nowhere' is neither zipf:EXPONENT:SEED, random:SEED nor onehot:BLOCK, nor a file "
                                   "that can be read: No such file or directory");
  test::TemporaryFolder folder;
  std::ofstream(folder.file("bad")) << "1 2 -3";
  std::ofstream(folder.file("huge")) << "1e308 1e308";
  EXPECT_EQ(mistakeOf(folder.file("huge")), "'1e308' in " + folder.file("huge") + " is no count");
  EXPECT_EQ(mistakeOf(folder.file("bad")), "'-3' in " + folder.file("bad") + " is no count");
}

} // namespace kolo::cost
