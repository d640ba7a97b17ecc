// Every algorithm as a plugin gives, on real ranks, what its collective is defined to give, and touches nothing else.
#include "Shipped.h"

#include "../runtime/Ranks.h"

#include <algorithm>

using namespace kolo::conformance;
using namespace kolo::reference;
using kolo::test::Launch;
using kolo::test::ScopedVariable;

namespace {

constexpr int timeoutMs = 60000; // generous: many ranks on few cores

/// The last one is many times a page, and smaller where many ranks share the machine.
std::vector<int64_t> countsFor(CompiledAlgorithm &algorithm, const Sizes &mesh) {
  int64_t numRanks = 1;
  for (int64_t size : mesh)
    numRanks *= size;
  int64_t most = 140002 / (numRanks * algorithm.numBlocks(mesh));
  return {0, 1, 3, 17, 255, 1000, std::clamp<int64_t>(most, 2001, 70001) | 1};
}

std::string describeMesh(const Sizes &mesh) {
  std::string text = "mesh";
  for (int64_t size : mesh)
    text += " " + std::to_string(size);
  return text;
}

/// Runs an algorithm's cases, back to back wherever lanes and memory allow.
class Runner {
public:
  Runner(const std::string &name, bool optimize, const kolo::Schedule &schedule = {})
      : algorithm(name, optimize, schedule), definition(definitionOf(name)) {}

  CompiledAlgorithm algorithm;
  const kolo::dsl::Definition &definition;
  int64_t numCalls = 0;

  void run(Launch kind, const Sizes &mesh, std::vector<Case> cases) {
    std::map<std::pair<int, bool>, std::vector<Case>> batches;
    for (const Case &choices : cases)
      batches[{choices.lanes, choices.inWindow}].push_back(choices);
    for (auto &[key, batch] : batches) {
      std::shuffle(batch.begin(), batch.end(), random);
      // In pieces, so that the data of a piece fits into memory.
      constexpr size_t pieceSize = 48;
      for (size_t first = 0; first < batch.size() && !testing::Test::HasFailure(); first += pieceSize)
        runPiece(kind, mesh, llvm::ArrayRef(batch).slice(first, std::min(pieceSize, batch.size() - first)));
    }
  }

private:
  void runPiece(Launch kind, const Sizes &mesh, llvm::ArrayRef<Case> cases) {
    std::vector<PreparedCase> prepared;
    for (const Case &choices : cases)
      prepared.push_back(prepare(choices, algorithm.collective(), mesh, random()));
    kolo::runtime::Mesh named = namedMesh(definition, mesh);
    uint64_t seed = random();
    auto body = [&](kolo::runtime::Communicator &communicator) -> std::string {
      Caller caller(communicator, algorithm.plugin(), named, seed);
      if (std::string wrong = caller.allocate(prepared); !wrong.empty())
        return wrong;
      for (const PreparedCase &call : prepared)
        if (std::string wrong = caller.call(call); !wrong.empty())
          return wrong + " (" + call.choices.describe() + ")";
      // Nobody leaves, and takes its memory along, while others are still in a call.
      kolo::runtime::Status status = communicator.barrier();
      return status.isOk() ? "" : status.message();
    };
    kolo::runtime::CommunicatorOptions options{timeoutMs, cases.front().lanes};
    EXPECT_EQ(kolo::test::runRanks(kind, named.numRanks(), options, body), "")
        << definition.name << ", " << describeMesh(mesh) << ", KOLO_SEED=" << testSeed();
    numCalls += int64_t(cases.size());
  }

