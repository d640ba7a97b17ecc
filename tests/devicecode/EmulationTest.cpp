// The code that all device targets share gives what the collectives are defined to give: every shipped algorithm, on
// the host.
#include "Emulator.h"

#include "tests/support/Algorithms.h"
#include "tests/support/PairwiseCover.h"

#include "compiler/Pipeline.h"
#include "compiler/lower/PacketFormat.h"
#include "ir/reference/Oracle.h"
#include "kolo/dsl/Registry.h"
#include "targets/cpu/CpuTarget.h"
#include "targets/gpu/DeviceFunctions.h"

#include <map>
#include <random>
#include <thread>

using namespace kolo;
using namespace kolo::test;
using reference::Bytes;

namespace {

/// Small, as the number of the host's threads is, so that there are several groups.
constexpr int64_t groupSize = 2;
constexpr uint64_t longEnough = uint64_t(1) << 40;

/// An algorithm in channel form, and compiled.
class Algorithm {
public:
  Algorithm(const std::string &name, const DeviceOptions &options, const Schedule &schedule = {},
            int64_t listEntries = gpu::mostListEntries)
      : name(name), format(schedule.protocol == Protocol::LL128 ? ll128Packets : llPackets), context(makeContext()) {
    cpu::loadCpuTarget(*context);
    mesh = smallMesh(definitionOf(name));
    module = emit(*context, name, {mesh});
    mlir::PassManager manager(context.get(), mlir::ModuleOp::getOperationName());
    buildChannelPipeline(manager, {.schedule = std::get<ResolvedSchedule>(resolve(schedule, {})), .check = false});
    if (failed(manager.run(*module)))
      llvm::report_fatal_error("no channel program");
    emulator = std::make_unique<Emulator>(*module, options, groupSize, listEntries);
  }
  ProgramOp program() { return *module->getOps<ProgramOp>().begin(); }

  std::string name;
  PacketFormat format; // where there are packets
  std::unique_ptr<mlir::MLIRContext> context;
  Sizes mesh;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::unique_ptr<Emulator> emulator;
};

/// A buffer somewhere in memory, aligned to elements only, with guards around it.
class Guarded {
public:
  Guarded(size_t size, size_t elementBytes, size_t elementsOff)
      : size(size), first(guard + elementsOff * elementBytes) {
    bytes.assign(first + size + guard, reference::poison);
  }
  void *data() { return bytes.data() + first; }
  void fill(const Bytes &content) { std::ranges::copy(content, bytes.begin() + ptrdiff_t(first)); }
  Bytes content() const { return {bytes.begin() + ptrdiff_t(first), bytes.begin() + ptrdiff_t(first + size)}; }
  bool isIntact() const {
    auto isPoison = [](std::byte value) { return value == reference::poison; };
    return std::all_of(bytes.begin(), bytes.begin() + ptrdiff_t(first), isPoison) &&
           std::all_of(bytes.begin() + ptrdiff_t(first + size), bytes.end(), isPoison);
  }

private:
  static constexpr size_t guard = 64;
  size_t size, first;
  std::vector<std::byte> bytes;
};

/// All ranks of a mesh, which share the memory of this process.
class Ranks {
public:
  Ranks(Algorithm &algorithm, const LaunchShape &shape) : algorithm(algorithm), shape(shape) {
    call.collective = algorithm.program().getCollective();
    call.meshSizes = algorithm.mesh;
    numRanks = size_t(reference::numRanks(call));
    size_t numCounters = size_t(shape.lanes) * size_t(algorithm.program().getSemaphores()) * numRanks;
    for (auto *table : {&semaphores, &sent, &awaited})
      table->assign(numRanks, std::vector<uint64_t>(numCounters, 0));
    packetCalls.assign(numRanks, std::vector<uint64_t>(size_t(shape.lanes)));
    for (std::vector<uint64_t> &cells : semaphores)
      peerSemaphores.push_back(cells.data());
    failures.assign(numRanks, std::vector<KoloDeviceFailure>(size_t(shape.lanes)));
  }

  reference::Call call;
  uint64_t pollLimit = longEnough;
  uint64_t abort = 0;
  std::vector<std::vector<KoloDeviceFailure>> failures;
  size_t numRanks = 0;

  /// Several calls one after the other, with other data in the same buffers; a rank waits for nobody between them. Says
  /// what is wrong, or nothing. Ranks for which `takesPart` is false stay away.
  std::string
  run(int numCalls, uint64_t seed, const std::function<bool(size_t)> &takesPart = [](size_t) { return true; });

private:
  void place(uint64_t seed);
  KoloDeviceInvocation describe(size_t rank);
  void runRank(size_t rank, std::string &wrong);

