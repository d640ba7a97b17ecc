// The code that all device targets share, in calls with block tables. Every shipped algorithm that takes them gives
// what its collective is defined to give for these blocks, and touches nothing else.
#include "EmulatedRanks.h"

#include "tests/support/Algorithms.h"
#include "tests/support/CodedCalls.h"
#include "tests/support/DrawnCounts.h"
#include "tests/support/TabledAlgorithms.h"

#include "compiler/Pipeline.h"
#include "compiler/project/Relations.h"
#include "ir/reference/Interpreter.h"
#include "targets/TableKernels.h"
#include "targets/cpu/CpuTarget.h"
#include "targets/gpu/DeviceFunctions.h"

#include <random>

using namespace kolo;
using namespace kolo::test;
using reference::ElementType;
using reference::Reduction;

namespace {

/// As choreography, in channel form, checked, and compiled.
class TabledProgram : public EmulatedProgram {
public:
  explicit TabledProgram(const std::string &ofName, Protocol protocol = Protocol::Bulk, bool isStaged = false)
      : context(makeContext()) {
    cpu::loadCpuTarget(*context);
    name = ofName;
    format = protocol == Protocol::LL128 ? ll128Packets : llPackets;
    mesh = smallMesh(definitionOf(name));
    choreography = emit(*context, name, {mesh});
    channel = mlir::OwningOpRef<mlir::ModuleOp>(choreography->clone());
    if (isStaged)
      useStagedNetwork(*channel);
    mlir::PassManager manager(context.get(), mlir::ModuleOp::getOperationName());
    buildChannelPipeline(manager, {.schedule = std::get<ResolvedSchedule>(resolve({.protocol = protocol}, {}))});
    if (failed(manager.run(*channel)))
      llvm::report_fatal_error("no channel program");
    program = *channel->getOps<ProgramOp>().begin();
    isCoded = bool(findCoded(program));
    const DeviceOptions options{{KOLO_F32, KOLO_BF16, KOLO_I32, KOLO_U8}, {KOLO_SUM, KOLO_MAX}, Accumulation::F32};
    emulator = std::make_unique<Emulator>(*channel, options, groupSize(), gpu::mostListEntries);
  }

  /// Threads of a block are a multiple.
  int64_t groupSize() const { return format == ll128Packets ? gpu::threadsPerLine : 2; }

  EmulatedRanks::Outputs interpreted(reference::SimulatedCall call) {
    llvm::Error error = interpretChoreography(*choreography->getOps<ChoreographyOp>().begin(), call);
    EXPECT_FALSE(bool(error)) << llvm::toString(std::move(error));
    return {call.outputs.begin(), call.outputs.end()};
  }

  bool isCoded;

private:
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> choreography, channel;
};

/// Blocks of at most so many elements.
void drawTables(reference::Call &call, Distribution distribution, int64_t most, std::mt19937_64 &random) {
  const auto size = size_t(reference::groupSize(call));
  const CollectiveKind kind = call.collective.getKind();
  std::map<int64_t, DrawnCounts> drawn; // by the first rank of the group
  reference::setTables(call, [&](int64_t giver, int64_t taker) {
    DrawnCounts &counts = drawn[reference::groupOf(call, giver).front()];
    if (counts.empty())
      counts = drawCounts(distribution, size * size, most, random);
    const auto from = size_t(reference::memberNumber(call, giver)), to = size_t(reference::memberNumber(call, taker));
    if (kind == CollectiveKind::AllToAll)
      return counts[from * size + to];
    return counts[hasBlockPerMember(kind, BufferRole::Output) ? from : to];
  });
}

/// Two numbers of one magnitude in each block: every codec keeps them.
void fillKept(reference::SimulatedCall &call, std::mt19937_64 &random) {
  const auto bytes = size_t(reference::elementBytes(call.type));
  for (reference::Bytes &input : call.inputs)
    for (size_t at = 0; at < input.size(); at += bytes)
      storeElement(call.type, random() % 2 ? 127.0f : -127.0f, &input[at]);
}

/// So many calls back to back with the same tables, and other data.
void runTabled(TabledProgram &program, Distribution distribution, int64_t most, int numCalls, uint64_t seed) {
  std::mt19937_64 random(seed);
  EmulatedRanks ranks(program, {1 + int64_t(random() % 3), program.groupSize() * (1 + int64_t(random() % 2))});
  if (usesStagedNetwork(program.program))
    ranks.placeOn(hostsOf(program.mesh, 1 + int64_t(seed % 3)));
  const ElementType types[] = {ElementType::F32, ElementType::BF16, ElementType::I32, ElementType::U8};
  ranks.call.type = types[random() % (program.isCoded ? 2 : 4)];
  ranks.call.reduction = random() % 2 ? Reduction::Sum : Reduction::Max;
  ranks.call.root = int64_t(random() % uint64_t(reference::groupSize(ranks.call)));
  drawTables(ranks.call, distribution, most, random);
  std::string wrong;
  if (!program.isCoded) {
    wrong = ranks.run(numCalls, random());
  } else {
    std::vector<reference::SimulatedCall> calls;
    std::vector<EmulatedRanks::Outputs> expected;
    for (int number = 0; number < numCalls; ++number) {
      fillKept(calls.emplace_back(reference::makeSimulatedCall(ranks.call)), random);
      expected.push_back(program.interpreted(calls.back()));
    }
    wrong = ranks.run(calls, expected, random());
  }
  EXPECT_EQ(wrong, "") << program.name << ", distribution " << int(distribution) << ", blocks of at most " << most
                       << ", " << nameOf(ranks.call.type).str() << ", seed " << seed;
}

void runDistributions(TabledProgram &program, const std::vector<int64_t> &lengths, int numCalls) {
  ASSERT_TRUE(mayTakeBlockTables(program.program));
  uint64_t seed = 1;
  for (Distribution distribution : allDistributions)
    for (int64_t most : lengths)
      runTabled(program, distribution, most, numCalls, seed++);
}

void runDistributions(const std::string &name, Protocol protocol, const std::vector<int64_t> &lengths, int numCalls) {
  TabledProgram program(name, protocol);
  runDistributions(program, lengths, numCalls);
}

std::vector<std::string> linesNames() { return {"allPairsAllGather", "directAllToAll", "ringReduceScatter"}; }

} // namespace

