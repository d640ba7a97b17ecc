// The code that all device targets share gives what the collectives are defined to give: every shipped algorithm, on
// the host.
#include "EmulatedRanks.h"

#include "tests/support/Algorithms.h"
#include "tests/support/PairwiseCover.h"
#include "tests/support/Reductions.h"

#include "compiler/Pipeline.h"
#include "compiler/lower/PacketFormat.h"
#include "ir/reference/Oracle.h"
#include "kolo/dsl/Registry.h"
#include "targets/cpu/CpuTarget.h"
#include "targets/gpu/DeviceFunctions.h"
#include "tests/runtime/device/standin/Blocks.h"

#include <chrono>
#include <map>
#include <random>
#include <set>

using namespace kolo;
using namespace kolo::test;

namespace {

/// Small, as the number of the host's threads is, so that there are several groups.
/// An algorithm in channel form, and compiled.
class Algorithm : public EmulatedProgram {
public:
  Algorithm(const std::string &name, const DeviceOptions &options, const Schedule &schedule = {},
            int64_t listEntries = gpu::mostListEntries)
      : context(makeContext()) {
    this->name = name;
    format = schedule.protocol == Protocol::LL128 ? ll128Packets : llPackets;
    cpu::loadCpuTarget(*context);
    mesh = smallMesh(definitionOf(name));
    module = emit(*context, name, {mesh});
    mlir::PassManager manager(context.get(), mlir::ModuleOp::getOperationName());
    buildChannelPipeline(manager, {.schedule = std::get<ResolvedSchedule>(resolve(schedule, {})), .check = false});
    if (failed(manager.run(*module)))
      llvm::report_fatal_error("no channel program");
    program = *module->getOps<ProgramOp>().begin();
    emulator = std::make_unique<Emulator>(*module, options, emulatedGroupSize, listEntries);
  }

private:
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace

class EmulatedAlgorithm : public testing::TestWithParam<std::string> {};
class EmulatedPacketAlgorithm : public testing::TestWithParam<std::string> {};
class EmulatedLl128Algorithm : public testing::TestWithParam<std::string> {};

/// What a test calls algorithms with. The first five factors of a case are lanes, groups of threads, type, count,
/// reduction; the sixth is the algorithm.
struct Calls {
  std::vector<std::string> algorithms;
  std::vector<int64_t> counts;
  int numBackToBack;