  std::mt19937_64 random{testSeed()};
};

/// Every type with every count; the rest as dealt.
std::vector<Case> dealCases(CaseDealer &dealer, CompiledAlgorithm &algorithm, const Sizes &mesh) {
  dealer.setGroup(algorithm.groupSize(mesh));
  std::vector<Case> cases;
  for (ElementType type : allElementTypes)
    for (auto [number, count] : llvm::enumerate(countsFor(algorithm, mesh)))
      cases.push_back(dealer.deal(type, number, count));
  return cases;
}

/// Every combination of everything, with up to four roots.
std::vector<Case> allCases(CompiledAlgorithm &algorithm, const Sizes &mesh, bool inWindow) {
  std::vector<Case> cases;
  auto reductions =
      algorithm.info().reduces ? llvm::ArrayRef(allReductions) : llvm::ArrayRef(allReductions).take_front();
  int64_t size = algorithm.isRooted() ? algorithm.groupSize(mesh) : 1;
  std::set<int64_t> roots = {0, 1 % size, size / 2, size - 1};
  for (ElementType type : allElementTypes)
    for (int64_t count : countsFor(algorithm, mesh))
      for (Reduction reduction : reductions)
        for (int64_t root : roots)
          for (int lanes : {1, 2, 3})
            for (bool isInPlace : {false, true})
              cases.push_back({type, count, reduction, root, lanes, isInPlace, inWindow});
  return cases;
}

} // namespace

TEST_P(EveryAlgorithm, IsOnePluginForAllOfItsMeshes) {
  CompiledAlgorithm algorithm(GetParam(), /*optimize=*/true);
  ASSERT_EQ(algorithm.plugin().programs().size(), 1u);
  EXPECT_EQ(algorithm.info().meshes, meshesOf(definitionOf(GetParam())));
  EXPECT_GE(algorithm.info().meshes.size(), 2u);
}

/// Every type with every count on every mesh, and every pair of other choices.
static void runMatrix(Runner &runner, uint64_t seed) {
  CaseDealer dealer(seed, 1, runner.algorithm.isRooted());
  size_t numCounts = 0;
  for (const Sizes &mesh : meshesOf(runner.definition)) {
    numCounts = countsFor(runner.algorithm, mesh).size();
    runner.run(Launch::Threads, mesh, dealCases(dealer, runner.algorithm, mesh));
  }
  EXPECT_EQ(dealer.missingPairs(numCounts), "") << "choices that never met, KOLO_SEED=" << testSeed();
  testing::Test::RecordProperty("calls", int(runner.numCalls));
}

TEST_P(EveryAlgorithm, GivesTheReferencesResultOnEveryMeshForEveryTypeAndCount) {
  Runner runner(GetParam(), /*optimize=*/true);
  runMatrix(runner, testSeed());
}

TEST_P(EveryAlgorithm, GivesTheReferencesResultWithoutOptimization) {
  Runner runner(GetParam(), /*optimize=*/false);
  runMatrix(runner, testSeed() + 2);
}

TEST_P(EveryAlgorithm, GivesTheReferencesResultAmongProcesses) {
  Runner runner(GetParam(), /*optimize=*/true);
  CaseDealer dealer(testSeed() + 1, 1, runner.algorithm.isRooted());
  std::vector<Sizes> meshes = meshesOf(runner.definition);
  // A small mesh and a larger one; ordinary memory reached in both of the ways that there are.
  for (auto [mesh, memory] : {std::pair(meshes[meshes.size() / 2], "attach"), std::pair(meshes.back(), "staged")}) {
    ScopedVariable ordinary("KOLO_ORDINARY_MEMORY", memory);
    std::vector<Case> cases = dealCases(dealer, runner.algorithm, mesh);
    std::erase_if(cases, [](const Case &choices) { return (int(choices.type) + choices.count) % 3 != 0; });
    runner.run(Launch::Forked, mesh, cases);
  }
}

/// A spread of cases on every mesh.
static void runSpread(Runner &runner, uint64_t seed) {
  CaseDealer dealer(seed, 1, runner.algorithm.isRooted());
  for (const Sizes &mesh : meshesOf(runner.definition)) {
    std::vector<Case> cases = dealCases(dealer, runner.algorithm, mesh);
    std::erase_if(cases, [](const Case &choices) { return (int(choices.type) + choices.count) % 5 != 0; });
    runner.run(Launch::Threads, mesh, cases);
  }
}

