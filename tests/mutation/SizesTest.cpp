// A proof for all sizes of a mesh dimension holds for all of them: which shipped algorithms have one, and that the
// checker proves the meshes that it covers, of shipped programs and of their mutants.
#include "Mutants.h"
#include "Shipped.h"

#include "compiler/Pipeline.h"
#include "compiler/check/ForAllSizes.h"
#include "compiler/project/Relations.h"

#include <gtest/gtest.h>

using namespace kolo;
using namespace kolo::mutation;

namespace {

/// With so many slices, and dimensions that go over a network.
mlir::OwningOpRef<mlir::ModuleOp> compileFor(mlir::MLIRContext &context, const std::string &algorithm,
                                             const Sizes &mesh, int64_t depth, llvm::ArrayRef<int64_t> network = {}) {
  mlir::OwningOpRef<mlir::ModuleOp> module = test::emit(context, algorithm, {mesh});
  Schedule schedule;
  schedule.pipelineDepth = depth;
  PipelineOptions options{.schedule = std::get<ResolvedSchedule>(resolve(schedule, {}))};
  for (auto op : module->getOps<ChoreographyOp>())
    if (!network.empty())
      op->setAttr(networkAttrName, mlir::DenseI64ArrayAttr::get(&context, network));
  return mlir::succeeded(runChannelPipeline(*module, options)) ? std::move(module) : nullptr;
}

AllSizes proveFor(ProgramOp program, const Sizes &mesh, size_t dim) {
  CheckOptions options;
  options.transport = transportOf(program);
  options.wantSteps = false;
  return proveForAllSizes(program, mesh, dim, options);
}

struct Case {
  std::string algorithm;
  Sizes mesh;
  size_t dim;
  int64_t depth = 1;
  std::vector<int64_t> network = {};
};

struct Counts {
  int numProved = 0, numUndecided = 0;
};

/// What is proved for all sizes is proved on each, with all of its slices.
void compare(ProgramOp program, const Sizes &mesh, size_t dim, const std::string &what, Counts &counts) {
  AllSizes all = proveFor(program, mesh, dim);
  ++(all.from ? counts.numProved : counts.numUndecided);
  if (!all.from)
    return;
  CheckOptions options;
  options.wantSteps = false;
  options.followsAllSlices = true;
  for (int64_t size : {16, 17, 18, 19, 23, 32}) {
    Sizes larger = mesh;
    larger[dim] = size;
    Verdict verdict = checkProgram(program, larger, options);
    ASSERT_TRUE(verdict.isProved()) << what << " on " << textOf(larger) << ": "
                                    << (verdict.refutation ? verdict.refutation->message : *verdict.tooLarge);
    ASSERT_TRUE(!all.ranksAgreeBitwise || verdict.ranksAgreeBitwise == true) << what << " on " << textOf(larger);
  }
}

void compareMutants(const std::string &algorithm, const Sizes &mesh, int64_t depth, Counts &counts) {
  auto context = test::makeContext();
  mlir::OwningOpRef<mlir::ModuleOp> module = compileFor(*context, algorithm, mesh, depth);
  ASSERT_TRUE(module) << algorithm;
  openFuses(*module);
  ProgramOp program = *module->getOps<ProgramOp>().begin();
  for (size_t dim = 0; dim < mesh.size(); ++dim) {
    if (!proveFor(program, mesh, dim).from) // so are few of its mutants
      continue;
    std::string name = algorithm + " of " + textOf(mesh) + ", dimension " + std::to_string(dim);
    compare(program, mesh, dim, name, counts);
    for (Mutant &mutant : mutantsOf(program))
      compare(*mutant.program, mesh, dim, name + ": " + nameOf(mutant.kind).str() + " " + mutant.what, counts);
  }
}

} // namespace

