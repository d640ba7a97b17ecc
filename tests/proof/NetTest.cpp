// Whatever the channel pipeline takes as proved is proved on the mesh itself, with all slices, however little its
// guesses look at; and right choreographies are taken.
#include "Compiled.h"
#include "RandomChoreographies.h"

#include "tests/support/Support.h"

#include "llvm/ADT/StringExtras.h"

#include <iostream>

using namespace kolo;
using namespace kolo::proof;
using test::EveryAlgorithm;
using test::makeContext;
using test::testSeed;

namespace {

struct Tally {
  int64_t numProved = 0, numBeyond = 0, numRefused = 0;
  void print(const std::string &name) const {
    std::cout << name << ": " << numProved << " proved, " << numBeyond << " beyond the budget, " << numRefused
              << " that a schedule does not suit\n";
  }
};

/// Of a right choreography. Only a small budget, or a protocol that does not suit it, may stop it.
void examine(mlir::MLIRContext &context, const dsl::Definition &definition, const Sizes &mesh,
             const CompileSetup &setup, Tally &tally, int64_t numInterleavings = 2) {
  SCOPED_TRACE(definition.name + " on " + test::textOf(mesh) + ", " + setup.text());
  Compiled compiled(context, definition, mesh, setup);
  if (compiled.isAccepted()) {
    ++tally.numProved;
    EXPECT_EQ(doubtsAbout(*compiled, mesh, numInterleavings), std::vector<std::string>());
    return;
  }
  if (setup.schedule.protocol != Protocol::Bulk && test::isProtocolUnsuited(compiled.said())) {
    ++tally.numRefused;
    return;
  }
  ++tally.numBeyond;
  EXPECT_LT(setup.budget, PipelineOptions().budget) << compiled.said();
  EXPECT_NE(compiled.said().find("cannot be checked"), std::string::npos) << compiled.said();
}

void examineRandom(mlir::MLIRContext &context, uint64_t seed, const CompileSetup &setup, Tally &tally) {
  RandomChoreography random = randomChoreography(seed);
  SCOPED_TRACE("choreography " + std::to_string(seed) + ": " + random.what);
  examine(context, random.definition, random.mesh, setup, tally);
}

/// All meshes of 2 to 16 ranks that an algorithm takes.
std::vector<Sizes> meshesOf(const std::string &algorithm) {
  constexpr int64_t maxRanks = 16;
  std::vector<Sizes> meshes{{}};
  auto numRanks = [](const Sizes &mesh) {
    int64_t ranks = 1;
    for (int64_t size : mesh)
      ranks *= size;
    return ranks;
  };
  for (size_t dim = 0; dim < test::definitionOf(algorithm).mesh.dims.size(); ++dim) {
    std::vector<Sizes> longer;
    for (const Sizes &sizes : meshes)
      for (int64_t size = 1; numRanks(sizes) * size <= maxRanks; ++size) {
        longer.push_back(sizes);
        longer.back().push_back(size);
      }
    meshes = std::move(longer);
  }
  std::erase_if(meshes, [&](const Sizes &mesh) { return numRanks(mesh) < 2; });
  return test::allowedMeshes(algorithm, meshes);
}

constexpr int64_t depths[] = {1, 2, 3, 4, 8, 16, 32, 64};

/// Every depth, over shared memory and over a network, with small guesses and with those that ship.
std::vector<CompileSetup> allSetups() {
  std::vector<CompileSetup> setups;
  for (int64_t depth : depths)
    for (bool usesNetwork : {false, true})
      for (int64_t guessBudget : {0, 64}) {
        CompileSetup setup;
        setup.schedule.pipelineDepth = depth;
        setup.usesNetwork = usesNetwork;
        setup.guessBudget = guessBudget;
        setups.push_back(setup);
      }
  return setups;
}

/// Their results are rounded, which the reference interpreter's expectation is not.
class EveryCodedAlgorithm : public EveryAlgorithm {};
class RandomNet : public testing::TestWithParam<int> {};
constexpr int numAtOnce = 25;
class HeavyRandomNet : public testing::TestWithParam<int> {};
class HeavyShippedNet : public EveryAlgorithm {};

} // namespace

TEST_P(EveryAlgorithm, IsProvedItselfWhateverGuessesLookAt) {
  auto context = makeContext();
  std::vector<Sizes> meshes = meshesOf(GetParam());
  Tally tally;
  uint64_t seed = testSeed() + std::hash<std::string>()(GetParam());
  examine(*context, test::definitionOf(GetParam()), meshes[seed / 16 % meshes.size()], randomSetup(seed), tally);
}

