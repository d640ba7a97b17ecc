// The run of vector clocks against itself without its short cuts, and against the judge. Ranks that do alike, and
// chunks that are treated alike, are followed together: the answer must be the one for each rank by itself. A random
// program that is proved must do no harm. For the shipped programs, their mutants, and random programs.
#include "Judge.h"
#include "Litmus.h"
#include "Mutants.h"
#include "RandomPrograms.h"
#include "Shipped.h"

#include "compiler/check/VectorClockRun.h"
#include "compiler/model/Unfold.h"

#include "mlir/Parser/Parser.h"

using namespace kolo;
using namespace kolo::mutation;

namespace {

/// What an answer comes down to. A run that meets a problem meets others that follow from it, in an order of its own.
std::string answerOf(const VectorClockResult &result) {
  return !result.blocked.empty()     ? "deadlock"
         : !result.conflicts.empty() ? "conflict"
         : result.wrongOutput        ? "wrong output"
                                     : "proved";
}

/// Every rank by itself.
std::optional<TracedGroup> traceEachRank(Tracer &tracer) {
  TracedGroup traced{RankGroup(tracer, llvm::SmallVector<Translation>(tracer.mesh().size(), Translation::None)), {}};
  for (int64_t rank = 0; rank < tracer.numRanks(); ++rank)
    if (!tracer.run(rank, traced.traces.emplace_back()))
      return std::nullopt;
  return traced;
}

/// Whether one chunk of the output stands for others.
bool hasLongRuns(const Tracer &tracer, const TracedGroup &traced) {
  uint32_t output = *tracer.bufferOf(BufferRole::Output);
  return ChunkRuns(tracer, traced, BufferCodecs(tracer.program(), false)).count(output) <
         tracer.grids()[output].numChunks;
}

struct Tally {
  int64_t numRuns = 0, numProved = 0, numSymmetric = 0, numWithLongRuns = 0, numAgreeingByOrigin = 0;
  int64_t numJudged = 0, numRefuted = 0, numHarmful = 0; // random programs; of those refuted, the harmful ones
};

/// One root, in place or not.
void compareCall(Code &code, const Sizes &mesh, int64_t root, bool isInPlace, const char *transport, Tally &tally) {
  CheckOptions options;
  options.transport = *parseTransport(transport);
  Tracer tracer(code, mesh, root, isInPlace), again(code, mesh, root, isInPlace);
  if (tracer.mistake)
    return;
  std::optional<TracedGroup> traced = traceAll(tracer, INT64_MAX, /*mayReorder=*/true), each = traceEachRank(again);
  // The symmetry is found without the traces of all ranks, but no mistake of a rank may be missed.
  ASSERT_EQ(traced.has_value(), each.has_value()) << (again.mistake ? again.mistake->message : "");
  if (!traced)
    return;
  VectorClockResult result = VectorClockRun(tracer, *traced, options).run();
  VectorClockResult plain = VectorClockRun(again, *each, options).run();
  EXPECT_EQ(answerOf(result), answerOf(plain));
  if (answerOf(result) == "proved") // mistakes are no sums that were made in some order
    EXPECT_EQ(result.ranksAgreeBitwise, plain.ranksAgreeBitwise);
  VectorClockResult byOrigin = VectorClockRun(tracer, *traced, options, /*mostRanksInFull=*/0).run();
  EXPECT_EQ(answerOf(byOrigin), answerOf(result));
  if (byOrigin.ranksAgreeBitwise) { // where origins decide, they say nothing but that ranks agree
    EXPECT_TRUE(*byOrigin.ranksAgreeBitwise);
    EXPECT_EQ(result.ranksAgreeBitwise, true);
    ++tally.numAgreeingByOrigin;
  }
  ++tally.numRuns;
  tally.numProved += answerOf(result) == "proved";
  tally.numSymmetric += !traced->group.isTrivial();
  tally.numWithLongRuns += hasLongRuns(tracer, *traced);
}

void compare(ProgramOp program, const Sizes &mesh, const char *transport, Tally &tally) {
  std::variant<Code, CodeMistake> made = Code::create(program);
  if (std::holds_alternative<CodeMistake>(made))
    return;
  int64_t numRoots = countRoots(program.getCollective(), mesh);
  for (int64_t root = 0; root < numRoots; root += std::max<int64_t>(numRoots - 1, 1))
    for (bool isInPlace : {false, true}) {
      if (isInPlace && program.getInPlace() != InPlace::Direct)
        continue;
      SCOPED_TRACE("mesh " + test::textOf(mesh) + ", root " + std::to_string(root) + (isInPlace ? ", in place" : ""));
      compareCall(std::get<Code>(made), mesh, root, isInPlace, transport, tally);
    }
}

/// Meshes of so many ranks at most.
std::vector<Sizes> allMeshes(const std::string &algorithm, int64_t maxRanks) {
  std::vector<Sizes> meshes{{}};
  for (size_t dim = 0; dim < test::definitionOf(algorithm).mesh.dims.size(); ++dim) {
    std::vector<Sizes> longer;
    for (const Sizes &sizes : meshes) {
      int64_t ranks = 1;
      for (int64_t size : sizes)
        ranks *= size;
      for (int64_t size = 1; ranks * size <= maxRanks; ++size) {
        longer.push_back(sizes);
        longer.back().push_back(size);
      }
    }
    meshes = std::move(longer);
  }
  return test::allowedMeshes(algorithm, meshes);
}

void compareShipped(const std::string &algorithm, const std::vector<Sizes> &meshes) {
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  Tally tally;
  ShippedProgram program(*context, algorithm, meshes, true);
  for (const Sizes &mesh : meshes)
    compare(*program, mesh, "shared", tally);
  EXPECT_GT(tally.numRuns, 0);
  EXPECT_EQ(tally.numProved, tally.numRuns);
}

void compareMutants(const std::string &algorithm, const std::vector<Sizes> &meshes, bool optimize) {
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  Tally tally;
  ShippedProgram program(*context, algorithm, meshes, optimize);
  for (const Mutant &mutant : mutantsOf(*program)) {
    SCOPED_TRACE(mutant.what);
    for (const Sizes &mesh : meshes)
      compare(*mutant.program, mesh, "shared", tally);
  }
  EXPECT_GT(tally.numRuns, tally.numProved);
}

class HeavyRunOfEvery : public EveryAlgorithm {};
class RandomPrograms : public testing::TestWithParam<int> {};

} // namespace