TEST(ForAllSizes, RingsAllPairsRailsTwoLevelsAndPipelinesAreProved) {
  auto context = test::makeContext();
  for (const Case &each : std::vector<Case>{{"ringAllGather", {4}, 0},
                                            {"ringAllReduce", {4}, 0},
                                            {"ringAllReduce", {4}, 0, 16},
                                            {"ringReduceScatter", {5}, 0, 8},
                                            {"slottedRingAllReduce", {4}, 0, 16},
                                            {"twoWayRingAllGather", {4}, 0},
                                            {"twoWayRingAllReduce", {4}, 0, 16},
                                            {"allPairsAllGather", {4}, 0},
                                            {"allPairsReduceScatter", {4}, 0, 16},
                                            {"directAllToAll", {4}, 0},
                                            {"oneShotAllReduce", {4}, 0},
                                            {"twoShotAllReduce", {4}, 0, 16},
                                            {"railAllGather", {3, 4}, 0, 16},
                                            {"railAllGather", {3, 4}, 0, 16, {0}},
                                            {"railReduceScatter", {3, 4, 1}, 0, 1, {0}},
                                            {"hierarchicalAllReduce", {3, 4}, 0, 16},
                                            {"hierarchicalAllReduce", {3, 4}, 1, 16},
                                            {"hierarchicalReduceScatter", {3, 4}, 0},
                                            {"threeLevelAllReduce", {3, 2, 2}, 0, 16},
                                            {"twoSlotRingAllReduce", {4}, 0, 4},
                                            {"twoLevelAllToAll", {3, 4}, 0, 1, {0}},
                                            {"frontierAllGather", {3, 8}, 0, 16, {0}},
                                            {"frontierReduceScatter", {3, 8}, 0, 16, {0}},
                                            {"frontierAllReduce", {3, 8}, 0, 4, {0}}}) {
    mlir::OwningOpRef<mlir::ModuleOp> module =
        compileFor(*context, each.algorithm, each.mesh, each.depth, each.network);
    ASSERT_TRUE(module) << each.algorithm;
    AllSizes all = proveFor(*module->getOps<ProgramOp>().begin(), each.mesh, each.dim);
    EXPECT_LE(all.from.value_or(100), 5) << each.algorithm << " on " << textOf(each.mesh) << ": " << all.whyNot;
    EXPECT_EQ(all.ranksAgreeBitwise, each.algorithm != "oneShotAllReduce") << each.algorithm;
  }
}

TEST(ForAllSizes, NothingIsSaidOfShapesWithoutARule) {
  auto context = test::makeContext();
  for (const auto &[each, reason] :
       std::vector<std::pair<Case, std::string>>{{{"binomialBroadcast", {4}, 0}, "seen from the root"},
                                                 {{"recursiveDoublingAllGather", {4}, 0}, "bounds of a loop"},
                                                 {{"bruckAllGather", {4}, 0}, "bounds of a loop"},
                                                 {{"orderedAllReduce", {4}, 0}, "a condition differs"},
                                                 {{"hierarchicalReduceScatter", {6, 2}, 0, 1, {0}}, "grow evenly"},
                                                 {{"railRecursiveAllReduce", {4, 2}, 0}, "not affine"}}) {
    mlir::OwningOpRef<mlir::ModuleOp> module = compileFor(*context, each.algorithm, each.mesh, 1, each.network);
    ASSERT_TRUE(module) << each.algorithm;
    AllSizes all = proveFor(*module->getOps<ProgramOp>().begin(), each.mesh, each.dim);
    EXPECT_FALSE(all.from) << each.algorithm;
    EXPECT_NE(all.whyNot.find(reason), std::string::npos) << each.algorithm << ": " << all.whyNot;
  }
}

/// A proof for all sizes covers a large mesh. Nothing covers one where nothing was decided.
TEST(ForAllSizes, LargeMeshesAreProvedByThemOrByThemselves) {
  auto context = test::makeContext();
  for (const auto &[algorithm, isCovered] : std::vector<std::pair<std::string, bool>>{
           {"ringAllGather", true}, {"binomialGather", false}, {"recursiveDoublingAllReduce", false}}) {
    mlir::OwningOpRef<mlir::ModuleOp> module = compileFor(*context, algorithm, {4}, 1);
    CheckOptions options;
    setBudget(options, 1 << 10);
    options.sizes = CheckOptions::Sizes::AllOfFirst;
    Verdict verdict = checkProgram(*module->getOps<ProgramOp>().begin(), {int64_t(1) << 20}, options);
    EXPECT_EQ(verdict.isProved(), isCovered) << algorithm;
    EXPECT_EQ(verdict.tooLarge.has_value(), !isCovered) << algorithm;
  }
}

TEST(ForAllSizes, MutantsOfPipelinesThatAreProvedAreProvedOnEverySize) {
  Counts counts;
  for (const std::string &algorithm : {"ringAllReduce", "directAllToAll", "twoShotAllReduce"})
    compareMutants(algorithm, {4}, 4, counts);
  EXPECT_GE(counts.numProved, 3);
  EXPECT_GT(counts.numUndecided, 50);
}

using EverySize = EveryAlgorithm;
TEST_P(EverySize, OfAMutantThatIsProvedForAllSizesIsProved) {
  Counts counts;
  compareMutants(GetParam(), threeMeshesOf(GetParam()).back(), 1, counts);
}
INSTANTIATE_TEST_SUITE_P(Sizes, EverySize, testing::ValuesIn(sweptAlgorithmNames()),
                         [](const auto &info) { return info.param; });

using EverySizeHeavy = EveryAlgorithm;
TEST_P(EverySizeHeavy, OfAMutantThatIsProvedForAllSizesIsProved) {
  Counts counts;
  for (const Sizes &mesh : threeMeshesOf(GetParam()))
    for (int64_t depth : {1, 4})
      compareMutants(GetParam(), mesh, depth, counts);
}
INSTANTIATE_TEST_SUITE_P(Sizes, EverySizeHeavy, testing::ValuesIn(algorithmNames()),
                         [](const auto &info) { return info.param; });
