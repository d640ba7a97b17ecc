// Kernels of programs that cross a staged network, on the host: ranks of other hosts are reached by requests alone.
#include "EmulatedRanks.h"

#include "tests/support/Algorithms.h"
#include "tests/support/Reductions.h"

#include "compiler/Pipeline.h"
#include "targets/cpu/CpuTarget.h"
#include "targets/gpu/DeviceFunctions.h"

#include <random>

using namespace kolo;
using namespace kolo::test;

namespace {

/// An algorithm whose slowest dimension is a staged network.
class StagedAlgorithm : public EmulatedProgram {
public:
  StagedAlgorithm(const std::string &algorithm, const Sizes &sizes, const DeviceOptions &options,
                  const Schedule &schedule = {})
      : context(makeContext()) {
    name = algorithm;
    cpu::loadCpuTarget(*context);
    mesh = sizes;
    module = emit(*context, name, {mesh});
    useStagedNetwork(*module);
    mlir::PassManager manager(context.get(), mlir::ModuleOp::getOperationName());
    buildChannelPipeline(manager, {.schedule = std::get<ResolvedSchedule>(resolve(schedule, {})), .check = false});
    if (failed(manager.run(*module)))
      llvm::report_fatal_error("no channel program");
    program = *module->getOps<ProgramOp>().begin();
    emulator = std::make_unique<Emulator>(*module, options, emulatedGroupSize, gpu::mostListEntries);
  }

private:
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

struct Case {
  int64_t lanes, groups, count, ranksPerHost;
  reference::ElementType type;
};

/// Two hosts or more, some of one rank, odd counts, and none at all; the fourth is as on one host.
constexpr Case cases[] = {{1, 1, 3001, 1, reference::ElementType::F32},
                          {2, 2, 255, 2, reference::ElementType::BF16},
                          {2, 1, 0, 4, reference::ElementType::F32},
                          {1, 2, 1000, 64, reference::ElementType::BF16}};

void run(EmulatedProgram &program, const Case &each, std::vector<int> hosts, uint64_t seed, int numCalls) {
  EmulatedRanks ranks(program, {each.lanes, each.groups * emulatedGroupSize});
  ranks.placeOn(std::move(hosts));
  ranks.call.type = each.type, ranks.call.count = each.count;
  if (hasRoot(ranks.call.collective.getKind()))
    ranks.call.root = int64_t(seed % uint64_t(reference::groupSize(ranks.call)));
  ASSERT_EQ(ranks.run(numCalls, seed), "") << nameOf(each.type).str() << ", count " << each.count << ", " << each.lanes
                                           << " lanes, " << each.ranksPerHost << " ranks on a host";
  auto isInbox = [](BufferOp buffer) { return buffer.getRole() == BufferRole::Inbox; };
  const bool mayCross = llvm::any_of(program.program.getBody().getOps<BufferOp>(), isInbox);
  const bool sendsSome = mayCross && ranks.hosts().areSeveral() && each.count > 0;
  EXPECT_EQ(ranks.hosts().numPuts() > 0, sendsSome);
}

} // namespace

class EmulatedNetworkAlgorithm : public testing::TestWithParam<std::string> {};

TEST_P(EmulatedNetworkAlgorithm, GivesTheReferencesResultAcrossHosts) {
  StagedAlgorithm algorithm(GetParam(), smallMesh(definitionOf(GetParam())),
                            {{KOLO_F32, KOLO_BF16}, {KOLO_SUM}, Accumulation::F32});
  std::mt19937_64 random(11);
  for (const Case &each : cases)
    run(algorithm, each, hostsOf(algorithm.mesh, each.ranksPerHost), random(), 3);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EmulatedNetworkAlgorithm, testing::ValuesIn(exampleNames(algorithmNames())),
                         [](const auto &info) { return info.param; });

/// Slices of a pipeline have inboxes of their own.
TEST(EmulatedNetworkPipeline, GivesTheReferencesResultAcrossHosts) {
  for (const char *name : {"hierarchicalAllReduce", "ringAllReduce"}) {
    StagedAlgorithm algorithm(name, smallMesh(definitionOf(name)), {{KOLO_F32}, {KOLO_SUM}, Accumulation::F32},
                              {.pipelineDepth = 3});
    for (int64_t count : {17, 5000})
      run(algorithm, {2, 1, count, 1, reference::ElementType::F32}, hostsOf(algorithm.mesh, 1), uint64_t(count), 3);
  }
}

/// Blocks of several chunks, and of a chunk, a byte less and a byte more; more puts than an outbox has chunks.
TEST(EmulatedNetworkQueue, PutsAreCutIntoChunks) {
  StagedAlgorithm algorithm("ringAllGather", {3}, {{KOLO_I8}, {KOLO_SUM}, Accumulation::F32});
  constexpr int64_t chunk = KOLO_DEVICE_CHUNK_BYTES;
  for (int64_t count : {chunk - 1, chunk, chunk + 1, 6 * chunk + 5})
    run(algorithm, {1, 4, count, 1, reference::ElementType::I8}, hostsOf(algorithm.mesh, 1), uint64_t(count), 2);
}

/// Each entry of a queue of requests is used several times.
TEST(EmulatedNetworkQueue, ManyCallsReuseRequests) {
  StagedAlgorithm algorithm("twoShotAllReduce", {4}, {{KOLO_F32}, {KOLO_SUM}, Accumulation::F32});
  run(algorithm, {1, 1, 100, 1, reference::ElementType::F32}, hostsOf(algorithm.mesh, 1), 3, 20);
}

/// A host that frees no chunks: who needs one gives up, and says so.
TEST(EmulatedNetworkFailure, AnOutboxThatStaysFullEndsInARecord) {
  StagedAlgorithm algorithm("ringAllGather", {3}, {{KOLO_I8}, {KOLO_SUM}, Accumulation::F32});
  EmulatedRanks ranks(algorithm, {1, emulatedGroupSize});
  ranks.placeOn(hostsOf(algorithm.mesh, 1));
  ranks.hosts().deliversPuts = false;
  ranks.call.type = reference::ElementType::I8, ranks.call.count = 5 * int64_t(KOLO_DEVICE_CHUNK_BYTES);
  ranks.timeoutNs = 20000000;
  EXPECT_NE(ranks.run(1, 1), "");
  EXPECT_EQ(ranks.abort, 1u);
  bool hasTimedOut = false;
  for (const std::vector<KoloDeviceFailure> &ofRank : ranks.failures) {
    const KoloDeviceFailure &failure = ofRank.front();
    EXPECT_EQ(failure.semaphore, KOLO_DEVICE_QUEUE);
    EXPECT_EQ(failure.expected, 1u); // for the fifth chunk, the first one must be free
    EXPECT_EQ(failure.found, 0u);
    hasTimedOut |= failure.code == KOLO_DEVICE_TIMEOUT;
  }
  EXPECT_TRUE(hasTimedOut);
}

TEST(EmulatedNetworkFailure, AMissingRankOfAnotherHostEndsInARecordOfWhatWasWaitedFor) {
  StagedAlgorithm algorithm("ringAllGather", {8}, {{KOLO_F32}, {KOLO_SUM}, Accumulation::F32});
  EmulatedRanks ranks(algorithm, {1, emulatedGroupSize});
  ranks.placeOn(hostsOf(algorithm.mesh, 1));
  ranks.call.type = reference::ElementType::F32, ranks.call.count = 1000;
  ranks.timeoutNs = 20000000;
  EXPECT_NE(ranks.run(1, 1, [](size_t rank) { return rank != 3; }), "");
  bool isNamed = false;
  for (const std::vector<KoloDeviceFailure> &ofRank : ranks.failures)
    if (const KoloDeviceFailure &failure = ofRank.front(); failure.code != KOLO_DEVICE_OK) {
      EXPECT_LT(failure.found, failure.expected);
      isNamed |= failure.peer == 3 && failure.semaphore >= 0;
    }
  EXPECT_TRUE(isNamed);
}