TEST_P(EveryAlgorithm, GivesTheReferencesResultWhenSlicesFollowEachOther) {
  Runner runner(GetParam(), /*optimize=*/true, {.pipelineDepth = 3});
  runSpread(runner, testSeed() + 3);
}

TEST_P(EveryAlgorithm, GivesTheReferencesResultWhenReceiversFetch) {
  Runner runner(GetParam(), /*optimize=*/true, {.transfers = kolo::Transfers::Pull});
  runSpread(runner, testSeed() + 4);
}

TEST_P(EveryAlgorithm, GivesTheReferencesResultWithCreditsOnly) {
  Runner runner(GetParam(), /*optimize=*/true, {.entry = kolo::Entry::Credits});
  runSpread(runner, testSeed() + 5);
}

/// One case in so many among threads, and a spread of them among processes, on every mesh.
static void runInBothLaunches(Runner &runner, uint64_t seed, int oneIn = 1) {
  CaseDealer dealer(seed, 1, runner.algorithm.isRooted());
  for (const Sizes &mesh : meshesOf(runner.definition))
    for (Launch kind : {Launch::Threads, Launch::Forked}) {
      std::vector<Case> cases = dealCases(dealer, runner.algorithm, mesh);
      int ratio = kind == Launch::Forked ? 3 * oneIn : oneIn;
      std::erase_if(cases, [&](const Case &choices) { return (int(choices.type) + choices.count) % ratio != 0; });
      runner.run(kind, mesh, cases);
    }
}

TEST_P(EveryPublishingAlgorithm, GivesTheReferencesResultOnEveryMesh) {
  Runner runner(GetParam(), /*optimize=*/true, {.protocol = kolo::Protocol::Published});
  runInBothLaunches(runner, testSeed() + 6);
}

TEST_P(EveryPacketAlgorithm, GivesTheReferencesResultOnEveryMesh) {
  Runner runner(name(), /*optimize=*/true, schedule());
  runInBothLaunches(runner, testSeed() + 7, /*oneIn=*/3);
}

TEST_P(EveryPacketAlgorithm, HeavyGivesTheReferencesResultOnEveryMesh) {
  Runner runner(name(), /*optimize=*/true, schedule());
  runInBothLaunches(runner, testSeed() + 8);
}

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
      runner.run(Launch::Threads, mesh, allCases(runner.algorithm, mesh, inWindow));
    numCalls += runner.numCalls;
  }
  RecordProperty("calls", int(numCalls));
}

TEST_P(EveryAlgorithm, HeavyGivesTheReferencesResultAmongProcessesOnEveryMesh) {
  Runner runner(GetParam(), /*optimize=*/true);
  CaseDealer dealer(testSeed() + 3, 1, runner.algorithm.isRooted());
  for (const char *memory : {"auto", "attach", "staged"}) {
    ScopedVariable ordinary("KOLO_ORDINARY_MEMORY", memory);
    for (const Sizes &mesh : meshesOf(runner.definition))
      runner.run(Launch::Forked, mesh, dealCases(dealer, runner.algorithm, mesh));
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryAlgorithm, testing::ValuesIn(algorithmNames()),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Algorithms, EveryPacketAlgorithm,
                         testing::Combine(testing::ValuesIn(packetAlgorithmNames()),
                                          testing::Values(kolo::Protocol::LL, kolo::Protocol::LL128)),
                         [](const auto &info) {
                           bool isLl128 = std::get<1>(info.param) == kolo::Protocol::LL128;
                           return std::get<0>(info.param) + (isLl128 ? "Ll128" : "Ll");
                         });
INSTANTIATE_TEST_SUITE_P(Algorithms, EveryPublishingAlgorithm, testing::ValuesIn(publishingAlgorithmNames()),
                         [](const auto &info) { return info.param; });