  Algorithm &algorithm;
  LaunchShape shape;
  std::vector<reference::SimulatedCall> simulatedCalls; // one per call
  std::vector<Guarded> buffers[KOLO_NUM_BUFFER_ROLES];
  std::vector<void *> addresses[KOLO_NUM_BUFFER_ROLES];
  size_t packetBytes = 0; // of one turn
  std::vector<std::vector<uint64_t>> semaphores, sent, awaited, packetCalls;
  std::vector<uint64_t *> peerSemaphores;
};

void Ranks::place(uint64_t seed) {
  std::mt19937_64 random(seed);
  auto elementBytes = size_t(reference::elementBytes(call.type));
  const reference::SimulatedCall &simulated = simulatedCalls.front();
  size_t largest = 0;
  for (const Bytes &output : simulated.outputs)
    largest = std::max(largest, output.size());
  for (const Bytes &input : simulated.inputs)
    largest = std::max(largest, input.size());
  // How much memory of its own a program takes, its host code knows, which is not here.
  auto isOfPackets = [](BufferOp buffer) { return buffer.getRole() == BufferRole::Packets; };
  auto numPackets = size_t(llvm::count_if(algorithm.program().getBody().getOps<BufferOp>(), isOfPackets));
  size_t mostParts = numRanks * numRanks * numRanks * size_t(shape.lanes);
  const PacketFormat &format = algorithm.format;
  packetBytes =
      numPackets * size_t(format.bytes) * ((largest + 64 * numRanks) * numRanks / size_t(format.dataBytes) + mostParts);
  for (int role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role) {
    buffers[role].clear(), addresses[role].clear();
    for (size_t rank = 0; rank < numRanks; ++rank) {
      size_t size = role == KOLO_INPUT     ? simulated.inputs[rank].size()
                    : role == KOLO_OUTPUT  ? simulated.outputs[rank].size()
                    : role == KOLO_PACKETS ? 2 * packetBytes
                                           : (largest + 4096) * (numRanks + 2) * 4;
      buffers[role].emplace_back(size, elementBytes, role == KOLO_INPUT || role == KOLO_OUTPUT ? random() % 20 : 0);
    }
    for (Guarded &buffer : buffers[role])
      addresses[role].push_back(buffer.data());
  }
  for (size_t rank = 0; rank < numRanks; ++rank) {
    buffers[KOLO_PACKETS][rank].fill(Bytes(2 * packetBytes));
    std::ranges::fill(packetCalls[rank], 0);
  }
}

KoloDeviceInvocation Ranks::describe(size_t rank) {
  KoloDeviceInvocation invocation = {};
  std::ranges::fill(invocation.dimSizes, 1);
  std::ranges::copy(call.meshSizes, invocation.dimSizes);
  std::ranges::copy(reference::coordinatesOf(call, int64_t(rank)), invocation.coordinates);
  invocation.rank = int64_t(rank), invocation.numRanks = int64_t(numRanks);
  invocation.count = call.count, invocation.elementBytes = reference::elementBytes(call.type);
  invocation.root = call.root;
  invocation.type = int64_t(call.type), invocation.reduction = int64_t(call.reduction);
  for (int role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role) {
    invocation.local[role] = addresses[role][rank];
    invocation.peers[role] = addresses[role].data();
  }
  invocation.peerSemaphores = peerSemaphores.data();
  invocation.semaphores = semaphores[rank].data(), invocation.sent = sent[rank].data();
  invocation.awaited = awaited[rank].data(), invocation.abort = &abort;
  invocation.packetCalls = packetCalls[rank].data(), invocation.packetBytes = int64_t(packetBytes);
  invocation.failures = failures[rank].data(), invocation.pollLimit = pollLimit;
  return invocation;
}

void Ranks::runRank(size_t rank, std::string &wrong) {
  KoloDeviceInvocation invocation = describe(rank);
  for (const reference::SimulatedCall &simulated : simulatedCalls) {
    buffers[KOLO_INPUT][rank].fill(simulated.inputs[rank]);
    buffers[KOLO_OUTPUT][rank].fill(simulated.outputs[rank]);
    algorithm.emulator->launch(algorithm.name, shape, invocation);
    if (std::ranges::any_of(failures[rank], [](const KoloDeviceFailure &failure) { return failure.code != 0; })) {
      wrong = "rank " + std::to_string(rank) + " failed";
      return;
    }
    if (llvm::Error problem = reference::checkOutput(simulated, int64_t(rank), buffers[KOLO_OUTPUT][rank].content()))
      wrong += llvm::toString(std::move(problem));
    if (buffers[KOLO_INPUT][rank].content() != simulated.inputs[rank])
      wrong += "the input has changed";
    for (auto &role : buffers)
      if (!role[rank].isIntact())
        wrong += "something beside a buffer has changed";
  }
}

std::string Ranks::run(int numCalls, uint64_t seed, const std::function<bool(size_t)> &takesPart) {
  simulatedCalls.clear();
  for (int number = 0; number < numCalls; ++number) {
    reference::SimulatedCall &simulated = simulatedCalls.emplace_back(reference::makeSimulatedCall(call));
    reference::tagInput(simulated, seed + uint64_t(number));
    reference::poisonOutputs(simulated);
  }
  place(seed);
  std::vector<std::string> wrong(numRanks);
  {
    std::vector<std::jthread> ranks;
    for (size_t rank = 0; rank < numRanks; ++rank)
      if (takesPart(rank))
        ranks.emplace_back([&, rank] { runRank(rank, wrong[rank]); });
  }
  std::string all;
  for (const std::string &text : wrong)
    all += text.empty() ? "" : text + "\n";
  return all;
}

DeviceOptions everything() {
  DeviceOptions options{{}, {}, Accumulation::F32};
  for (int type = 0; type < KOLO_NUM_TYPES; ++type)
    options.types.push_back(KoloType(type));
  for (int reduction = 0; reduction < KOLO_NUM_REDUCTIONS; ++reduction)
    options.reductions.push_back(KoloReduction(reduction));
  return options;
}

bool isRooted(CollectiveKind kind) {
  return kind == CollectiveKind::Broadcast || kind == CollectiveKind::Reduce || kind == CollectiveKind::Gather ||
         kind == CollectiveKind::Scatter;
}

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
    std::vector<Choices> cases = pairwiseCover(withAlgorithm, 2, 7);
    EXPECT_TRUE(missingPairs(withAlgorithm, cases).empty());
    std::erase_if(cases, [&](const Choices &choices) { return choices[5] != number; });
    return cases;
  }
  /// Cases in which all pairs of choices occur, for one algorithm.
  std::vector<Choices> ownCover() const { return pairwiseCover(extents(), 2, 7); }
};

