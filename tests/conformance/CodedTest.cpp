// Buffers with codecs: compiled programs give, to the bit, what the reference interpreter gives, on ordinary data with
// zeros, denormals, huge numbers and NaNs in it, whatever the number of lanes and the kind of memory.
#include "Shipped.h"

#include "tests/support/CodedCalls.h"

#include "codec/Convert.h"
#include "codec/Presets.h"
#include "compiler/Pipeline.h"
#include "dsl/EmitChoreography.h"
#include "dsl/Recording.h"
#include "ir/reference/Interpreter.h"
#include "tools/compile/Compile.h"

#include <kolo/dsl/Language.h>

#include <array>
#include <cmath>
#include <cstring>

using namespace kolo;
using namespace kolo::conformance;
using namespace kolo::reference;
using kolo::test::allCodecs;
using kolo::test::fillOrdinary;
using kolo::test::Launch;
using kolo::test::ScopedVariable;
using kolo::test::storeElement;
using kolo::test::twoShot;

namespace {

using Choices = std::map<std::string, codec::Codec>; // by the names of an algorithm's codecs

/// How a plugin is compiled.
struct CodedOptions {
  Schedule schedule = {};
  bool optimize = true;
  std::string cpu = {}; // as CompileRequest has it
  Choices codecs = {};
};

/// Definitions in one plugin, and the choreographies that they are.
class CodedPlugin {
public:
  CodedPlugin(std::vector<dsl::Definition> wanted, const std::vector<Sizes> &sizes, const CodedOptions &options = {})
      : definitions(std::move(wanted)), context(test::makeContext()) {
    tools::CompileRequest request;
    request.definitions = definitions;
    for (const Sizes &mesh : sizes)
      request.meshes.push_back(namedMesh(definitions.front(), mesh));
    test::TemporaryFolder folder;
    request.output = folder.file("coded.so");
    request.schedule = options.schedule;
    request.optimize = options.optimize;
    request.cpu = options.cpu;
    request.codecs = options.codecs;
    tools::compile(request);
    auto opened = runtime::Plugin::load(request.output);
    EXPECT_TRUE(opened.isOk()) << opened.status().message();
    plugin.emplace(std::move(opened).value());
    for (const dsl::Definition &definition : definitions)
      modules.push_back(dsl::emitChoreography(*context, *dsl::record(definition, options.codecs), sizes));
  }