class EmulatedTabled : public testing::TestWithParam<std::string> {};
class EmulatedTabledPackets : public testing::TestWithParam<std::string> {};
class EmulatedTabledLines : public testing::TestWithParam<std::string> {};
class EmulatedTabledCodecs : public testing::TestWithParam<std::string> {};
class EmulatedTabledNetwork : public testing::TestWithParam<std::string> {};

TEST_P(EmulatedTabled, GivesWhatTheTablesSay) { runDistributions(GetParam(), Protocol::Bulk, {777}, 2); }
TEST_P(EmulatedTabledPackets, GivesWhatTheTablesSay) { runDistributions(GetParam(), Protocol::LL, {333}, 3); }
TEST_P(EmulatedTabledLines, GivesWhatTheTablesSay) { runDistributions(GetParam(), Protocol::LL128, {333}, 3); }
TEST_P(EmulatedTabledCodecs, GivesWhatTheTablesSay) { runDistributions(GetParam(), Protocol::Bulk, {3077}, 2); }

TEST_P(EmulatedTabledNetwork, GivesWhatTheTablesSay) {
  TabledProgram program(GetParam(), Protocol::Bulk, /*isStaged=*/true);
  runDistributions(program, {777}, 2);
}

TEST_P(EmulatedTabled, HeavyGivesWhatTheTablesSayForManyLengths) {
  runDistributions(GetParam(), Protocol::Bulk, {1, 7, 100, 1023, 5000}, 3);
}
TEST_P(EmulatedTabledPackets, HeavyGivesWhatTheTablesSayForManyLengths) {
  runDistributions(GetParam(), Protocol::LL, {1, 7, 100, 1023}, 5);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EmulatedTabled, testing::ValuesIn(tabledOnDevices(sweptAlgorithmNames())),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Algorithms, EmulatedTabledPackets,
                         testing::ValuesIn(exampleNames(tabledOnDevices(packetAlgorithmNames()))),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Algorithms, EmulatedTabledLines, testing::ValuesIn(linesNames()),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Algorithms, EmulatedTabledCodecs,
                         testing::Values("quantisedAllToAll", "quantisedRingAllGather", "quantisedNodeAllGather"),
                         [](const auto &info) { return info.param; });

INSTANTIATE_TEST_SUITE_P(Algorithms, EmulatedTabledNetwork,
                         testing::ValuesIn(exampleNames(tabledOnDevices(algorithmNames()))),
                         [](const auto &info) { return info.param; });

/// Kernels write no notes.
TEST(TableKernels, AreNotMadeOfProgramsThatForwardBlocks) {
  for (const std::string &name : forwardingAlgorithmNames())
    EXPECT_FALSE(mayTakeBlockTables(TabledProgram(name, Protocol::Bulk).program)) << name;
}