/// Makes each call so many times back to back, and all calls of one shape of launch one after the other.
void runCalls(Algorithm &algorithm, const Calls &calls, const std::vector<Choices> &cases) {
  std::mt19937_64 random(7);
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<Ranks>> byShape;
  int64_t multiple = algorithm.format == ll128Packets ? gpu::threadsPerLine : groupSize;
  for (const Choices &choices : cases) {
    LaunchShape shape{1 + int64_t(choices[0]), multiple * (1 + int64_t(choices[1]))};
    std::unique_ptr<Ranks> &ranks = byShape[{shape.lanes, shape.threads}];
    if (!ranks)
      ranks = std::make_unique<Ranks>(algorithm, shape);
    ranks->call.type = reference::allElementTypes[choices[2]];
    ranks->call.count = calls.counts[choices[3]];
    ranks->call.reduction = reference::allReductions[choices[4]];
    if (isRooted(ranks->call.collective.getKind()))
      ranks->call.root = int64_t(random() % uint64_t(reference::groupSize(ranks->call)));
    ASSERT_EQ(ranks->run(calls.numBackToBack, random()), "")
        << nameOf(ranks->call.type).str() << " " << nameOf(ranks->call.reduction).str() << ", count "
        << ranks->call.count << ", " << shape.lanes << " lanes of " << shape.threads << " threads";
  }
}

Calls bulkCalls() { return {algorithmNames(), {0, 1, 17, 255, 1000, 3001}, 2}; }
/// The third call is the first to use memory again.
Calls packetCalls() { return {packetAlgorithmNames(), {0, 1, 17, 1000}, 3}; }
/// Five calls: each of the two turns is used again.
Calls ll128Calls() {
  return {{"binomialBroadcast", "ringAllGather", "ringReduceScatter", "twoShotAllReduce"}, {0, 1, 31, 1000}, 5};
}

TEST_P(EmulatedAlgorithm, GivesTheReferencesResultForAllTypesAndAwkwardCountsBackToBack) {
  Algorithm algorithm(GetParam(), everything());
  runCalls(algorithm, bulkCalls(), bulkCalls().sharedCover(GetParam()));
}

