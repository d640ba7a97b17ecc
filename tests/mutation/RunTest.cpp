// The checker's machine against the oracle, which holds a plain vector clock of all ranks and a bit per contribution:
// the same conflicts in the same order, the same blocked ranks and the same wrong output, and the same answer where
// every rank is followed by itself. For the shipped programs, their mutants, and random programs.
#include "Litmus.h"
#include "Mutants.h"
#include "RandomPrograms.h"
#include "Shipped.h"
#include "oracle/DenseRun.h"

#include "compiler/model/Unfold.h"

#include "mlir/Parser/Parser.h"

using namespace kolo;
using namespace kolo::mutation;

namespace {

std::string describe(const VectorClockResult &result) {
  std::string text;
  llvm::raw_string_ostream out(text);
  for (const Blocked &blocked : result.blocked)
    out << "blocked " << blocked.moment.rank << "@" << blocked.moment.time << " " << blocked.numSignals.value_or(-1)
        << "\n";
  for (const Conflict &conflict : result.conflicts)
    out << "conflict " << conflict.earlier.rank << "@" << conflict.earlier.time
        << (conflict.isEarlierWrite ? "w " : "r ") << conflict.later.rank << "@" << conflict.later.time
        << (conflict.isLaterWrite ? "w" : "r") << (conflict.isOrderedByPuts ? " by puts " : " ") << conflict.owner
        << ":" << conflict.buffer << ":" << conflict.chunk << "\n";
  if (result.wrongOutput)
    out << "output " << result.wrongOutput->rank << ":" << result.wrongOutput->chunk << " in call "
        << result.wrongOutput->call << ": " << result.wrongOutput->held << " for " << result.wrongOutput->wanted
        << " by " << result.wrongOutput->op << "\n";
  if (result.ranksAgreeBitwise)
    out << (*result.ranksAgreeBitwise ? "one order\n" : "several orders\n");
  if (result.ended)
    out << "ended early\n";
  return text;
}

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
  EXPECT_EQ(describe(result), describe(oracle::DenseRun(tracer, *traced, options).run()));
  VectorClockResult plain = oracle::DenseRun(again, *each, options).run();
  EXPECT_EQ(answerOf(result), answerOf(plain)) << describe(result) << "and for each rank by itself\n"
                                               << describe(plain);
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

class HeavyOracleAndEvery : public EveryAlgorithm {};
class OracleAndRandomPrograms : public testing::TestWithParam<int> {};

} // namespace

TEST_P(EveryAlgorithm, HasTheOraclesVerdictAndSoDoItsMutants) {
  compareShipped(GetParam(), allMeshes(GetParam(), 12));
  compareMutants(GetParam(), {meshesOf(GetParam())[2]}, true);
}

TEST_P(HeavyOracleAndEvery, AlgorithmHasItsVerdictOnAllMeshesOfUpTo64Ranks) {
  compareShipped(GetParam(), allMeshes(GetParam(), 64));
}

TEST_P(HeavyOracleAndEvery, MutantHasItsVerdict) {
  for (bool optimize : {true, false})
    compareMutants(GetParam(), meshesOf(GetParam()), optimize);
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
    if (module)
      compare(*module->getOps<ProgramOp>().begin(), made.mesh, i % 2 ? "shared" : "network:nics=4", tally);
  }
  std::cout << tally.numRuns << " runs, " << tally.numProved << " proved, " << tally.numSymmetric << " symmetric, "
            << tally.numWithLongRuns << " with runs of chunks, " << tally.numAgreeingByOrigin << " agree by origin\n";
  EXPECT_GT(tally.numRuns, numPrograms / 2);
  EXPECT_GT(tally.numProved, 0);
  return tally;
}

TEST_P(OracleAndRandomPrograms, HaveOneVerdict) {
  Tally tally = compareRandom(randomProgram, 1000, GetParam());
  EXPECT_GT(tally.numSymmetric, tally.numRuns / 4);
  EXPECT_GT(tally.numAgreeingByOrigin, 0);
}

TEST_P(OracleAndRandomPrograms, OfManyChunksHaveOneVerdict) {
  Tally tally = compareRandom(randomBroadcast, 300, GetParam());
  EXPECT_GT(tally.numWithLongRuns, tally.numRuns / 4);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, HeavyOracleAndEvery, testing::ValuesIn(algorithmNames()),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Thousands, OracleAndRandomPrograms, testing::Range(0, 10));
