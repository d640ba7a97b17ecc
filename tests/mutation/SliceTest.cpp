// A proof of a pipeline with few slices stands for all: the checker says the same of a program, and of its mutants,
// whether it follows few slices or all of them.
#include "Mutants.h"
#include "Shipped.h"

#include "compiler/Pipeline.h"
#include "compiler/check/Verdict.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Verifier.h"

#include <gtest/gtest.h>

using namespace kolo;
using namespace kolo::mutation;

namespace {

mlir::OwningOpRef<mlir::ModuleOp> compilePipeline(mlir::MLIRContext &context, const std::string &algorithm,
                                                  const Sizes &mesh, int64_t depth) {
  mlir::OwningOpRef<mlir::ModuleOp> module = test::emit(context, algorithm, {mesh});
  Schedule schedule;
  schedule.pipelineDepth = depth;
  EXPECT_TRUE(
      mlir::succeeded(runChannelPipeline(*module, {.schedule = std::get<ResolvedSchedule>(resolve(schedule, {}))})));
  openFuses(*module);
  return module;
}

struct SliceCounts {
  int numByFew = 0, numInFull = 0, numRefuted = 0;
};

/// The verdicts on few slices and on all.
void compare(ProgramOp program, const Sizes &mesh, const std::string &what, SliceCounts &counts) {
  CheckOptions options;
  options.wantSteps = false;
  Verdict few = checkProgram(program, mesh, options);
  options.followsAllSlices = true;
  Verdict all = checkProgram(program, mesh, options);
  EXPECT_FALSE(all.tooLarge || few.tooLarge) << what;
  EXPECT_EQ(few.isProved(), all.isProved()) << what << ": " << (all.refutation ? all.refutation->message : "");
  counts.numByFew += few.isProved() && few.slicesChecked;
  counts.numInFull += few.isProved() && !few.slicesChecked;
  counts.numRefuted += !few.isProved();
}

SliceCounts compareMutants(const std::string &algorithm, const Sizes &mesh, int64_t depth) {
  auto context = test::makeContext();
  mlir::OwningOpRef<mlir::ModuleOp> module = compilePipeline(*context, algorithm, mesh, depth);
  ProgramOp program = *module->getOps<ProgramOp>().begin();
  std::string name = algorithm + " on " + textOf(mesh) + ", " + std::to_string(depth) + " slices";
  SliceCounts counts;
  compare(program, mesh, name, counts);
  for (Mutant &mutant : mutantsOf(program))
    compare(*mutant.program, mesh, name + ": " + nameOf(mutant.kind).str() + " " + mutant.what, counts);
  return counts;
}

} // namespace

TEST(FewSlices, AreWhatTheCheckerFollowsOfAPipeline) {
  auto context = test::makeContext();
  for (const auto &[algorithm, mesh] : {std::pair<std::string, Sizes>{"twoShotAllReduce", {4}},
                                        {"ringAllReduce", {5}},
                                        {"hierarchicalAllReduce", {3, 2}},
                                        {"railAllGather", {2, 3}},
                                        {"frontierAllReduce", {2, 8}}}) {
    mlir::OwningOpRef<mlir::ModuleOp> module = compilePipeline(*context, algorithm, mesh, 64);
    Verdict verdict = checkProgram(*module->getOps<ProgramOp>().begin(), mesh);
    EXPECT_TRUE(verdict.isProved()) << algorithm << verdict.tooLarge.value_or("");
    EXPECT_LT(verdict.slicesChecked.value_or(64), 16) << algorithm;
  }
}

/// Slice 0 is then unlike the others, though each is moved alike in the loop.
TEST(FewSlices, DoNotStandForAllWhereAMoveBeforeTheLoopTakesASlice) {
  auto context = test::makeContext();
  mlir::OwningOpRef<mlir::ModuleOp> module = compilePipeline(*context, "railAllGather", {2, 2}, 13);
  ProgramOp program = *module->getOps<ProgramOp>().begin();
  EXPECT_TRUE(checkProgram(program, {2, 2}).slicesChecked);
  ChannelCopyOp copy;
  LaneOp lane;
  program.walk([&](ChannelCopyOp op) { copy = op; });
  program.walk([&](LaneOp op) { lane = op; });
  ASSERT_TRUE(copy && lane);
  mlir::OpBuilder builder(copy->getParentOfType<mlir::scf::ForOp>());
  mlir::cast<ChannelCopyOp>(builder.clone(*copy)).getPartMutable().assign(lane.getResult());
  ASSERT_TRUE(mlir::succeeded(mlir::verify(*module)));
  EXPECT_FALSE(checkProgram(program, {2, 2}).slicesChecked);
}

TEST(FewSlices, StandForAllInTwoDeepPipelines) {
  SliceCounts ring = compareMutants("ringAllReduce", {3}, 13), rail = compareMutants("railAllGather", {2, 2}, 13);
  EXPECT_GT(ring.numByFew, 0);
  EXPECT_GT(rail.numByFew, 0);
  EXPECT_GT(ring.numRefuted, 20);
  EXPECT_GT(rail.numRefuted, 20);
}

using EveryPipeline = EveryAlgorithm;
TEST_P(EveryPipeline, GetsTheSameVerdictFromFewSlicesAndFromAll) {
  for (const Sizes &mesh : threeMeshesOf(GetParam()))
    compareMutants(GetParam(), mesh, 16);
}
INSTANTIATE_TEST_SUITE_P(Pipelines, EveryPipeline, testing::ValuesIn(sweptAlgorithmNames()),
                         [](const auto &info) { return info.param; });