TEST_P(EmulatedPacketAlgorithm, GivesTheReferencesResultForAllTypesAndAwkwardCountsBackToBack) {
  Algorithm algorithm(GetParam(), everything(), {.protocol = Protocol::LL});
  runCalls(algorithm, packetCalls(), packetCalls().sharedCover(GetParam()));
}

TEST_P(EmulatedLl128Algorithm, GivesTheReferencesResultForAllTypesAndAwkwardCountsBackToBack) {
  Algorithm algorithm(GetParam(), everything(), {.protocol = Protocol::LL128});
  runCalls(algorithm, ll128Calls(), ll128Calls().sharedCover(GetParam()));
}

TEST_P(EmulatedAlgorithm, HeavyGivesTheReferencesResultForEveryTypeWithEveryCount) {
  Algorithm algorithm(GetParam(), everything());
  runCalls(algorithm, bulkCalls(), bulkCalls().ownCover());
}

TEST_P(EmulatedPacketAlgorithm, HeavyGivesTheReferencesResultForEveryTypeWithEveryCount) {
  Algorithm algorithm(GetParam(), everything(), {.protocol = Protocol::LL});
  runCalls(algorithm, packetCalls(), packetCalls().ownCover());
}

TEST_P(EmulatedLl128Algorithm, HeavyGivesTheReferencesResultForEveryTypeWithEveryCount) {
  Algorithm algorithm(GetParam(), everything(), {.protocol = Protocol::LL128});
  runCalls(algorithm, ll128Calls(), ll128Calls().ownCover());
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EmulatedLl128Algorithm, testing::ValuesIn(ll128Calls().algorithms),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Algorithms, EmulatedPacketAlgorithm, testing::ValuesIn(packetAlgorithmNames()),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Algorithms, EmulatedAlgorithm, testing::ValuesIn(algorithmNames()),
                         [](const auto &info) { return info.param; });

class EmulatedFuse : public testing::TestWithParam<std::string> {};

TEST_P(EmulatedFuse, GivesTheReferencesResultWithMorePeersThanItGathersAtOnce) {
  std::mt19937_64 random(9);
  for (int64_t listEntries : {2, 3}) {
    Algorithm algorithm(GetParam(), {{KOLO_BF16, KOLO_I64}, {KOLO_SUM, KOLO_MAX}}, {}, listEntries);
    ASSERT_TRUE(algorithm.program().walk([](FuseOp) { return mlir::WalkResult::interrupt(); }).wasInterrupted())
        << "it fuses nothing";
    for (reference::ElementType type : {reference::ElementType::BF16, reference::ElementType::I64})
      for (int64_t count : {0, 1, 17, 1000}) {
        Ranks ranks(algorithm, {1 + int64_t(random() % 2), 2 * groupSize});
        ranks.call.type = type;
        ranks.call.count = count;
        ranks.call.reduction = random() % 2 ? reference::Reduction::Sum : reference::Reduction::Max;
        if (isRooted(ranks.call.collective.getKind()))
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

TEST(EmulatedFailure, AMissingRankEndsInARecordOfWhatWasWaitedFor) {
  Algorithm algorithm("ringAllGather", {});
  Ranks ranks(algorithm, {2, 2 * groupSize});
  ranks.call.count = 1000;
  ranks.pollLimit = 2000;
  constexpr size_t missing = 3;
  EXPECT_NE(ranks.run(1, 1, [](size_t rank) { return rank != missing; }), "");
  EXPECT_EQ(ranks.abort, 1u);
  // Ranks that wait for each other may run out of polls first, and end the wait for the missing one by their abort.
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
  ASSERT_EQ(algorithm.program().getSemaphores(), 0u);
  Ranks ranks(algorithm, {2, gpu::threadsPerLine});
  ranks.call.count = 1000;
  ranks.pollLimit = 2000;
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

TEST(EmulatedFailure, AnAbortEndsTheWaitsOfAllLanes) {
  Algorithm algorithm("ringAllGather", {});
  Ranks ranks(algorithm, {3, groupSize});
  ranks.call.count = 1000;
  ranks.abort = 1;
  EXPECT_NE(ranks.run(1, 1, [](size_t rank) { return rank == 0; }), "");
  for (const KoloDeviceFailure &failure : ranks.failures[0])
    EXPECT_EQ(failure.code, uint64_t(KOLO_DEVICE_ABORTED));
}