TEST_P(EveryCodedAlgorithm, IsProvedItselfWhateverGuessesLookAt) {
  auto context = makeContext();
  std::vector<Sizes> meshes = meshesOf(GetParam());
  Tally tally;
  for (uint64_t seed = testSeed(), end = seed + 4; seed < end; ++seed)
    examine(*context, test::definitionOf(GetParam()), meshes[seed / 16 % meshes.size()], randomSetup(seed), tally, 0);
}

TEST_P(RandomNet, IsProvedItselfWhateverGuessesLookAt) {
  auto context = makeContext();
  Tally tally;
  for (uint64_t seed = testSeed() + uint64_t(GetParam()), end = seed + numAtOnce; seed < end; ++seed)
    examineRandom(*context, seed, randomSetup(seed), tally);
  tally.print("random");
  EXPECT_GT(tally.numProved, numAtOnce / 2);
}

namespace {

/// Of which few slices, and small meshes, need less than the whole.
CompileSetup setupOfScatter() {
  CompileSetup setup;
  setup.schedule.pipelineDepth = 64;
  setup.setting.runners = Runners::Host;
  return setup;
}

bool anyContains(const std::vector<std::string> &texts, const std::string &part) {
  return llvm::any_of(texts, [&](const std::string &text) { return text.find(part) != std::string::npos; });
}

} // namespace

TEST(AGuess, IsMadeAgainInFullWhereTheMeshNeedsMore) {
  auto context = makeContext();
  Tally tally;
  examine(*context, test::definitionOf("binomialScatter"), {13}, setupOfScatter(), tally, 1);
  EXPECT_EQ(tally.numProved, 1);
}

/// What the compiler would pack if it did not confirm what guesses find.
TEST(TheNet, TearsWhereGuessesAreNotConfirmed) {
  auto context = makeContext();
  CompileSetup setup = setupOfScatter();
  setup.isOnlyGuess = true;
  Compiled compiled(*context, test::definitionOf("binomialScatter"), {13}, setup);
  ASSERT_TRUE(compiled.isAccepted()) << compiled.said();
  std::vector<std::string> doubts = doubtsAbout(*compiled, {13}, 60);
  EXPECT_TRUE(anyContains(doubts, "it has no proof"));
  EXPECT_TRUE(anyContains(doubts, "the checker without limits"));
  EXPECT_TRUE(anyContains(doubts, "ranks by themselves have a race"));
  std::cout << llvm::join(doubts, "\n") << "\n";
}

/// What it would pack if a smaller mesh stood for the mesh.
TEST(TheNet, TearsWhereASmallerMeshStandsForTheMesh) {
  auto context = makeContext();
  CompileSetup setup;
  setup.represented = true;
  setup.budget = 80;
  Compiled compiled(*context, test::definitionOf("ringAllGather"), {16}, setup);
  ASSERT_TRUE(compiled.isAccepted()) << compiled.said();
  EXPECT_TRUE(anyContains(doubtsAbout(*compiled, {16}, 1), "its proof is of"));
}

TEST_P(HeavyRandomNet, IsProvedItselfInEverySetup) {
  auto context = makeContext();
  Tally tally;
  for (const CompileSetup &setup : allSetups())
    examineRandom(*context, testSeed() + uint64_t(GetParam()), setup, tally);
  for (uint64_t i = 0; i < 16; ++i)
    examineRandom(*context, testSeed() + uint64_t(GetParam()), randomSetup(testSeed() + 1000 * i), tally);
  tally.print("random");
}

TEST_P(HeavyShippedNet, IsProvedItselfInEverySetup) {
  auto context = makeContext();
  Tally tally;
  for (const Sizes &mesh : meshesOf(GetParam()))
    for (const CompileSetup &setup : allSetups())
      examine(*context, test::definitionOf(GetParam()), mesh, setup, tally,
              usesCodecs(test::definitionOf(GetParam())) ? 0 : 1);
  tally.print(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryAlgorithm, testing::ValuesIn(test::sweptAlgorithmNames()),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Algorithms, EveryCodedAlgorithm, testing::ValuesIn(test::codedAlgorithmNames()),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Sample, RandomNet, testing::Range(0, 200, numAtOnce));
INSTANTIATE_TEST_SUITE_P(Algorithms, HeavyShippedNet, testing::ValuesIn(test::algorithmNames()),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(CodedAlgorithms, HeavyShippedNet, testing::ValuesIn(test::codedAlgorithmNames()),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(All, HeavyRandomNet, testing::Range(0, 200));
