// Every algorithm as a plugin gives, on real ranks, what its collective is defined to give, and touches nothing else.
#include "Shipped.h"

#include "tests/support/Reductions.h"

#include <algorithm>
#include <functional>
#include <numeric>

using namespace kolo::conformance;
using namespace kolo::reference;
using kolo::test::Launch;
using kolo::test::ScopedVariable;

namespace {

int64_t numRanksOf(const Sizes &mesh) { return std::reduce(mesh.begin(), mesh.end(), int64_t(1), std::multiplies()); }

/// The last one is many times a page, and smaller where many ranks share the machine.
std::vector<int64_t> countsFor(CompiledAlgorithm &algorithm, const Sizes &mesh) {
  int64_t most = 140002 / (numRanksOf(mesh) * algorithm.numBlocks(mesh));
  return {0, 1, 3, 17, 255, 1000, std::clamp<int64_t>(most, 2001, 70001) | 1};
}

/// Runs an algorithm's cases, back to back where they have the same setup.
class Runner {
public:
  Runner(const std::string &name, bool optimize, const kolo::Schedule &schedule = {})
      : algorithm(name, optimize, schedule), definition(definitionOf(name)) {}

  CompiledAlgorithm algorithm;
  const kolo::dsl::Definition &definition;
  int64_t numCalls = 0;

  /// Of calls on these meshes, among threads.
  CaseSpace spaceOf(std::vector<Sizes> meshes) {
    CaseSpace space;
    space.meshes = std::move(meshes);
    space.countsOf = [this](const Sizes &mesh) { return countsFor(algorithm, mesh); };
    space.groupSizeOf = [this](const Sizes &mesh) { return algorithm.groupSize(mesh); };
    space.isRooted = algorithm.isRooted();
    space.reductions = kolo::test::reductionsFor(algorithm.collective().getKind());
    return space;
  }

  /// Cases that have every pair of choices of the space, which is checked of those that ran.
  void runCover(const CaseSpace &space) {
    made.clear();
    for (auto &[setup, cases] : coverPairs(space, random()))
      run(setup, cases);
    EXPECT_EQ(missingPairs(space, made), "") << "choices that never met, KOLO_SEED=" << testSeed();
    testing::Test::RecordProperty("calls", int(numCalls));
  }

  void run(const Setup &setup, std::vector<Case> cases) {
    std::optional<ScopedVariable> ordinary;
    if (!setup.ordinaryMemory.empty())
      ordinary.emplace("KOLO_ORDINARY_MEMORY", setup.ordinaryMemory.c_str());
    std::shuffle(cases.begin(), cases.end(), random);
    // In pieces, so that the data of a piece fits into memory.
    constexpr size_t pieceSize = 48;
    for (size_t first = 0; first < cases.size() && !testing::Test::HasFailure(); first += pieceSize)
      runPiece(setup, llvm::ArrayRef(cases).slice(first, std::min(pieceSize, cases.size() - first)));
  }

private:
  void runPiece(const Setup &setup, llvm::ArrayRef<Case> cases) {
    std::vector<PreparedCase> prepared;
    for (const Case &choices : cases)
      prepared.push_back(prepare(choices, algorithm.collective(), setup.mesh, random()));
    kolo::runtime::Mesh named = namedMesh(definition, setup.mesh);
    uint64_t seed = random();
    auto body = [&](kolo::runtime::Communicator &communicator) {
      return Caller(communicator, algorithm.plugin(), named, seed).callAll(prepared);
    };
    EXPECT_EQ(kolo::test::runRanks(setup.launch, named.numRanks(), {timeoutMs, setup.lanes}, body), "")
        << definition.name << ", mesh " << kolo::test::textOf(setup.mesh) << ", KOLO_SEED=" << testSeed();
    numCalls += int64_t(cases.size());
    for (const Case &choices : cases)
      made.push_back(choices.numbers);
  }

