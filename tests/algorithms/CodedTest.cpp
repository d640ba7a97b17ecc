// Algorithms whose buffers have codecs. With integers p times a factor of each rank, and +-127 in every block, 8-bit
// codecs are exact at every hop: so results are the collective's definition, and routing is tested without trust in any
// codec. On ordinary data, all ranks get the same bits, and lose as much as theory says.
#include "Support.h"

#include "codec/Presets.h"
#include "codec/Quality.h"
#include "compiler/Passes.h"
#include "dsl/Recording.h"

#include "mlir/Pass/PassManager.h"

#include <cmath>
#include <cstring>
#include <map>
#include <random>

using namespace kolo;
using namespace kolo::reference;

namespace {

using Choices = std::map<std::string, codec::Codec>;

/// The same choice for each codec that an algorithm names.
Choices chooseAll(const std::string &algorithm, const codec::Codec &codec) {
  Choices choices;
  std::unique_ptr<dsl::Recording> recording = dsl::record(definitionOf(algorithm));
  for (const dsl::RecordedCodec &named : recording->codecs)
    choices.emplace(named.name, codec);
  return choices;
}

/// All meshes of up to this many ranks.
std::vector<Sizes> allMeshes(size_t numDims, int64_t maxRanks) {
  if (numDims == 0)
    return {{}};
  std::vector<Sizes> result;
  for (int64_t size = 1; size <= maxRanks; ++size)
    for (Sizes rest : allMeshes(numDims - 1, maxRanks / size)) {
      rest.insert(rest.begin(), size);
      result.push_back(rest);
    }
  return result;
}

class Coded {
public:
  Coded(const std::string &name, const Choices &choices)
      : context(test::makeContext()), recording(dsl::record(definitionOf(name), choices)) {
    EXPECT_TRUE(recording->diagnostics.empty());
    module = dsl::emitChoreography(*context, *recording, allMeshes(definitionOf(name).mesh.dims.size(), 16));
  }

  ChoreographyOp choreography() { return *module->getOps<ChoreographyOp>().begin(); }
  mlir::ModuleOp moduleOp() { return *module; }