TEST_P(EveryAlgorithm, HasTheVerdictOfEachRankByItselfAndSoDoItsMutants) {
  compareShipped(GetParam(), allMeshes(GetParam(), 12));
  compareMutants(GetParam(), {meshesOf(GetParam())[2]}, true);
}

TEST_P(HeavyRunOfEvery, AlgorithmHasThatVerdictOnAllMeshesOfUpTo64Ranks) {
  compareShipped(GetParam(), allMeshes(GetParam(), 64));
}

TEST_P(HeavyRunOfEvery, MutantHasThatVerdict) {
  for (bool optimize : {true, false})
    compareMutants(GetParam(), meshesOf(GetParam()), optimize);
}

/// Whether one of all calls is refuted.
bool isProved(ProgramOp program, const Sizes &mesh, CheckOptions options) {
  options.wantSteps = false;
  return checkProgram(program, mesh, options).isProved();
}

/// A program that is proved does no harm, whatever the order. How often one that is refuted does harm is counted.
void judge(ProgramOp program, const Sizes &mesh, uint64_t seed, Tally &tally) {
  constexpr int64_t numInterleavings = 40;
  bool isRight = isProved(program, mesh, {});
  std::optional<Harm> harm = Judge(program.getCollective(), mesh, seed).firstHarm(program, numInterleavings);
  EXPECT_FALSE(isRight && harm) << harm->text();
  ++tally.numJudged;
  tally.numRefuted += !isRight;
  tally.numHarmful += harm.has_value();
}

using MakeProgram = RandomProgram (*)(std::mt19937 &);

static Tally compareRandom(MakeProgram make, int numPrograms, int seed) {
  std::mt19937 random(unsigned(seed) + 1);
  Tally tally;
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  for (int i = 0; i < numPrograms && !testing::Test::HasFailure(); ++i) {
    RandomProgram made = make(random);
    SCOPED_TRACE(made.text);
    auto module = mlir::parseSourceString<mlir::ModuleOp>(made.text, context.get());
    EXPECT_TRUE(module);
    if (!module)
      continue;
    ProgramOp program = *module->getOps<ProgramOp>().begin();
    compare(program, made.mesh, i % 2 ? "shared" : "network:nics=4", tally);
    judge(program, made.mesh, uint64_t(seed), tally);
  }
  std::cout << tally.numRuns << " runs, " << tally.numProved << " proved, " << tally.numSymmetric << " symmetric, "
            << tally.numWithLongRuns << " with runs of chunks; of " << tally.numJudged << " programs, "
            << tally.numRefuted << " refuted, " << tally.numHarmful << " harmful\n";
  EXPECT_GT(tally.numRuns, numPrograms / 2);
  EXPECT_GT(tally.numProved, 0);
  EXPECT_LT(tally.numRefuted, tally.numJudged);
  EXPECT_GT(tally.numHarmful, tally.numRefuted / 2);
  return tally;
}

TEST_P(RandomPrograms, HaveOneVerdict) {
  Tally tally = compareRandom(randomProgram, 1000, GetParam());
  EXPECT_GT(tally.numSymmetric, tally.numRuns / 4);
  EXPECT_GT(tally.numAgreeingByOrigin, 0);
}

TEST_P(RandomPrograms, OfManyChunksHaveOneVerdict) {
  Tally tally = compareRandom(randomBroadcast, 300, GetParam());
  EXPECT_GT(tally.numWithLongRuns, tally.numRuns / 4);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, HeavyRunOfEvery, testing::ValuesIn(algorithmNames()),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Thousands, RandomPrograms, testing::Range(0, 10));