  std::mt19937_64 random{testSeed()};
  std::vector<kolo::test::Choices> made;
};

/// Slices follow each other, receivers fetch, and credits alone say that peers have entered.
std::vector<kolo::Schedule> otherSchedules() {
  return {{.pipelineDepth = 3}, {.transfers = kolo::Transfers::Pull}, {.entry = kolo::Entry::Credits}};
}

/// Every combination of everything, with up to four roots.
std::map<Setup, std::vector<Case>> allCases(CompiledAlgorithm &algorithm, const Sizes &mesh, bool inWindow) {
  std::map<Setup, std::vector<Case>> cases;
  auto reductions = kolo::test::reductionsFor(algorithm.collective().getKind());
  if (!algorithm.info().reduces)
    reductions = reductions.take_front();
  int64_t size = algorithm.isRooted() ? algorithm.groupSize(mesh) : 1;
  std::set<int64_t> roots = {0, 1 % size, size / 2, size - 1};
  for (ElementType type : allElementTypes)
    for (int64_t count : countsFor(algorithm, mesh))
      for (Reduction reduction : reductions)
        for (int64_t root : roots)
          for (int lanes : {1, 2, 3})
            for (bool isInPlace : {false, true})
              cases[{mesh, Launch::Threads, "", lanes, inWindow}].push_back(
                  {type, count, reduction, root, lanes, isInPlace, inWindow});
  return cases;
}

} // namespace

/// Among threads on all meshes. Among processes on a small mesh and a larger one, of 8 ranks at most, where ordinary
/// memory is reached in both of the ways that there are. The label heavy starts processes on all meshes.
TEST_P(EveryAlgorithm, GivesTheReferencesResultForEveryPairOfChoices) {
  Runner runner(GetParam(), /*optimize=*/true);
  std::vector<Sizes> meshes = meshesOf(runner.definition);
  ASSERT_EQ(runner.algorithm.plugin().programs().size(), 1u); // for all of them
  EXPECT_EQ(runner.algorithm.info().meshes, meshes);
  EXPECT_GE(meshes.size(), 2u);
  runner.runCover(runner.spaceOf(meshes));
  std::erase_if(meshes, [](const Sizes &mesh) { return numRanksOf(mesh) > 8; });
  CaseSpace space = runner.spaceOf({meshes[meshes.size() / 2], meshes.back()});
  space.launches = {Launch::Forked};
  space.ordinaryMemory = {"attach", "staged"};
  runner.runCover(space);
}

// What the label heavy, which sets KOLO_SWEEP=all, does for all algorithms is done for examples by default.
using kolo::test::isExample;

TEST_P(EveryAlgorithm, GivesTheReferencesResultWithoutOptimization) {
  if (!isExample(GetParam()))
    GTEST_SKIP() << "with KOLO_SWEEP=all";
  Runner runner(GetParam(), /*optimize=*/false);
  runner.runCover(runner.spaceOf(meshesOf(runner.definition)));
}

/// One of three schedules, which the seed and the algorithm choose. Of each algorithm, the label heavy takes all.
/// PhaseTest.cpp runs slices that follow each other of all.
TEST_P(EveryAlgorithm, GivesTheReferencesResultWithAnotherSchedule) {
  if (!isExample(GetParam()))
    GTEST_SKIP() << "with KOLO_SWEEP=all";
  std::vector<std::string> names = sweptAlgorithmNames();
  size_t number = size_t(std::ranges::find(names, GetParam()) - names.begin());
  kolo::Schedule schedule = otherSchedules()[(testSeed() + number) % otherSchedules().size()];
  Runner runner(GetParam(), /*optimize=*/true, schedule);
  runner.runCover(runner.spaceOf(meshesOf(runner.definition)));
}

/// On all meshes, among threads and among processes.
static void runInBothLaunches(const std::string &name, const kolo::Schedule &schedule) {
  Runner runner(name, /*optimize=*/true, schedule);
  CaseSpace space = runner.spaceOf(meshesOf(runner.definition));
  space.launches = {Launch::Threads, Launch::Forked};
  runner.runCover(space);
}