  SimulatedCall callOn(const Sizes &mesh, int64_t count, ElementType type = ElementType::F32,
                       Reduction reduction = Reduction::Sum) {
    Call call;
    call.collective = choreography().getCollective();
    call.meshSizes = mesh;
    call.count = count;
    call.type = type;
    call.reduction = reduction;
    return makeSimulatedCall(call);
  }

private:
  std::unique_ptr<mlir::MLIRContext> context;
  std::unique_ptr<dsl::Recording> recording;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

void storeFloat(SimulatedCall &call, int64_t rank, int64_t element, float value) {
  std::byte *at = &call.inputs[size_t(rank)][size_t(element * elementBytes(call.type))];
  uint16_t half = halfFromFloat(value);
  if (call.type == ElementType::F16)
    std::memcpy(at, &half, sizeof half);
  else
    std::memcpy(at, &value, sizeof value);
}

/// Rank r gets r + 1 times integers that all ranks share, with 127 or -127 at each multiple of 16 of a block of
/// `count`.
void fillInProportion(SimulatedCall &call) {
  for (int64_t rank = 0; rank < numRanks(call); ++rank)
    for (int64_t i = 0; i < numBlocks(call, BufferRole::Input) * call.count; ++i) {
      int64_t block = i / call.count, place = i % call.count;
      auto mixed = int64_t((uint64_t(i) * 2654435761u + uint64_t(block) * 40503u) >> 7);
      int64_t integer = place % 16 == 0 ? (mixed % 2 == 0 ? 127 : -127) : mixed % 255 - 127;
      storeFloat(call, rank, i, float((rank + 1) * integer));
    }
}

void fillNormally(SimulatedCall &call, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (int64_t rank = 0; rank < numRanks(call); ++rank)
    for (int64_t i = 0; i < numBlocks(call, BufferRole::Input) * call.count; ++i)
      storeFloat(call, rank, i, normal(random));
}

bool isAllReduce(const SimulatedCall &call) { return call.collective.getKind() == CollectiveKind::AllReduce; }

/// Counts whose blocks have tails, and for an all-reduce one that gives 16 ranks a chunk each.
std::vector<int64_t> testCounts(const SimulatedCall &call) {
  return isAllReduce(call) ? std::vector<int64_t>{0, 1, 1025, 17 * 1024 + 77} : std::vector<int64_t>{0, 31, 1100};
}

class CodedAlgorithm : public testing::TestWithParam<std::string> {
protected:
  std::vector<Sizes> meshes(int64_t maxRanks) const {
    return allMeshes(definitionOf(GetParam()).mesh.dims.size(), maxRanks);
  }
};

} // namespace

TEST_P(CodedAlgorithm, IsTheCollectiveWhereEightBitsAreExact) {
  Coded algorithm(GetParam(), chooseAll(GetParam(), dsl::int8(64)));
  for (const Sizes &mesh : meshes(16))
    for (int64_t count : testCounts(algorithm.callOn(mesh, 0)))
      for (Reduction reduction : {Reduction::Sum, Reduction::Average}) {
        if (reduction == Reduction::Average && count != 1025)
          continue;
        SimulatedCall call = algorithm.callOn(mesh, count, ElementType::F32, reduction);
        fillInProportion(call);
        ASSERT_EQ(textOf(interpretChoreography(algorithm.choreography(), call)), "") << describe(call);
        ASSERT_EQ(textOf(checkOutputs(call)), "") << describe(call);
      }
}

TEST_P(CodedAlgorithm, IsTheCollectiveInHalfPrecisionToo) {
  Coded algorithm(GetParam(), chooseAll(GetParam(), dsl::int8(64)));
  for (const Sizes &mesh : meshes(5)) { // sums up to 15 * 127 are exact
    SimulatedCall call = algorithm.callOn(mesh, 5000, ElementType::F16);
    fillInProportion(call);
    ASSERT_EQ(textOf(interpretChoreography(algorithm.choreography(), call)), "") << describe(call);
    ASSERT_EQ(textOf(checkOutputs(call)), "") << describe(call);
  }
}

/// What the checker of choreographies says, to which encodings are transparent.
TEST_P(CodedAlgorithm, HasTheRightContentsOnEveryMesh) {
  for (const Choices &choices : {Choices(), chooseAll(GetParam(), dsl::mxfp4()), chooseAll(GetParam(), dsl::none())}) {
    Coded algorithm(GetParam(), choices);
    mlir::PassManager manager(algorithm.moduleOp()->getContext(), mlir::ModuleOp::getOperationName());
    manager.nest<ChoreographyOp>().addPass(createCheckChoreography());
    EXPECT_TRUE(mlir::succeeded(manager.run(algorithm.moduleOp())));
  }
}

TEST_P(CodedAlgorithm, GivesAllRanksOfAGroupTheSameBits) {
  for (const char *name : {"int8", "quick4", "mxfp8", "nvfp4", "sign", "bf16"}) {
    Coded algorithm(GetParam(), chooseAll(GetParam(), *codec::parse(name)));
    CollectiveKind kind = algorithm.choreography().getCollective().getKind();
    if (kind != CollectiveKind::AllReduce && kind != CollectiveKind::AllGather)
      GTEST_SKIP() << "every rank has a result of its own";
    for (const Sizes &mesh : meshes(6)) {
      SimulatedCall call = algorithm.callOn(mesh, 3000);
      fillNormally(call, 3);
      ASSERT_EQ(textOf(interpretChoreography(algorithm.choreography(), call)), "") << describe(call);
      for (int64_t rank = 0; rank < numRanks(call); ++rank)
        ASSERT_EQ(call.outputs[size_t(rank)], call.outputs[size_t(groupOf(call, rank).front())])
            << describe(call) << name;
    }
  }
}

TEST_P(CodedAlgorithm, NeedsEveryOneOfItsStatements) {
  auto statementsOf = [](Coded &algorithm) {
    std::vector<StatementInterface> result;
    algorithm.choreography().walk([&](StatementInterface statement) { result.push_back(statement); });
    return result;
  };
  Choices choices = chooseAll(GetParam(), dsl::int8(64));
  Coded original(GetParam(), choices);
  for (size_t i = 0; i < statementsOf(original).size(); ++i) {
    Coded mutant(GetParam(), choices);
    statementsOf(mutant)[i].erase();
    bool isWrong = false;
    for (const Sizes &mesh : meshes(8)) {
      SimulatedCall call = mutant.callOn(mesh, 40 * numRanks(mutant.callOn(mesh, 0)));
      fillInProportion(call);
      isWrong |=
          !textOf(interpretChoreography(mutant.choreography(), call)).empty() || !textOf(checkOutputs(call)).empty();
    }
    EXPECT_TRUE(isWrong) << "right without statement " << i;
  }
}

TEST_P(CodedAlgorithm, RefusesWhatHasNoCodec) {
  Coded algorithm(GetParam(), chooseAll(GetParam(), dsl::int8()));
  Sizes mesh = test::smallMesh(definitionOf(GetParam()));
  SimulatedCall call = algorithm.callOn(mesh, 16, ElementType::I32);
  EXPECT_NE(textOf(interpretChoreography(algorithm.choreography(), call)).find("f16, bf16 or f32, not i32"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, CodedAlgorithm, testing::ValuesIn(test::codedAlgorithmNames()),
                         [](const auto &info) { return info.param; });
// Exact where nobody chooses a codec.
INSTANTIATE_TEST_SUITE_P(Partitions, CodedAlgorithm,
                         testing::Values("pairAllGather", "nodeReduceScatter", "railReduceScatter",
                                         "partitionAllGather"),
                         [](const auto &info) { return info.param; });

namespace {

/// 10 log10 of signal over noise, over all outputs, on normal data. The signal is the exact result in f64.
double resultQuality(const std::string &name, const Choices &choices, const Sizes &mesh, int64_t count) {
  Coded algorithm(name, choices);
  SimulatedCall call = algorithm.callOn(mesh, count);
  fillNormally(call, 11);
  EXPECT_EQ(textOf(interpretChoreography(algorithm.choreography(), call)), "");
  auto inputAt = [&](int64_t rank, int64_t element) {
    float value;
    std::memcpy(&value, &call.inputs[size_t(rank)][size_t(element) * sizeof value], sizeof value);
    return double(value);
  };
  double signal = 0, noise = 0;
  for (int64_t rank = 0; rank < numRanks(call); ++rank)
    for (int64_t i = 0; i < count; ++i) {
      int64_t element = isAllReduce(call) ? i : memberNumber(call, rank) * count + i;
      double exact = 0;
      for (int64_t other : groupOf(call, rank))
        exact += inputAt(other, element);
      float actual;
      std::memcpy(&actual, &call.outputs[size_t(rank)][size_t(i) * sizeof actual], sizeof actual);
      signal += exact * exact;
      noise += (double(actual) - exact) * (double(actual) - exact);
    }
  return 10 * std::log10(signal / noise);
}

} // namespace

TEST(CodedQuality, IsThatOfOneEncodingShiftedByWhatTheRouteCosts) {
  double once = codec::signalToNoise(dsl::int8(), codec::Distribution::Normal, 1 << 19);
  struct Row {
    const char *name;
    Sizes mesh;
    Choices choices;
    int64_t count;
    double shift;
  };
  Choices levels = {{"node", dsl::int8()}, {"network", dsl::int8()}}, network = {{"network", dsl::int8()}};
  for (const Row &row :
       {Row{"quantisedTwoShotAllReduce", {8}, {}, 1 << 17, -2.7}, Row{"quantisedRingAllReduce", {8}, {}, 1 << 17, -6.5},
        Row{"quantisedReduceScatter", {2, 4}, levels, 1 << 14, -1.0},
        Row{"hybridAllReduce", {2, 4}, network, 1 << 17, -1.8}})
    EXPECT_NEAR(resultQuality(row.name, row.choices, row.mesh, row.count), once + row.shift, 0.3) << row.name;
}

/// K u A, K being what algorithms/README.md says. Random inputs reach a quarter of it.
TEST(CodedQuality, ErrorsAreBelowTheBoundOfTheRoute) {
  struct Row {
    const char *name;
    Sizes mesh;
    Choices choices;
    double factor; // K
  };
  Choices levels = {{"node", dsl::int8()}, {"network", dsl::int8()}};
  double ranks = 8, nodes = 2, gpus = 4;
  for (const Row &row : {Row{"quantisedTwoShotAllReduce", {8}, {}, 2 * ranks - 1},
                         Row{"quantisedRingAllReduce", {8}, {}, ranks * (ranks + 1) / 2},
                         Row{"quantisedReduceScatter", {2, 4}, levels, nodes * (gpus - 1) + gpus * (nodes - 1)},
                         Row{"hybridAllReduce", {2, 4}, {}, 2 * ranks - gpus}}) {
    Coded algorithm(row.name, row.choices);
    SimulatedCall call = algorithm.callOn(row.mesh, 1 << 13);
    std::mt19937 random(5);
    std::uniform_real_distribution<float> oneSign(0.9f, 1); // so that errors of sums are large
    for (int64_t i = 0; i < numBlocks(call, BufferRole::Input) * call.count; ++i)
      for (int64_t rank = 0; rank < numRanks(call); ++rank)
        storeFloat(call, rank, i, oneSign(random));
    EXPECT_EQ(textOf(interpretChoreography(algorithm.choreography(), call)), "");
    double worst = 0;
    for (int64_t rank = 0; rank < numRanks(call); ++rank) {
      std::optional<Bytes> exact = expectedOutput(call, rank);
      for (size_t at = 0; at < exact->size(); at += sizeof(float)) {
        float wanted, actual;
        std::memcpy(&wanted, &(*exact)[at], sizeof wanted);
        std::memcpy(&actual, &call.outputs[size_t(rank)][at], sizeof actual);
        worst = std::max(worst, std::fabs(double(actual) - double(wanted)));
      }
    }
    double bound = row.factor * codec::worstError(dsl::int8());
    EXPECT_LE(worst, bound * (1 + 1e-4)) << row.name;
    EXPECT_GE(worst, bound / 4) << row.name;
  }
}
