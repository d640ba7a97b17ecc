// Averages of f16 and bf16 whose sums the type does not hold: beyond its largest number, or with more bits than it has.
#include "Shipped.h"

#include "ir/reference/Oracle.h"

#include <cstring>

using namespace kolo::conformance;
using namespace kolo::reference;
using kolo::test::Launch;

namespace {

/// The bits of a number that the type holds.
uint16_t bitsOf(ElementType type, float value) {
  return type == ElementType::F16 ? halfFromFloat(value) : bfloat16FromFloat(value);
}

/// Numbers of the upper half of the type's range, or of a binade, with all bits that the type has. Their sums are exact
/// in f32, in any order. The first element of all ranks is 60000, the second 1.
float numberAt(ElementType type, int64_t rank, size_t element, std::mt19937_64 &random) {
  if (element < 2)
    return element == 0 ? 60000.0f : 1.0f;
  if (type == ElementType::F16)
    return float(1024 + random() % 1024) * 32;
  return std::ldexp(float(128 + random() % 128), element % 3 == 0 ? 112 : int(element % 64) - 32) *
         float(rank % 2 ? -1 : 1);
}

PreparedCase prepareLarge(const Case &choices, kolo::CollectiveAttr collective, const Sizes &mesh, uint64_t seed) {
  PreparedCase prepared = prepare(choices, collective, mesh, seed);
  std::mt19937_64 random(seed);
  for (size_t rank = 0; rank < prepared.simulated.inputs.size(); ++rank)
    for (size_t i = 0; 2 * i < prepared.simulated.inputs[rank].size(); ++i) {
      uint16_t bits = bitsOf(choices.type, numberAt(choices.type, int64_t(rank), i, random));
      std::memcpy(&prepared.simulated.inputs[rank][2 * i], &bits, sizeof bits);
    }
  for (size_t rank = 0; rank < prepared.expected.size(); ++rank)
    prepared.expected[rank] = expectedOutput(prepared.simulated, int64_t(rank));
  return prepared;
}

struct AverageRow {
  std::string algorithm;
  Sizes mesh;
  kolo::Schedule schedule = {};
};

class Averages : public testing::TestWithParam<AverageRow> {};

} // namespace

TEST_P(Averages, OfNarrowTypesAreRoundedOnceWhateverTheirSums) {
  const AverageRow &row = GetParam();
  CompiledAlgorithm algorithm(row.algorithm, /*optimize=*/true, row.schedule);
  kolo::runtime::Mesh mesh = namedMesh(definitionOf(row.algorithm), row.mesh);
  for (Launch launch : {Launch::Threads, Launch::Forked}) {
    std::vector<PreparedCase> prepared;
    uint64_t seed = testSeed();
    // Many pieces among threads alone: who makes them is the same code.
    for (int64_t count : launch == Launch::Threads ? std::vector<int64_t>{2, 17, 1000, 70001, 17, 1000}
                                                   : std::vector<int64_t>{2, 17, 1000})
      for (ElementType type : {ElementType::F16, ElementType::BF16, ElementType::F32})
        for (bool isInPlace : {false, true}) {
          Case choices{type == ElementType::F32 ? ElementType::F16 : type, count, Reduction::Average};
          choices.reduction = type == ElementType::F32 ? Reduction::Max : Reduction::Average; // other calls between
          choices.isInPlace = isInPlace;
          prepared.push_back(prepareLarge(choices, algorithm.collective(), row.mesh, ++seed));
        }
    auto body = [&](kolo::runtime::Communicator &communicator) {
      return Caller(communicator, algorithm.plugin(), mesh, seed).callAll(prepared);
    };
    EXPECT_EQ(kolo::test::runRanks(launch, mesh.numRanks(), {60000, launch == Launch::Threads ? 1 : 3}, body), "")
        << row.algorithm << ", KOLO_SEED=" << testSeed();
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Averages,
                         testing::Values(AverageRow{"ringAllReduce", {4}},
                                         AverageRow{"ringAllReduce", {3}, {.pipelineDepth = 2}},
                                         AverageRow{"twoShotAllReduce", {4}},
                                         AverageRow{"recursiveDoublingAllReduce", {4}},
                                         AverageRow{"oneShotAllReduce", {3}, {.protocol = kolo::Protocol::LL}},
                                         AverageRow{"hierarchicalAllReduce", {2, 2}}, AverageRow{"binomialReduce", {4}},
                                         AverageRow{"ringReduceScatter", {4}}),
                         [](const auto &info) { return info.param.algorithm + std::to_string(info.index); });

/// Whoever changes the definition changes this, too.
TEST(Averages, OfTheDefinitionAreThoseOfF32) {
  auto average = [](ElementType type, float number, int64_t numRanks) {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    context.loadDialect<kolo::KoloDialect>();
    Call shape;
    shape.collective = kolo::CollectiveAttr::get(&context, kolo::CollectiveKind::AllReduce, {0});
    shape.meshSizes = {numRanks};
    shape.count = 1;
    shape.type = type;
    shape.reduction = Reduction::Average;
    SimulatedCall call = makeSimulatedCall(shape);
    uint16_t bits = bitsOf(type, number);
    for (Bytes &input : call.inputs)
      std::memcpy(input.data(), &bits, sizeof bits);
    std::memcpy(&bits, expectedOutput(call, 0)->data(), sizeof bits);
    return type == ElementType::F16 ? floatFromHalf(bits) : floatFromBfloat16(bits);
  };
  EXPECT_EQ(average(ElementType::F16, 60000, 2), 60000);
  EXPECT_EQ(average(ElementType::F16, 65504, 1000), 65504);
  EXPECT_EQ(average(ElementType::F16, 0x1p-24f, 8), 0x1p-24f);
  EXPECT_EQ(average(ElementType::BF16, 1, 300), 1);
}

TEST(Averages, OfScansAreRefusedOnEveryRank) {
  CompiledAlgorithm algorithm("chainScan", /*optimize=*/true);
  kolo::runtime::Mesh mesh = namedMesh(definitionOf("chainScan"), {2});
  auto body = [&](kolo::runtime::Communicator &communicator) -> std::string {
    float in = 1, out = 0;
    kolo::runtime::CallArguments arguments{"chainScan", mesh, 1, kolo::runtime::DataType::F32,
                                           kolo::runtime::Reduction::Average};
    arguments.input = &in;
    arguments.output = &out;
    kolo::runtime::Status status = communicator.run(algorithm.plugin(), arguments);
    // A rank that learns of the refusal from another one says which.
    return status.code() == kolo::runtime::StatusCode::InvalidArgument &&
                   std::string_view(status.message()).ends_with("program 'chainScan': scan has no average")
               ? ""
               : "not refused: " + status.message();
  };
  EXPECT_EQ(kolo::test::runRanks(Launch::Threads, 2, {60000, 1}, body), "");
}