TEST_P(EveryPublishingAlgorithm, GivesTheReferencesResultForEveryPairOfChoices) {
  runInBothLaunches(GetParam(), {.protocol = kolo::Protocol::Published});
}

/// MeansTheSameInBothPhases runs LL packets of all algorithms.
TEST_P(EveryPacketAlgorithm, GivesTheReferencesResultForEveryPairOfChoices) {
  if (!isExample(name()))
    GTEST_SKIP() << "with KOLO_SWEEP=all";
  runInBothLaunches(name(), schedule());
}

/// Every pair of choices on every single mesh, in every launch: every type with every count, and so on.
static void runOnEveryMesh(const std::string &name, const kolo::Schedule &schedule) {
  Runner runner(name, /*optimize=*/true, schedule);
  for (const Sizes &mesh : meshesOf(runner.definition))
    for (Launch launch : {Launch::Threads, Launch::Forked}) {
      CaseSpace space = runner.spaceOf({mesh});
      space.launches = {launch};
      runner.runCover(space);
    }
}

TEST_P(EveryAlgorithm, HeavyGivesTheReferencesResultOnEveryMeshWithEverySchedule) {
  for (const kolo::Schedule &schedule : otherSchedules())
    runOnEveryMesh(GetParam(), schedule);
}

TEST_P(EveryPublishingAlgorithm, HeavyGivesTheReferencesResultOnEveryMesh) {
  runOnEveryMesh(GetParam(), {.protocol = kolo::Protocol::Published});
}

TEST_P(EveryPacketAlgorithm, HeavyGivesTheReferencesResultOnEveryMesh) { runOnEveryMesh(name(), schedule()); }

/// Data that LL128 sends is chosen to look like LL packets of the call after the next, which uses the same turn of the
/// memory.
TEST(PacketsOfBothFormats, AreNotTakenForEachOther) {
  CompiledAlgorithm ll("allPairsAllGather", /*optimize=*/true, {.protocol = kolo::Protocol::LL});
  CompiledAlgorithm ll128("allPairsAllGather", /*optimize=*/true, {.protocol = kolo::Protocol::LL128});
  constexpr size_t count = 1000;
  auto body = [&](kolo::runtime::Communicator &communicator) -> std::string {
    kolo::runtime::CallArguments arguments;
    arguments.mesh = namedMesh(definitionOf("allPairsAllGather"), {2});
    arguments.count = int64_t(count), arguments.type = kolo::runtime::DataType::U64;
    std::vector<uint64_t> input(count), output(2 * count);
    arguments.input = input.data(), arguments.output = output.data();
    for (uint64_t run = 0; run < 200; ++run) {
      bool isLl128 = run % 4 < 2;
      uint64_t value = isLl128 ? (run + 3) << 32 : run;
      std::ranges::fill(input, value + uint64_t(communicator.rank()));
      kolo::runtime::Status status = communicator.run((isLl128 ? ll128 : ll).plugin(), arguments);
      if (!status.isOk())
        return status.message();
      for (size_t i = 0; i < output.size(); ++i)
        if (output[i] != value + i / count)
          return "call " + std::to_string(run) + ", element " + std::to_string(i) + " is " + std::to_string(output[i]);
    }
    return "";
  };
  EXPECT_EQ(kolo::test::runRanks(Launch::Threads, 2, {timeoutMs, 1}, body), "");
}

