// The checker proves every shipped program, and flags every mutant of one but those that do no harm.
#include "Mutants.h"
#include "Shipped.h"
#include "Tally.h"
#include "Trace.h"

#include "compiler/check/Verdict.h"

#include <iostream>
#include <map>

using namespace kolo;
using namespace kolo::mutation;

namespace {

/// A mutant that does no harm in so many interleavings counts as harmless.
constexpr int64_t numInterleavings = 1000;

/// Prints, at the end, what the tests of this process counted.
class Summary : public testing::Environment {
public:
  void add(const std::string &algorithm, const Tally &tally) { tallies.emplace_back(algorithm, tally); }
  void TearDown() override {
    if (!tallies.empty())
      std::cout << "\n" << table(tallies);
  }

private:
  std::vector<std::pair<std::string, Tally>> tallies;
};
Summary &summary = *static_cast<Summary *>(testing::AddGlobalTestEnvironment(new Summary)); // gtest owns it

/// Looks at all mutants of one algorithm. An optimised program has less synchronisation, an unoptimised one the plain
/// handshake on both sides of every transfer.
class Examination {
public:
  /// With `judgeAll`, flagged mutants go before the judge too.
  Examination(const std::string &algorithm, bool judgeAll) : algorithm(algorithm), judgeAll(judgeAll) {}

  /// Fails when the algorithm itself is not proved.
  void run(const std::vector<Sizes> &meshes, bool optimize) {
    ShippedProgram program(*context, algorithm, meshes, optimize);
    std::vector<Mutant> mutants = mutantsOf(*program);
    for (const Sizes &mesh : meshes) {
      ASSERT_TRUE(checkProgram(*program, mesh).isProved()) << textOf(mesh);
      TraceHash unchanged = traceOf(*program, mesh);
      for (Mutant &mutant : mutants)
        if (TraceHash trace = traceOf(*mutant.program, mesh); trace != unchanged)
          examine(*program, mutant, mesh, trace);
        else
          count(mutant, &Counts::unchanged);
    }
  }
  const Tally &result() const { return tally; }

private:
  void examine(ProgramOp original, Mutant &mutant, const Sizes &mesh, const TraceHash &trace);
  void count(const Mutant &mutant, int64_t Counts::*what);
  const std::optional<Harm> &judge(ProgramOp program, const Sizes &mesh, const TraceHash &trace);

  std::string algorithm;
  bool judgeAll;
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  std::map<Sizes, Judge> judges;
  std::map<std::pair<Sizes, TraceHash>, std::optional<Harm>> judgements; // mutants that do the same are judged once
  Tally tally;
};

void Examination::count(const Mutant &mutant, int64_t Counts::*what) {
  ++(tally.all.*what);
  ++(tally.byKind[size_t(mutant.kind)].*what);
}

const std::optional<Harm> &Examination::judge(ProgramOp program, const Sizes &mesh, const TraceHash &trace) {
  auto [judgement, isNew] = judgements.try_emplace({mesh, trace});
  if (isNew) {
    Judge &judge = judges.try_emplace(mesh, program.getCollective(), mesh, testSeed()).first->second;
    judgement->second = judge.firstHarm(program, numInterleavings);
  }
  return judgement->second;
}

void Examination::examine(ProgramOp original, Mutant &mutant, const Sizes &mesh, const TraceHash &trace) {
  CheckOptions options;
  options.wantSteps = false;
  Verdict verdict = checkProgram(*mutant.program, mesh, options);
  EXPECT_FALSE(verdict.tooLarge) << mutant.what;
  EXPECT_EQ(verdict.checkedOn, mesh) << mutant.what;
  bool isFlagged = verdict.refutation.has_value();
  if (isFlagged)
    ++tally.byProperty[size_t(verdict.refutation->property)];
  if (isFlagged && !judgeAll)
    return count(mutant, &Counts::flagged);
  const std::optional<Harm> &harm = judge(*mutant.program, mesh, trace);
  if (isFlagged) {
    count(mutant, &Counts::flagged);
    count(mutant, &Counts::numJudged);
    if (!harm)
      count(mutant, &Counts::flaggedHarmless);
    return;
  }
  count(mutant, harm ? &Counts::missed : &Counts::harmless);
  if (harm)
    ADD_FAILURE() << "MISSED: " << mutant.what << "\n"
                  << harm->text() << "\n"
                  << differenceOf(original, *mutant.program);
}

void report(const std::string &algorithm, const Tally &tally) {
  EXPECT_GT(tally.all.flagged, 0);
  std::cout << tableHead() << tableRow(algorithm, tally.all);
  summary.add(algorithm, tally);
}

class HeavyEveryAlgorithm : public EveryAlgorithm {};

} // namespace

TEST_P(EveryAlgorithm, IsProvedOnEveryMeshWhetherOptimisedOrNot) {
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  std::vector<Sizes> meshes = meshesOf(GetParam());
  for (bool optimize : {true, false}) {
    ShippedProgram program(*context, GetParam(), meshes, optimize);
    for (const Sizes &mesh : meshes) {
      Verdict verdict = checkProgram(*program, mesh);
      EXPECT_TRUE(verdict.isProved()) << textOf(mesh) << ": "
                                      << (verdict.refutation ? verdict.refutation->message : *verdict.tooLarge);
      EXPECT_EQ(verdict.checkedOn, mesh);
    }
  }
}

TEST_P(EveryAlgorithm, HasNoHarmfulMutantThatTheCheckerProves) {
  Examination examination(GetParam(), /*judgeAll=*/false);
  std::vector<Sizes> meshes = threeMeshesOf(GetParam());
  ASSERT_NO_FATAL_FAILURE(examination.run(meshes, /*optimize=*/true));
  meshes.pop_back(); // the slowest one
  ASSERT_NO_FATAL_FAILURE(examination.run(meshes, /*optimize=*/false));
  report(GetParam(), examination.result());
}

TEST_P(HeavyEveryAlgorithm, HasNoHarmfulMutantThatTheCheckerProvesOnAnyMesh) {
  Examination examination(GetParam(), /*judgeAll=*/true);
  for (bool optimize : {true, false})
    ASSERT_NO_FATAL_FAILURE(examination.run(meshesOf(GetParam()), optimize));
  report(GetParam(), examination.result());
}

INSTANTIATE_TEST_SUITE_P(Algorithms, HeavyEveryAlgorithm, testing::ValuesIn(algorithmNames()),
                         [](const auto &info) { return info.param; });