  size_t size() const { return definitions.size(); }
  const dsl::Definition &definition(size_t i) const { return definitions[i]; }
  ChoreographyOp choreography(size_t i) { return *modules[i]->getOps<ChoreographyOp>().begin(); }
  const runtime::Plugin &loaded() const { return *plugin; }

private:
  std::vector<dsl::Definition> definitions;
  std::unique_ptr<mlir::MLIRContext> context;
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules;
  std::optional<runtime::Plugin> plugin;
};

PreparedCase prepareCoded(CodedPlugin &plugin, size_t program, const Case &choices, const Sizes &mesh, uint64_t seed) {
  ChoreographyOp choreography = plugin.choreography(program);
  Call call{choreography.getCollective(), mesh, choices.count, choices.type, choices.reduction, 0, choices.lanes};
  PreparedCase prepared{choices, makeSimulatedCall(call), {}};
  fillOrdinary(prepared.simulated, seed);
  SimulatedCall reference = prepared.simulated;
  llvm::Error error = interpretAsCalled(choreography, reference);
  EXPECT_FALSE(bool(error)) << llvm::toString(std::move(error));
  for (Bytes &output : reference.outputs)
    prepared.expected.emplace_back(std::move(output));
  return prepared;
}

/// On new ranks, whose only calls these are.
void checkInTurn(CodedPlugin &plugin, size_t program, const Setup &setup, const std::vector<Case> &cases,
                 uint64_t seed) {
  std::vector<PreparedCase> prepared;
  for (const Case &choices : cases)
    prepared.push_back(prepareCoded(plugin, program, choices, setup.mesh, seed + prepared.size()));
  std::optional<ScopedVariable> ordinary;
  if (!setup.ordinaryMemory.empty())
    ordinary.emplace("KOLO_ORDINARY_MEMORY", setup.ordinaryMemory.c_str());
  const dsl::Definition &definition = plugin.definition(program);
  runtime::Mesh mesh = namedMesh(definition, setup.mesh);
  auto body = [&](runtime::Communicator &communicator) -> std::string {
    Caller caller(communicator, plugin.loaded(), mesh, seed);
    caller.program = definition.name;
    std::string wrong = caller.allocate(prepared);
    for (const PreparedCase &call : prepared)
      if (std::string mistake = wrong.empty() ? caller.call(call) : ""; !mistake.empty())
        wrong = call.choices.describe() + ": " + mistake;
    runtime::Status status = communicator.barrier();
    return !wrong.empty() || status.isOk() ? wrong : status.message();
  };
  ASSERT_EQ(test::runRanks(setup.launch, mesh.numRanks(), {timeoutMs, setup.lanes}, body), "")
      << definition.name << ", mesh " << test::textOf(setup.mesh);
}

void check(CodedPlugin &plugin, size_t program, const Setup &setup, const Case &choices, uint64_t seed) {
  checkInTurn(plugin, program, setup, {choices}, seed);
}

float loadElement(ElementType type, const std::byte *at) {
  float value = 0;
  uint16_t half = 0;
  std::memcpy(&half, at, sizeof half);
  if (type == ElementType::F32)
    std::memcpy(&value, at, sizeof value);
  return type == ElementType::F16 ? floatFromHalf(half) : type == ElementType::BF16 ? floatFromBfloat16(half) : value;
}

/// By the arithmetic of codec/.
void roundTrip(const codec::Codec &codec, ElementType type, const Bytes &in, Bytes &out) {
  auto size = size_t(elementBytes(type));
  std::vector<float> values(in.size() / size), decoded(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = loadElement(type, &in[i * size]);
  std::vector<std::byte> encoded(size_t(codec::bytes(codec, int64_t(values.size()))));
  codec::encode(codec, values, encoded);
  codec::decode(codec, encoded, decoded);
  for (size_t i = 0; i < values.size(); ++i)
    storeElement(type, decoded[i], &out[i * size]);
}

/// What the plugin says that a receiver gets, beside the arithmetic of codec/. Stochastic codecs have no such answer.
void checkRoundTrip(CodedPlugin &plugin, size_t program, const codec::Codec &codec, ElementType type, int64_t count) {
  SimulatedCall call =
      prepareCoded(plugin, program, {type, count, Reduction::Sum, 0, 1, false, false}, {3}, 1).simulated;
  Bytes &input = call.inputs[0], got(input.size()), wanted = input;
  auto kind = type == ElementType::F16    ? runtime::DataType::F16
              : type == ElementType::BF16 ? runtime::DataType::BF16
                                          : runtime::DataType::F32;
  auto run = [&](const std::string &name, Bytes &out) {
    return plugin.loaded().roundTrip(name, kind, input.data(), out.data(), count);
  };
  EXPECT_EQ(run(codec::textOf(codec), got).isOk(), !codec.isStochastic());
  if (codec.isStochastic())
    return;
  if (!codec::isNone(codec))
    roundTrip(codec, type, input, wanted);
  EXPECT_EQ(got, wanted);
  EXPECT_TRUE(run(codec::nameOf(codec), input).isOk());
  EXPECT_EQ(input, wanted) << "in place";
}

constexpr ElementType codedTypes[] = {ElementType::F32, ElementType::BF16, ElementType::F16};
constexpr Reduction codedReductions[] = {Reduction::Sum, Reduction::Average, Reduction::Min, Reduction::Max};

/// Algorithms that are exact where nobody chooses a codec get 8 bits.
CodedPlugin compileCoded(const std::string &name, const std::vector<Sizes> &meshes, const Schedule &schedule = {}) {
  const dsl::Definition &definition = definitionOf(name);
  CodedOptions options{.schedule = schedule};
  std::unique_ptr<dsl::Recording> recording = dsl::record(definition);
  if (!usesCodecs(definition))
    for (const dsl::RecordedCodec &named : recording->codecs)
      options.codecs.emplace(named.name, dsl::int8(64));
  return {{definition}, meshes, options};
}

std::vector<dsl::Definition> twoShotsOf(const std::vector<codec::Codec> &codecs) {
  std::vector<dsl::Definition> definitions;
  for (size_t i = 0; i < codecs.size(); ++i)
    definitions.push_back(twoShot("c" + std::to_string(i), codecs[i]));
  return definitions;
}

} // namespace

/// Types, reductions, lanes, places and small counts change from case to case. The largest count is staged.
static void checkAllCodecs(const CodedOptions &options) {
  std::vector<codec::Codec> codecs = allCodecs();
  CodedPlugin plugin(twoShotsOf(codecs), {{3}}, options);
  size_t number = 0;
  for (size_t i = 0; i < codecs.size() && !testing::Test::HasFatalFailure(); ++i)
    for (int64_t count : {std::array{0, 1, 31, 1023}[i % 4], 1025, 5000}) {
      int lanes = 1 + int(number % 3);
      SCOPED_TRACE(codec::textOf(codecs[i]));
      auto [launch, memory] = count == 5000 ? std::pair(Launch::Forked, "staged") : std::pair(Launch::Threads, "");
      check(plugin, i, {{3}, launch, memory, lanes, false},
            {codedTypes[number % 3], count, codedReductions[number / 3 % 4], 0, lanes, number % 2 == 0, false}, number);
      checkRoundTrip(plugin, i, codecs[i], codedTypes[number % 3], count);
      ++number;
    }
}

TEST(EveryCodec, GivesTheReferencesBits) { checkAllCodecs({}); }
/// Also where the host has AVX-512, whose conversions the test above runs.
TEST(EveryCodec, GivesTheReferencesBitsWithAvx2Alone) { checkAllCodecs({.cpu = "x86-64-v3"}); }

/// An all-gather encodes once, so that its output is the round trip of every input.
TEST(RoundTrip, IsWhatReceiversGet) {
  CodedPlugin plugin({definitionOf("quantisedRingAllGather")}, {{3}});
  constexpr int64_t count = 2500;
  PreparedCase prepared =
      prepareCoded(plugin, 0, {ElementType::BF16, count, Reduction::Sum, 0, 2, false, false}, {3}, 1);
  for (size_t rank = 0; rank < 3; ++rank) {
    Bytes got(count * 2);
    const Bytes &input = prepared.simulated.inputs[rank];
    ASSERT_TRUE(
        plugin.loaded().roundTrip("int8(256)", runtime::DataType::BF16, input.data(), got.data(), count).isOk());
    const Bytes &output = *prepared.expected[1];
    EXPECT_TRUE(std::equal(got.begin(), got.end(), output.begin() + int64_t(rank) * count * 2));
  }
}

TEST(RoundTrip, RefusesWhatItIsNotFor) {
  CodedPlugin plugin({definitionOf("quantisedRingAllGather")}, {{3}});
  float number = 1;
  auto refusal = [&](const char *codec, runtime::DataType type, float *in, int64_t count) {
    runtime::Status status = plugin.loaded().roundTrip(codec, type, in, &number, count);
    EXPECT_EQ(status.code(), runtime::StatusCode::InvalidArgument);
    return status.message();
  };
  EXPECT_NE(refusal("int4(256)", runtime::DataType::F32, &number, 1).find("'int4(256)'; there are int8(256)"),
            std::string::npos);
  EXPECT_EQ(refusal("int8(256)", runtime::DataType::I32, &number, 1), "codecs are for f16, bf16 and f32, not i32");
  EXPECT_EQ(refusal("int8(256)", runtime::DataType::F32, nullptr, 1), "a buffer is null");
  EXPECT_EQ(refusal("int8(256)", runtime::DataType::F32, &number, -1), "count is -1");
  EXPECT_TRUE(plugin.loaded().roundTrip("int8(256)", runtime::DataType::F32, nullptr, nullptr, 0).isOk());
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryCodedAlgorithm, testing::ValuesIn(test::codedAlgorithmNames()),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Partitions, EveryCodedAlgorithm,
                         testing::Values("pairAllGather", "nodeReduceScatter", "railReduceScatter",
                                         "partitionAllGather"),
                         [](const auto &info) { return info.param; });

TEST_P(EveryCodedAlgorithm, GivesTheReferencesBits) {
  std::vector<Sizes> meshes = meshesOf(definitionOf(GetParam()));
  CodedPlugin plugin = compileCoded(GetParam(), meshes);
  size_t number = 0;
  for (const Sizes &mesh : meshes)
    for (int64_t count : {1, 3077}) {
      int lanes = 1 + int(number % 3);
      check(plugin, 0, {mesh, Launch::Threads, "", lanes, false},
            {codedTypes[number % 3], count, codedReductions[number % 4], 0, lanes, number % 2 == 0, false}, number);
      ++number;
    }
  for (const char *memory : {"attach", "staged"})
    check(plugin, 0, {meshes.back(), Launch::Forked, memory, 2, false},
          {ElementType::F32, 2500, Reduction::Sum, 0, 2, false, false}, number++);
}

constexpr Protocol packetProtocols[] = {Protocol::LL, Protocol::LL128};

/// The largest count takes several pieces of the tile of one lane where few ranks share it, so the smaller mesh has it.
/// Later calls of the same ranks find packets of earlier ones.
TEST_P(EveryCodedAlgorithm, GivesTheReferencesBitsInPackets) {
  std::vector<Sizes> meshes = meshesOf(definitionOf(GetParam()));
  meshes = {meshes[1], meshes.back()};
  size_t number = 0;
  for (Protocol protocol : packetProtocols) {
    CodedPlugin plugin = compileCoded(GetParam(), meshes, {.protocol = protocol});
    for (const Sizes &mesh : meshes) {
      auto caseOf = [&](int64_t count, int lanes) {
        return Case{codedTypes[number % 3], count, codedReductions[number % 4], 0, lanes, number % 2 == 0, false};
      };
      for (int64_t count : {0, 1, 3077, 34001}) {
        if (count == 34001 && mesh != meshes.front())
          continue;
        int lanes = count == 34001 ? 1 : 1 + int(number % 3);
        check(plugin, 0, {mesh, count == 1 ? Launch::Forked : Launch::Threads, "", lanes, false}, caseOf(count, lanes),
              number);
        ++number;
      }
      std::vector<Case> cases;
      int lanes = 1 + int(number % 2);
      for (int64_t count : {2050, 9001, 1, 0, 3077}) {
        cases.push_back(caseOf(count, lanes));
        ++number;
      }
      checkInTurn(plugin, 0, {mesh, Launch::Threads, "", lanes, false}, cases, number);
    }
  }
}

/// Formats of one, four and six bits, a cast, and one that draws.
TEST(Packets, CarryWhatEveryKindOfCodecMakes) {
  std::vector<codec::Codec> codecs = {dsl::sign(16), dsl::nvfp4(), dsl::quick6(),
                                      dsl::bf16(),   dsl::f32(),   dsl::int8(64).stochastic()};
  for (Protocol protocol : packetProtocols) {
    CodedPlugin plugin(twoShotsOf(codecs), {{3}}, {.schedule = {.protocol = protocol}});
    for (size_t i = 0; i < codecs.size() && !HasFatalFailure(); ++i)
      for (int64_t count : {31, 5000}) {
        SCOPED_TRACE(codec::textOf(codecs[i]));
        check(plugin, i, {{3}, Launch::Threads, "", 2, false},
              {codedTypes[i % 3], count, codedReductions[i % 4], 0, 2, i % 2 == 0, false}, i);
      }
  }
}

/// What is put to the caller's memory goes there by itself, after the pass that encodes for the mapped peers.
TEST(StochasticCodecs, DrawAlikeWhereverMemoryIs) {
  for (const char *name : {"quantisedRingAllReduce", "quantisedTwoShotAllReduce"}) {
    CodedOptions options{.codecs = {{"wire", dsl::int8(64).stochastic()}}};
    CodedPlugin plugin({definitionOf(name)}, {{4}}, options);
    for (const char *memory : {"", "attach", "staged"})
      check(plugin, 0, {{4}, Launch::Forked, memory, 2, false},
            {ElementType::BF16, 9001, Reduction::Sum, 0, 2, false, false}, 7);
  }
}

/// The reference knows no schedule.
TEST(StochasticCodecs, DrawAlikeWithEverySchedule) {
  for (const char *name : {"quantisedRingAllReduce", "quantisedTwoShotAllReduce"})
    for (const CodedOptions &options : {CodedOptions{.optimize = false},
                                        {.schedule = {.pipelineDepth = 3}},
                                        {.schedule = {.transfers = Transfers::Pull}},
                                        {.schedule = {.entry = Entry::Credits}},
                                        {.schedule = {.protocol = Protocol::LL}},
                                        {.schedule = {.protocol = Protocol::LL128}}}) {
      CodedOptions stochastic = options;
      stochastic.codecs = {{"wire", dsl::int8(64).stochastic()}};
      CodedPlugin plugin({definitionOf(name)}, {{3}}, stochastic);
      check(plugin, 0, {{3}, Launch::Threads, "", 2, false},
            {ElementType::BF16, 9001, Reduction::Sum, 0, 2, false, false}, 7);
    }
}

/// The full product.
static void checkProduct(const CodedOptions &options) {
  std::vector<codec::Codec> codecs = allCodecs();
  CodedPlugin plugin(twoShotsOf(codecs), {{3}}, options);
  for (size_t i = 0; i < codecs.size() && !testing::Test::HasFatalFailure(); ++i)
    for (int64_t count : {0, 1, 31, 1023, 1024, 1025, 70001})
      for (ElementType type : codedTypes)
        for (int lanes : {1, 2, 3}) {
          SCOPED_TRACE(codec::textOf(codecs[i]));
          Reduction reduction = codedReductions[size_t(count + lanes) % 4];
          check(plugin, i, {{3}, Launch::Threads, "", lanes, false},
                {type, count, reduction, 0, lanes, lanes == 2, false}, size_t(count) + size_t(lanes));
        }
}

TEST(EveryCodec, HeavyGivesTheReferencesBits) { checkProduct({}); }
TEST(EveryCodec, HeavyGivesTheReferencesBitsWithAvx2Alone) { checkProduct({.cpu = "x86-64-v3"}); }
TEST(EveryCodec, HeavyGivesTheReferencesBitsUnoptimised) { checkProduct({.optimize = false}); }
TEST(EveryCodec, HeavyGivesTheReferencesBitsInLL) { checkProduct({.schedule = {.protocol = Protocol::LL}}); }
TEST(EveryCodec, HeavyGivesTheReferencesBitsInLL128) { checkProduct({.schedule = {.protocol = Protocol::LL128}}); }

TEST_P(EveryCodedAlgorithm, HeavyGivesTheReferencesBitsWithEverySchedule) {
  std::vector<Sizes> meshes = meshesOf(definitionOf(GetParam()));
  size_t number = 0;
  for (const Schedule &schedule : {Schedule{},
                                   Schedule{.pipelineDepth = 3},
                                   {.transfers = Transfers::Pull},
                                   {.entry = Entry::Credits},
                                   {.protocol = Protocol::LL},
                                   {.protocol = Protocol::LL128}}) {
    CodedPlugin plugin = compileCoded(GetParam(), meshes, schedule);
    for (const Sizes &mesh : meshes)
      for (int64_t count : {1025, 20011})
        for (auto [launch, memory] :
             {std::pair(Launch::Threads, ""), {Launch::Forked, "attach"}, {Launch::Forked, "staged"}}) {
          int lanes = 1 + int(number % 3);
          check(plugin, 0, {mesh, launch, memory, lanes, false},
                {codedTypes[number % 3], count, codedReductions[number % 4], 0, lanes, number % 2 == 0, false}, number);
          ++number;
        }
  }
}