  std::vector<size_t> extents() const {
    return {2, 2, std::size(reference::allElementTypes), counts.size(), std::size(reference::allReductions)};
  }
  /// The algorithm's cases of those in which all pairs of choices occur, which the other algorithms share.
  std::vector<Choices> sharedCover(const std::string &algorithm) const {
    auto number = size_t(llvm::find(algorithms, algorithm) - algorithms.begin());
    std::vector<size_t> withAlgorithm = extents();
    withAlgorithm.push_back(algorithms.size());
    static std::map<std::vector<size_t>, std::vector<Choices>> covers; // which many tests of a process share
    auto [cover, isNew] = covers.try_emplace(withAlgorithm);
    if (isNew)
      cover->second = pairwiseCover(withAlgorithm, 2, 7);
    std::vector<Choices> cases = cover->second;
    EXPECT_TRUE(missingPairs(withAlgorithm, cases).empty());
    std::erase_if(cases, [&](const Choices &choices) { return choices[5] != number; });
    return cases;
  }
  /// Cases in which all pairs of choices occur, for one algorithm.
  std::vector<Choices> ownCover() const { return pairwiseCover(extents(), 2, 7); }
};

KoloReduction reductionOf(const Choices &choices, CollectiveKind kind) {
  const llvm::ArrayRef<reference::Reduction> reductions = reductionsFor(kind);
  return KoloReduction(reductions[choices[4] % reductions.size()]);
}

/// The types and reductions that the cases have.
DeviceOptions optionsFor(const std::vector<Choices> &cases, CollectiveKind kind) {
  std::set<KoloType> types;
  std::set<KoloReduction> reductions;
  for (const Choices &choices : cases) {
    types.insert(KoloType(reference::allElementTypes[choices[2]]));
    reductions.insert(reductionOf(choices, kind));
  }
  return {{types.begin(), types.end()}, {reductions.begin(), reductions.end()}, Accumulation::F32};
}

/// Makes each call so many times back to back, and all calls of one shape of launch one after the other.
void runCalls(const std::string &name, Protocol protocol, const Calls &calls, const std::vector<Choices> &cases) {
  const auto kind = CollectiveKind(int(definitionOf(name).collective.kind));
  Algorithm algorithm(name, optionsFor(cases, kind), {.protocol = protocol});
  std::mt19937_64 random(7);
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<EmulatedRanks>> byShape;
  int64_t multiple = algorithm.format == ll128Packets ? gpu::threadsPerLine : emulatedGroupSize;
  for (const Choices &choices : cases) {
    LaunchShape shape{1 + int64_t(choices[0]), multiple * (1 + int64_t(choices[1]))};
    std::unique_ptr<EmulatedRanks> &ranks = byShape[{shape.lanes, shape.threads}];
    if (!ranks)
      ranks = std::make_unique<EmulatedRanks>(algorithm, shape);
    ranks->call.type = reference::allElementTypes[choices[2]];
    ranks->call.count = calls.counts[choices[3]];
    ranks->call.reduction = reference::Reduction(reductionOf(choices, ranks->call.collective.getKind()));
    if (hasRoot(ranks->call.collective.getKind()))
      ranks->call.root = int64_t(random() % uint64_t(reference::groupSize(ranks->call)));
    ASSERT_EQ(ranks->run(calls.numBackToBack, random()), "")
        << nameOf(ranks->call.type).str() << " " << nameOf(ranks->call.reduction).str() << ", count "
        << ranks->call.count << ", " << shape.lanes << " lanes of " << shape.threads << " threads";
  }
}

Calls bulkCalls() { return {sweptAlgorithmNames(), {0, 1, 17, 255, 1000, 3001}, 2}; }
/// The third call is the first to use memory again.
Calls packetCalls() { return {exampleNames(packetAlgorithmNames()), {0, 1, 17, 1000}, 3}; }
/// Five calls: each of the two turns is used again.
Calls ll128Calls(int64_t longest = 333) {
  return {{"binomialBroadcast", "ringAllGather", "ringReduceScatter", "twoShotAllReduce"}, {0, 1, 31, longest}, 5};
}

TEST_P(EmulatedAlgorithm, GivesTheReferencesResultForAllTypesAndAwkwardCountsBackToBack) {
  runCalls(GetParam(), Protocol::Bulk, bulkCalls(), bulkCalls().sharedCover(GetParam()));
}

TEST_P(EmulatedPacketAlgorithm, GivesTheReferencesResultForAllTypesAndAwkwardCountsBackToBack) {
  runCalls(GetParam(), Protocol::LL, packetCalls(), packetCalls().sharedCover(GetParam()));
}

TEST_P(EmulatedLl128Algorithm, GivesTheReferencesResultForAllTypesAndAwkwardCountsBackToBack) {
  runCalls(GetParam(), Protocol::LL128, ll128Calls(), ll128Calls().sharedCover(GetParam()));
}

TEST_P(EmulatedAlgorithm, HeavyGivesTheReferencesResultForEveryTypeWithEveryCount) {
  runCalls(GetParam(), Protocol::Bulk, bulkCalls(), bulkCalls().ownCover());
}

TEST_P(EmulatedPacketAlgorithm, HeavyGivesTheReferencesResultForEveryTypeWithEveryCount) {
  runCalls(GetParam(), Protocol::LL, packetCalls(), packetCalls().ownCover());
}

TEST_P(EmulatedLl128Algorithm, HeavyGivesTheReferencesResultForEveryTypeWithEveryCount) {
  runCalls(GetParam(), Protocol::LL128, ll128Calls(1000), ll128Calls(1000).ownCover());
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EmulatedLl128Algorithm, testing::ValuesIn(ll128Calls().algorithms),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Algorithms, EmulatedPacketAlgorithm, testing::ValuesIn(packetCalls().algorithms),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Algorithms, EmulatedAlgorithm, testing::ValuesIn(sweptAlgorithmNames()),
                         [](const auto &info) { return info.param; });

class EmulatedFuse : public testing::TestWithParam<std::string> {};

TEST_P(EmulatedFuse, GivesTheReferencesResultWithMorePeersThanItGathersAtOnce) {
  std::mt19937_64 random(9);
  for (int64_t listEntries : {2, 3}) {
    Algorithm algorithm(GetParam(), {{KOLO_BF16, KOLO_I64}, {KOLO_SUM, KOLO_MAX}}, {}, listEntries);
    ASSERT_TRUE(algorithm.program.walk([](FuseOp) { return mlir::WalkResult::interrupt(); }).wasInterrupted())
        << "it fuses nothing";
    for (reference::ElementType type : {reference::ElementType::BF16, reference::ElementType::I64})
      for (int64_t count : {0, 1, 17, 1000}) {
        EmulatedRanks ranks(algorithm, {1 + int64_t(random() % 2), 2 * emulatedGroupSize});
        ranks.call.type = type;
        ranks.call.count = count;
        ranks.call.reduction = random() % 2 ? reference::Reduction::Sum : reference::Reduction::Max;
        if (hasRoot(ranks.call.collective.getKind()))
          ranks.call.root = int64_t(random() % uint64_t(reference::groupSize(ranks.call)));
        ASSERT_EQ(ranks.run(2, random()), "")
            << nameOf(type).str() << ", count " << count << ", lists of " << listEntries;
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EmulatedFuse,
                         testing::Values("allPairsAllGather", "allPairsReduceScatter", "oneShotAllReduce",
                                         "stagedTwoShotAllReduce", "twoShotAllReduce"),
                         [](const auto &info) { return info.param; });

/// In groups of as many peers as a list has room for, of which the last one is smaller.
TEST(EmulatedPackets, GoToMorePeersThanAListHolds) {
  for (Protocol protocol : {Protocol::LL, Protocol::LL128})
    for (const char *name : {"twoShotAllReduce", "allPairsAllGather"}) {
      Algorithm algorithm(name, {{KOLO_F32}, {KOLO_SUM}, Accumulation::F32}, {.protocol = protocol}, 2);
      EmulatedRanks ranks(algorithm, {1, gpu::threadsPerLine});
      ASSERT_GT(ranks.numRanks, 3u);
      ranks.call.count = 100;
      EXPECT_EQ(ranks.run(3, 5), "") << name;
    }
}

TEST(EmulatedFailure, AMissingRankEndsInARecordOfWhatWasWaitedFor) {
  Algorithm algorithm("ringAllGather", {});
  EmulatedRanks ranks(algorithm, {2, 2 * emulatedGroupSize});
  ranks.call.count = 1000;
  ranks.timeoutNs = 2000000;
  constexpr size_t missing = 3;
  EXPECT_NE(ranks.run(1, 1, [](size_t rank) { return rank != missing; }), "");
  EXPECT_EQ(ranks.abort, 1u);
  // Ranks that wait for each other may run out of time first, and end the wait for the missing one by their abort.
  bool isNamed = false, hasTimedOut = false;
  for (size_t rank = 0; rank < ranks.numRanks; ++rank)
    for (const KoloDeviceFailure &failure : ranks.failures[rank]) {
      if (rank == missing) {
        EXPECT_EQ(failure.code, uint64_t(KOLO_DEVICE_OK));
        continue;
      }
      EXPECT_TRUE(failure.code == KOLO_DEVICE_TIMEOUT || failure.code == KOLO_DEVICE_ABORTED) << rank;
      EXPECT_LT(failure.found, failure.expected);
      isNamed |= failure.peer == int64_t(missing);
      hasTimedOut |= failure.code == KOLO_DEVICE_TIMEOUT;
    }
  EXPECT_TRUE(isNamed);
  EXPECT_TRUE(hasTimedOut);
}

class EmulatedPacketFailure : public testing::TestWithParam<Protocol> {};

TEST_P(EmulatedPacketFailure, PacketsOfAMissingRankEndInARecordToo) {
  Algorithm algorithm("twoShotAllReduce", {}, {.protocol = GetParam()});
  ASSERT_EQ(algorithm.program.getSemaphores(), 0u);
  EmulatedRanks ranks(algorithm, {2, gpu::threadsPerLine});
  ranks.call.count = 1000;
  ranks.timeoutNs = 2000000;
  EXPECT_NE(ranks.run(1, 1, [](size_t rank) { return rank != 3; }), "");
  EXPECT_EQ(ranks.abort, 1u);
  bool hasTimedOut = false;
  for (size_t rank = 0; rank < ranks.numRanks; ++rank)
    for (const KoloDeviceFailure &failure : ranks.failures[rank]) {
      EXPECT_EQ(failure.code == KOLO_DEVICE_OK, rank == 3) << rank;
      if (rank == 3)
        continue;
      EXPECT_EQ(failure.peer, KOLO_DEVICE_PACKETS);
      EXPECT_EQ(failure.expected, 1u);
      hasTimedOut |= failure.code == KOLO_DEVICE_TIMEOUT;
    }
  EXPECT_TRUE(hasTimedOut);
}

INSTANTIATE_TEST_SUITE_P(Protocols, EmulatedPacketFailure, testing::Values(Protocol::LL, Protocol::LL128),
                         [](const auto &info) { return info.param == Protocol::LL ? "Packets" : "Lines"; });

/// However long a poll takes, and however many are made at a time.
TEST(EmulatedFailure, AWaitEndsByTheClock) {
  using std::chrono::milliseconds;
  for (auto [name, protocol] : {std::pair("ringAllGather", Protocol::Bulk),
                                {"twoShotAllReduce", Protocol::LL},
                                {"twoShotAllReduce", Protocol::LL128}}) {
    Algorithm algorithm(name, {}, {.protocol = protocol});
    EmulatedRanks ranks(algorithm, {1, 2 * gpu::threadsPerLine});
    ranks.call.count = 1000;
    ranks.timeoutNs = 100000000;
    standin::pauseNs = 200000; // a busy machine
    auto begin = std::chrono::steady_clock::now();
    EXPECT_NE(ranks.run(1, 1, [](size_t rank) { return rank == 0; }), "");
    auto elapsed = std::chrono::steady_clock::now() - begin;
    standin::pauseNs = 0;
    EXPECT_GE(elapsed, milliseconds(100)) << name;
    EXPECT_LE(elapsed, milliseconds(15000)) << name; // 200,000 polls would take 40 s
  }
}

/// The flag is in memory of the host, and far away: of the threads of a warp at most one looks, every 4096 polls.
TEST(EmulatedFailure, WhoPollsPacketsSeldomLooksAtTheAbortFlag) {
  for (Protocol protocol : {Protocol::LL, Protocol::LL128}) {
    Algorithm algorithm("twoShotAllReduce", {}, {.protocol = protocol});
    EmulatedRanks ranks(algorithm, {1, 32});
    ranks.call.count = 1000;
    ranks.timeoutNs = 400000000;
    standin::numPauses = 0, standin::numPeeks = 0; // a program of packets peeks at nothing but that flag
    EXPECT_NE(ranks.run(1, 1, [](size_t rank) { return rank == 0; }), "");
    EXPECT_GT(standin::numPauses, 4000);
    EXPECT_LE(standin::numPeeks, standin::numPauses / 65536 + 2);
  }
}

TEST(EmulatedFailure, AnAbortEndsTheWaitsForPacketsToo) {
  for (Protocol protocol : {Protocol::LL, Protocol::LL128}) {
    Algorithm algorithm("twoShotAllReduce", {}, {.protocol = protocol});
    EmulatedRanks ranks(algorithm, {1, gpu::threadsPerLine});
    ranks.call.count = 1000;
    ranks.abort = 1;
    EXPECT_NE(ranks.run(1, 1, [](size_t rank) { return rank == 0; }), "");
    for (const KoloDeviceFailure &failure : ranks.failures[0])
      EXPECT_EQ(failure.code, uint64_t(KOLO_DEVICE_ABORTED));
  }
}

TEST(EmulatedFailure, AnAbortEndsTheWaitsOfAllLanes) {
  Algorithm algorithm("ringAllGather", {});
  EmulatedRanks ranks(algorithm, {3, emulatedGroupSize});
  ranks.call.count = 1000;
  ranks.abort = 1;
  EXPECT_NE(ranks.run(1, 1, [](size_t rank) { return rank == 0; }), "");
  for (const KoloDeviceFailure &failure : ranks.failures[0])
    EXPECT_EQ(failure.code, uint64_t(KOLO_DEVICE_ABORTED));
}
