// What is tuned. With predictions, only what a model expects to be fast is measured; the model here is a made-up one.
#include "tools/tune/Tune.h"
#include "tools/compile/Schedules.h"
#include "tools/compile/ToolError.h"
#include "tools/compile/TuningTable.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>

using namespace kolo::tools;
using kolo::runtime::CollectiveKind, kolo::runtime::MemoryKind, kolo::runtime::Mesh;

namespace {

const std::vector<std::string> programs = {"a", "b", "c", "d"};
using Numbers = std::vector<size_t>;

std::string refusalOf(const std::vector<PredictedProgram> &predictions) {
  try {
    choosePredicted(predictions, programs);
  } catch (const ToolError &error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST(Predictions, AreFoundAmongTheProgramsInTheirOrder) {
  EXPECT_EQ(choosePredicted({{"c", 1.0}, {"a", 1.5}, {"d", 1.6}}, programs), (Numbers{2, 0, 3}));
}

TEST(Predictions, ShareMeasurementsByHowNearTheyAreToTheFastestOfTheirCell) {
  const std::vector<std::vector<PredictedProgram>> cells = {
      {{"a", 1.0}, {"b", 1.5}, {"c", 4.0}}, {{"a", 10}, {"b", 12}, {"c", 19}}, {{"a", 3}}};
  EXPECT_EQ(shareMeasurements(cells, 3), (Numbers{1, 1, 1}));
  EXPECT_EQ(shareMeasurements(cells, 4), (Numbers{1, 2, 1}));
  EXPECT_EQ(shareMeasurements(cells, 5), (Numbers{2, 2, 1}));
  EXPECT_EQ(shareMeasurements(cells, 6), (Numbers{2, 3, 1}));
  EXPECT_EQ(shareMeasurements(cells, 100), (Numbers{3, 3, 1}));
  EXPECT_EQ(shareMeasurements(cells, 0), (Numbers{1, 1, 1})) << "every cell chooses among one at least";
}

TEST(Predictions, ThatCannotBeAreRefused) {
  EXPECT_NE(refusalOf({}).find("predicts nothing"), std::string::npos);
  EXPECT_NE(refusalOf({{"e", 1}}).find("e, which is no candidate"), std::string::npos);
  EXPECT_NE(refusalOf({{"a", 1}, {"a", 1}}).find("a twice"), std::string::npos);
  EXPECT_NE(refusalOf({{"a", 2}, {"b", 1}}).find("1 s for b, after 2 s"), std::string::npos);
  for (double seconds : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    EXPECT_NE(refusalOf({{"a", seconds}}).find(" s for a"), std::string::npos) << seconds;
}

namespace {

/// One first round, which does not count, then those given.
Measurement measured(std::vector<double> roundsUs) {
  roundsUs.insert(roundsUs.begin(), 1);
  return {roundsUs, roundsUs};
}

size_t chosen(const std::vector<Measurement> &measurements, std::optional<size_t> before,
              std::optional<size_t> incumbent) {
  return choose(measurements, 1, before, incumbent).chosen;
}

} // namespace

TEST(Choices, AreTheBestInTheirWorstRound) {
  const std::vector<Measurement> all = {measured({10, 10, 40}), measured({15, 15, 20}), measured({15.2, 15.2, 20})};
  EXPECT_EQ(chosen(all, {}, {}), 1u) << "not the fastest in two rounds of three";
  EXPECT_EQ(choose(all, 1, {}, {}).next, 2u);
  EXPECT_EQ(chosen(all, 2, {}), 2u) << "as good as the best, and chosen at the size below";
  EXPECT_EQ(chosen(all, 0, {}), 1u);
  Measurement gone = measured({1, 1, 1});
  gone.isLeftBehind = true;
  EXPECT_EQ(chosen({all[0], gone}, 1, 1), 0u);
}

TEST(Choices, TheIncumbentLeavesOnlyForAnotherThatBeatsItClearly) {
  const Measurement incumbent = measured({20, 20, 20, 20});
  const Measurement disturbed = measured({20, 20, 20, 80});
  EXPECT_EQ(chosen({measured({10, 10, 10, 10}), incumbent}, {}, 1), 0u);
  EXPECT_EQ(chosen({measured({19, 19, 19, 19}), incumbent}, {}, 1), 1u) << "by 5 %";
  EXPECT_EQ(chosen({measured({10, 10, 10, 21}), incumbent}, {}, 1), 1u) << "slower in a round";
  EXPECT_EQ(chosen({measured({19, 19, 19, 19}), disturbed}, {}, 1), 1u) << "one disturbed round";
  EXPECT_EQ(chosen({measured({10, 10, 10, 10}), disturbed}, {}, 1), 0u);
  EXPECT_EQ(chosen({measured({10, 10, 10, 21}), incumbent}, 0, 1), 1u) << "whatever is chosen at the size below";
}

TEST(Tuner, MeasuresOnlyWhatTheModelExpectsToBeFast) {
  Mesh mesh = *Mesh::parse("rank=2");
  Candidates candidates = compileCandidates(CollectiveKind::AllGather, mesh);
  std::set<int64_t> asked;
  TuneOptions options{.maxBytes = 1024, .secondsPerCell = 0.001};
  options.predict = [&](const PredictedCell &cell, const std::vector<std::string> &names) {
    EXPECT_EQ(cell.collective, CollectiveKind::AllGather);
    EXPECT_EQ(cell.mesh, mesh);
    EXPECT_EQ(cell.memory, MemoryKind::Windows);
    EXPECT_EQ(names.size(), candidates.all.size());
    asked.insert(cell.bytes);
    const char *fastest = cell.bytes > 100 ? "ringAllGather" : "allPairsAllGather.published";
    return std::vector<PredictedProgram>{{fastest, 1e-6}, {"bruckAllGather", 1.4e-6}};
  };
  std::vector<Cell> cells = tune(candidates, mesh, MemoryKind::Windows, options);
  EXPECT_EQ(asked, (std::set<int64_t>{16, 64, 256, 1024}));
  EXPECT_EQ(effortOf(cells).measured, 8u);
  EXPECT_EQ(effortOf(cells).all, 4 * candidates.all.size());
  for (const Cell &cell : cells) {
    const char *fast = cell.bytes > 100 ? "ringAllGather" : "allPairsAllGather.published";
    for (size_t number = 0; number < candidates.all.size(); ++number) {
      std::string program = candidates.all[number].program();
      bool isExpected = program == fast || program == "bruckAllGather";
      EXPECT_EQ(!cell.measurements[number].microseconds.empty(), isExpected) << program << " at " << cell.bytes;
      EXPECT_TRUE(isExpected || cell.chosen != number) << program << " at " << cell.bytes;
    }
  }
}

TEST(LastSize, IsWhereBothChoicesAreEquallyFast) {
  // 64 to 4,096: six doublings. At 64 the first is 4 times as fast, at 4,096 the second is twice as fast.
  const Cell small = {64, {{{}, {10}}, {{}, {40}}}, 0}, large = {4096, {{{}, {200}}, {{}, {100}}}, 1};
  EXPECT_NEAR(double(lastSizeOf(small, large)), 1024, 1);
  const Cell equalAtFirst = {64, {{{}, {10}}, {{}, {10}}}, 0}, equalAtLast = {4096, {{{}, {100}}, {{}, {100}}}, 1};
  EXPECT_EQ(lastSizeOf(equalAtFirst, large), 64);
  EXPECT_EQ(lastSizeOf(small, equalAtLast), 4095) << "the larger size has its own choice";
  EXPECT_NEAR(double(lastSizeOf(equalAtFirst, equalAtLast)), 512, 1);
}

TEST(LastSize, IsHalfWayWhereATimeIsMissing) {
  const Cell small = {64, {{{}, {10}}, {{}, {}, true}}, 0}, large = {4096, {{{}, {200}}, {{}, {100}}}, 1};
  EXPECT_NEAR(double(lastSizeOf(small, large)), 512, 1);
}

TEST(Candidates, AreAllProgramsThatTheShippedTableNames) {
  std::map<CollectiveKind, std::set<std::string>> named;
  for (const TableEntry &entry : readTable(tablePath("default")))
    named[entry.collective].insert(entry.algorithm + suffixFor(entry.schedule));
  EXPECT_FALSE(named.empty());
  for (const auto &[collective, wanted] : named) {
    Candidates candidates = compileCandidates(collective, Mesh::parse("rank=4").value(), wanted);
    std::set<std::string> found;
    for (const Candidate &candidate : candidates.all)
      found.insert(candidate.program());
    for (const LeftOut &leftOut : candidates.leftOut)
      found.insert(leftOut.program);
    EXPECT_EQ(found, wanted);
  }
}
