// What the checker of channel programs says of algorithms whose buffers have codecs: proved, with the bounds that
// theory gives, and the same bits on all ranks. The programs give the bits that their choreographies give.
#include "Support.h"

#include "codec/Presets.h"
#include "compiler/Pipeline.h"
#include "compiler/check/Verdict.h"
#include "dsl/Recording.h"

#include "mlir/Pass/PassManager.h"

#include <map>
#include <random>

using namespace kolo;
using namespace kolo::reference;

namespace {

class Program {
public:
  Program(const std::string &name, const std::vector<Sizes> &meshes, bool optimize = true,
          const std::map<std::string, codec::Codec> &choices = {})
      : context(test::makeContext()), recording(dsl::record(definitionOf(name), choices)),
        choreographies(dsl::emitChoreography(*context, *recording, meshes)), programs(choreographies->clone()) {
    PipelineOptions options;
    options.schedule = std::get<ResolvedSchedule>(resolve({}, {Runners::HostAndDevices, optimize}));
    mlir::PassManager manager(context.get(), mlir::ModuleOp::getOperationName());
    buildChannelPipeline(manager, options);
    EXPECT_TRUE(mlir::succeeded(manager.run(*programs))) << name;
  }

  ChoreographyOp choreography() { return *choreographies->getOps<ChoreographyOp>().begin(); }
  ProgramOp program() { return *programs->getOps<ProgramOp>().begin(); }

private:
  std::unique_ptr<mlir::MLIRContext> context;
  std::unique_ptr<dsl::Recording> recording;
  mlir::OwningOpRef<mlir::ModuleOp> choreographies, programs;
};

/// The factors of codecs, in the order of the program's buffers, without roundings to the call's type.
std::vector<int64_t> factorsOf(const Verdict &verdict) {
  std::vector<int64_t> factors;
  for (const OutputLoss &loss : verdict.losses)
    if (!codec::isNone(loss.codec))
      factors.push_back(loss.factor);
  return factors;
}

Verdict verdictOf(const std::string &algorithm, const Sizes &mesh) {
  Program program(algorithm, {mesh});
  Verdict verdict = checkProgram(program.program(), mesh);
  EXPECT_TRUE(verdict.isProved()) << algorithm << test::textOf(mesh)
                                  << (verdict.refutation ? verdict.refutation->message : "");
  return verdict;
}

using Factors = std::vector<int64_t>;

std::vector<Sizes> meshesOf(const std::string &algorithm) {
  size_t numDims = definitionOf(algorithm).mesh.dims.size();
  if (numDims == 1)
    return {{2}, {3}, {8}};
  return {{2, 2}, {3, 2}, {2, 4}, {1, 3}};
}

void fill(SimulatedCall &call) {
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  for (Bytes &input : call.inputs)
    for (size_t at = 0; at + sizeof(float) <= input.size(); at += sizeof(float)) {
      float value = normal(random);
      std::memcpy(&input[at], &value, sizeof value);
    }
}

} // namespace

TEST(Bounds, OfRingsAndOfAllPairsAreThoseOfTheory) {
  for (int64_t ranks : {2, 3, 5, 8, 16, 65, 96}) {
    EXPECT_EQ(factorsOf(verdictOf("quantisedRingAllGather", {ranks})), Factors{1});
    EXPECT_EQ(factorsOf(verdictOf("quantisedTwoShotAllReduce", {ranks})), Factors{2 * ranks - 1});
    Verdict ring = verdictOf("quantisedRingAllReduce", {ranks});
    EXPECT_EQ(factorsOf(ring), Factors{ranks * (ranks + 1) / 2});
    EXPECT_EQ(ring.numEncodings, ranks);
  }
}

TEST(Bounds, OfTwoLevelsAreThoseOfTheory) {
  for (const Sizes &mesh : std::vector<Sizes>{{2, 2}, {2, 4}, {4, 2}, {3, 3}, {3, 5}, {9, 8}}) {
    int64_t nodes = mesh[0], perNode = mesh[1];
    EXPECT_EQ(factorsOf(verdictOf("quantisedReduceScatter", mesh)),
              (Factors{nodes * (perNode - 1), perNode * (nodes - 1)}));
    EXPECT_EQ(factorsOf(verdictOf("hybridAllReduce", mesh)), Factors{2 * nodes * perNode - perNode});
    EXPECT_EQ(factorsOf(verdictOf("quantisedRailAllGather", mesh)), Factors{1});
    EXPECT_EQ(factorsOf(verdictOf("quantisedTwoLevelAllToAll", mesh)), Factors{1});
  }
}

TEST(Bounds, OfCastsThatLoseNothingAreExact) {
  Program program("quantisedTwoShotAllReduce", {{4}}, true, {{"wire", dsl::f32()}});
  Verdict verdict = checkProgram(program.program(), {4});
  EXPECT_EQ(factorsOf(verdict), Factors());
  EXPECT_EQ(verdict.numEncodings, 0);
}

class BoundedAlgorithm : public testing::TestWithParam<std::string> {};

TEST_P(BoundedAlgorithm, IsProvedWithTheSameBitsOnAllRanks) {
  for (bool optimize : {true, false}) {
    Program program(GetParam(), meshesOf(GetParam()), optimize);
    for (const Sizes &mesh : meshesOf(GetParam())) {
      Verdict verdict = checkProgram(program.program(), mesh);
      EXPECT_TRUE(verdict.isProved()) << test::textOf(mesh);
      EXPECT_EQ(verdict.ranksAgreeBitwise, true) << test::textOf(mesh);
    }
  }
}

TEST_P(BoundedAlgorithm, GivesTheBitsOfItsChoreography) {
  for (bool optimize : {true, false}) {
    Program program(GetParam(), meshesOf(GetParam()), optimize);
    for (const Sizes &mesh : meshesOf(GetParam())) {
      Call call;
      call.collective = program.choreography().getCollective();
      call.meshSizes = mesh;
      call.count = 9000;
      call.reduction = program.choreography().getCollective().getKind() == CollectiveKind::AllReduce && optimize
                           ? Reduction::Average // divided after the last rounding
                           : Reduction::Sum;
      SimulatedCall wanted = makeSimulatedCall(call);
      fill(wanted);
      SimulatedCall found = wanted;
      ASSERT_EQ(llvm::toString(interpretChoreography(program.choreography(), wanted)), "") << describe(wanted);
      ASSERT_EQ(llvm::toString(interpretChannel(program.program(), found, /*seed=*/11)), "") << describe(found);
      EXPECT_EQ(found.outputs, wanted.outputs) << describe(found);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shipped, BoundedAlgorithm, testing::ValuesIn(test::codedAlgorithmNames()),
                         [](const auto &test) { return test.param; });