TEST(Caller, NoticesEveryByteThatIsNotAsExpected) {
  CompiledAlgorithm algorithm("ringAllGather", /*optimize=*/true);
  kolo::runtime::Mesh mesh = namedMesh(definitionOf("ringAllGather"), {2});
  PreparedCase right =
      prepare({ElementType::I32, 5, Reduction::Sum, 0, 1, false, false}, algorithm.collective(), {2}, 0);
  size_t numBytes = right.expected[0]->size();
  for (size_t wrongByte = 0; wrongByte <= numBytes; ++wrongByte) { // the last time, all are right
    PreparedCase prepared = right;
    if (wrongByte < numBytes)
      (*prepared.expected[0])[wrongByte] ^= std::byte(1);
    auto body = [&](kolo::runtime::Communicator &communicator) {
      Caller caller(communicator, algorithm.plugin(), mesh, wrongByte);
      return caller.allocate(prepared) + caller.call(prepared);
    };
    std::string said = kolo::test::runRanks(Launch::Threads, 2, {timeoutMs, 1}, body);
    std::string wanted = "rank 0: byte " + std::to_string(wrongByte) + " of the output is";
    EXPECT_TRUE(wrongByte == numBytes ? said.empty() : said.starts_with(wanted)) << said;
  }
}

TEST(Caller, NoticesWritesOutsideOfItsBuffers) {
  CompiledAlgorithm algorithm("ringAllGather", /*optimize=*/true);
  kolo::runtime::Mesh mesh = namedMesh(definitionOf("ringAllGather"), {2});
  // Data for one element less than the call has.
  PreparedCase prepared =
      prepare({ElementType::I32, 5, Reduction::Sum, 0, 1, false, false}, algorithm.collective(), {2}, 0);
  for (size_t rank : {0u, 1u}) {
    prepared.simulated.outputs[rank].resize(prepared.simulated.outputs[rank].size() - 4);
    prepared.expected[rank]->resize(prepared.expected[rank]->size() - 4);
  }
  auto body = [&](kolo::runtime::Communicator &communicator) {
    Caller caller(communicator, algorithm.plugin(), mesh, 1);
    return caller.allocate(prepared) + caller.call(prepared);
  };
  std::string said = kolo::test::runRanks(Launch::Threads, 2, {timeoutMs, 1}, body);
  EXPECT_TRUE(said.starts_with("rank 0: behind the output is")) << said;
}

TEST_P(EveryAlgorithm, HeavyGivesTheReferencesResultForEveryCombination) {
  int64_t numCalls = 0;
  for (auto [optimize, inWindow] : {std::pair(true, false), std::pair(true, true), std::pair(false, false)}) {
    Runner runner(GetParam(), optimize);
    for (const Sizes &mesh : meshesOf(runner.definition))
      for (const auto &[setup, cases] : allCases(runner.algorithm, mesh, inWindow))
        runner.run(setup, cases);
    numCalls += runner.numCalls;
  }
  RecordProperty("calls", int(numCalls));
}

TEST_P(EveryAlgorithm, HeavyGivesTheReferencesResultAmongProcessesOnEveryMesh) {
  Runner runner(GetParam(), /*optimize=*/true);
  for (const Sizes &mesh : meshesOf(runner.definition)) {
    CaseSpace space = runner.spaceOf({mesh});
    space.launches = {Launch::Forked};
    space.ordinaryMemory = {"auto", "attach", "staged"};
    runner.runCover(space);
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryAlgorithm, testing::ValuesIn(sweptAlgorithmNames()),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Algorithms, EveryPacketAlgorithm,
                         testing::Combine(testing::ValuesIn(packetAlgorithmNames()),
                                          testing::Values(kolo::Protocol::LL)),
                         [](const auto &info) { return std::get<0>(info.param) + "Ll"; });
INSTANTIATE_TEST_SUITE_P(Lines, EveryPacketAlgorithm,
                         testing::Combine(testing::ValuesIn(kolo::test::exampleNames(packetAlgorithmNames())),
                                          testing::Values(kolo::Protocol::LL128)),
                         [](const auto &info) { return std::get<0>(info.param) + "Ll128"; });
INSTANTIATE_TEST_SUITE_P(Algorithms, EveryPublishingAlgorithm, testing::ValuesIn(publishingAlgorithmNames()),
                         [](const auto &info) { return info.param; });
