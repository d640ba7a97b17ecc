// The code that all device targets share gives, in programs with codecs, the reference interpreter's bits: on ordinary
// data with zeros, denormals, huge numbers and NaNs in it.
#include "EmulatedRanks.h"

#include "tests/support/Algorithms.h"
#include "tests/support/CodedCalls.h"

#include "codec/Presets.h"
#include "compiler/Pipeline.h"
#include "compiler/project/Relations.h"
#include "dsl/Recording.h"
#include "ir/reference/Interpreter.h"
#include "targets/cpu/CpuTarget.h"
#include "targets/gpu/DeviceFunctions.h"

#include <array>

using namespace kolo;
using namespace kolo::test;
using reference::ElementType;
using reference::Reduction;

namespace {

/// Fewer than devices have, so that a thread has several units of a granule, and there are several teams.
constexpr int64_t fewThreads = 2, deviceThreads = 64;
constexpr int64_t listEntries = 128;

struct Options {
  std::map<std::string, codec::Codec> codecs = {}; // by the names of an algorithm's codecs
  int64_t teamThreads = fewThreads, listEntries = ::listEntries;
  Protocol protocol = Protocol::Bulk;
  bool isStaged = false; // over a network
};

/// As choreography, in channel form, and compiled.
class CodedProgram : public EmulatedProgram {
public:
  CodedProgram(const dsl::Definition &definition, const Sizes &sizes, const Options &options = {})
      : teamThreads(options.teamThreads), context(makeContext()) {
    cpu::loadCpuTarget(*context);
    name = definition.name;
    format = options.protocol == Protocol::LL128 ? ll128Packets : llPackets;
    mesh = sizes;
    choreography = dsl::emitChoreography(*context, *dsl::record(definition, options.codecs), {mesh});
    channel = mlir::OwningOpRef<mlir::ModuleOp>(choreography->clone());
    if (options.isStaged)
      useStagedNetwork(*channel);
    mlir::PassManager manager(context.get(), mlir::ModuleOp::getOperationName());
    ResolvedSchedule schedule = std::get<ResolvedSchedule>(resolve({.protocol = options.protocol}, {}));
    buildChannelPipeline(manager, {.schedule = schedule, .check = false});
    if (failed(manager.run(*channel)))
      llvm::report_fatal_error("no channel program");
    program = *channel->getOps<ProgramOp>().begin();
    DeviceOptions device;
    device.reductions = {KOLO_SUM, KOLO_AVERAGE, KOLO_MIN, KOLO_MAX};
    emulator = std::make_unique<Emulator>(*channel, device, teamThreads, options.listEntries);
  }

  reference::SimulatedCall reference(const reference::SimulatedCall &call) {
    reference::SimulatedCall result = call;
    llvm::Error error = interpretChoreography(*choreography->getOps<ChoreographyOp>().begin(), result);
    EXPECT_FALSE(bool(error)) << llvm::toString(std::move(error));
    return result;
  }

  const int64_t teamThreads;

private:
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> choreography, channel;
};

struct Call {
  ElementType type = ElementType::F32;
  int64_t count = 0;
  Reduction reduction = Reduction::Sum;
  int64_t lanes = 1, teams = 1;
  bool isInPlace = false;
};

/// Two calls back to back.
void check(CodedProgram &program, const Call &wanted, uint64_t seed) {
  EmulatedRanks ranks(program, {wanted.lanes, wanted.teams * program.teamThreads});
  if (usesStagedNetwork(program.program))
    ranks.placeOn(hostsOf(program.mesh, 1));
  ranks.call.type = wanted.type, ranks.call.count = wanted.count, ranks.call.reduction = wanted.reduction;
  bool isAllReduce = program.program.getCollective().getKind() == CollectiveKind::AllReduce;
  ranks.isInPlace = wanted.isInPlace && isAllReduce && program.program.getInPlace() == InPlace::Direct;
  std::vector<reference::SimulatedCall> calls;
  std::vector<EmulatedRanks::Outputs> expected;
  for (uint64_t number : {0, 1}) {
    fillOrdinary(calls.emplace_back(reference::makeSimulatedCall(ranks.call)), seed + number);
    calls.back().numBefore = int64_t(number);
    EmulatedRanks::Outputs &outputs = expected.emplace_back();
    for (reference::Bytes &output : program.reference(calls.back()).outputs)
      outputs.emplace_back(std::move(output));
    reference::poisonOutputs(calls.back());
  }
  EXPECT_EQ(ranks.run(calls, expected, seed), "")
      << program.name << ": " << nameOf(wanted.type).str() << " " << nameOf(wanted.reduction).str() << ", count "
      << wanted.count << ", " << wanted.lanes << " lanes of " << wanted.teams << " teams"
      << (ranks.isInPlace ? ", in place" : "");
}

constexpr ElementType codedTypes[] = {ElementType::F32, ElementType::BF16, ElementType::F16};
constexpr Reduction codedReductions[] = {Reduction::Sum, Reduction::Average, Reduction::Min, Reduction::Max};

std::vector<codec::Codec> codecsOfDevices() {
  std::vector<codec::Codec> codecs = allCodecs();
  std::erase_if(codecs, [](const codec::Codec &codec) { return codec::isNone(codec); });
  return codecs;
}

std::string testNameOf(const codec::Codec &codec) {
  std::string name = codec::textOf(codec);
  std::erase_if(name, [](char letter) { return !llvm::isAlnum(letter); });
  return name;
}

} // namespace

class EmulatedCodec : public testing::TestWithParam<codec::Codec> {};

TEST_P(EmulatedCodec, GivesTheReferencesBits) {
  CodedProgram program(twoShot("coded", GetParam()), {3});
  EXPECT_EQ(program.program.getInPlace(), InPlace::Direct) << "nothing is called in place";
  auto seed = uint64_t(llvm::find(codecsOfDevices(), GetParam()) - codecsOfDevices().begin());
  uint64_t number = seed;
  for (int64_t count : {std::array{0, 1, 31, 1023, 1024, 1025}[seed % 6], 3077}) {
    check(program,
          {codedTypes[number % 3], count, codedReductions[number / 3 % 4], 1 + int64_t(number % 3),
           1 + int64_t(number % 2), number % 2 == 0},
          number);
    number += 7;
  }
}

TEST_P(EmulatedCodec, HeavyGivesTheReferencesBitsForEveryTypeAndCount) {
  for (int64_t teamThreads : {fewThreads, int64_t(16)}) {
    CodedProgram program(twoShot("coded", GetParam()), {3}, {.teamThreads = teamThreads});
    uint64_t number = 0;
    for (ElementType type : codedTypes)
      for (int64_t count : {0, 1, 31, 1023, 1024, 1025, 3077, 70001})
        for (int64_t lanes : {1, 2, 3}) {
          check(program, {type, count, codedReductions[number % 4], lanes, 1 + int64_t(number % 2), number % 3 == 0},
                number);
          ++number;
        }
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, EmulatedCodec, testing::ValuesIn(codecsOfDevices()),
                         [](const auto &info) { return testNameOf(info.param); });

class EmulatedCodedAlgorithm : public testing::TestWithParam<std::string> {};

TEST_P(EmulatedCodedAlgorithm, GivesTheReferencesBits) {
  const dsl::Definition &definition = definitionOf(GetParam());
  CodedProgram program(definition, smallMesh(definition));
  check(program, {ElementType::BF16, 3077, Reduction::Average, 2, 2, true}, 1);
  check(program, {ElementType::F32, 17, Reduction::Max, 1, 1, false}, 2);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EmulatedCodedAlgorithm, testing::ValuesIn(codedAlgorithmNames()),
                         [](const auto &info) { return info.param; });

class EmulatedCodedNetwork : public testing::TestWithParam<std::string> {};

TEST_P(EmulatedCodedNetwork, GivesTheReferencesBits) {
  const dsl::Definition &definition = definitionOf(GetParam());
  CodedProgram program(definition, smallMesh(definition), {.isStaged = true});
  check(program, {ElementType::BF16, 3077, Reduction::Average, 2, 2, true}, 1);
  check(program, {ElementType::F32, 17, Reduction::Max, 1, 1, false}, 2);
}

/// A block is encoded piece by piece where its code is longer than a chunk of an outbox.
TEST(EmulatedCodedNetworkChunks, GiveTheReferencesBits) {
  CodedProgram program(definitionOf("quantisedAllToAll"), {2}, {.isStaged = true});
  constexpr int64_t granules = KOLO_DEVICE_CHUNK_BYTES / codec::granule;
  for (int64_t count : {(granules - 1) * codec::granule, (granules + 1) * codec::granule + 77})
    check(program, {ElementType::F32, count, Reduction::Sum, 1, 2, false}, uint64_t(count));
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EmulatedCodedNetwork, testing::ValuesIn(codedAlgorithmNames()),
                         [](const auto &info) { return info.param; });

class EmulatedCodedPackets : public testing::TestWithParam<std::string> {};

TEST_P(EmulatedCodedPackets, GiveTheReferencesBits) {
  const dsl::Definition &definition = definitionOf(GetParam());
  CodedProgram packets(definition, smallMesh(definition), {.protocol = Protocol::LL});
  check(packets, {ElementType::BF16, 3077, Reduction::Average, 2, 2, true}, 5);
  CodedProgram lines(definition, smallMesh(definition),
                     {.teamThreads = gpu::threadsPerLine, .protocol = Protocol::LL128});
  check(lines, {ElementType::F32, 1041, Reduction::Max, 1, 1, false}, 6);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EmulatedCodedPackets, testing::ValuesIn(codedPacketAlgorithmNames()),
                         [](const auto &info) { return info.param; });

TEST(EmulatedStochasticPackets, GiveTheReferencesBits) {
  for (Protocol protocol : {Protocol::LL, Protocol::LL128}) {
    codec::Codec codec = dsl::int8(256).stochastic();
    CodedProgram program(twoShot("coded", codec), {3}, {.teamThreads = gpu::threadsPerLine, .protocol = protocol});
    check(program, {ElementType::F16, 3077, Reduction::Sum, 1, 2, false}, 7);
  }
}

TEST(EmulatedCodedFuse, CarriesTheSumOnWithMorePeersThanItGathersAtOnce) {
  for (int64_t entries : {4, 6}) {
    CodedProgram program(twoShot("coded", dsl::int8(256)), {5}, {.listEntries = entries});
    ASSERT_TRUE(program.program.walk([](FuseOp) { return mlir::WalkResult::interrupt(); }).wasInterrupted())
        << "it fuses nothing";
    for (ElementType type : codedTypes)
      check(program, {type, 2500, Reduction::Sum, 2, 2, false}, 3);
  }
}

TEST(EmulatedTeam, HasAsManyThreadsAsOnDevices) {
  CodedProgram program(twoShot("coded", dsl::nvfp4()), {2}, {.teamThreads = deviceThreads});
  check(program, {ElementType::F16, 3077, Reduction::Sum, 1, 2, false}, 4);
}
