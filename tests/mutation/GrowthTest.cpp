// What a proof takes, by the checker's own count, grows no faster than it has to.
#include "Shipped.h"

#include "compiler/check/Verdict.h"
#include "compiler/model/RankGroup.h"

#include <cmath>

using namespace kolo;
using namespace kolo::mutation;

namespace {

struct Sequence {
  const char *algorithm;
  std::vector<Sizes> meshes; // ever larger
};

int64_t stepsOfARank(ProgramOp program, const Sizes &mesh) {
  std::variant<Code, CodeMistake> code = Code::create(program);
  Tracer tracer(std::get<Code>(code), mesh, 0, false);
  return int64_t(traceAll(tracer, INT64_MAX, /*mayReorder=*/true)->traces.front().events.size());
}

/// Of the larger of time and memory, by the units that `bound` counts.
double shareOf(ProgramOp program, const Sizes &mesh, double units) {
  CheckOptions options;
  options.mayReplaceMesh = false;
  Verdict verdict = checkProgram(program, mesh, options);
  EXPECT_TRUE(verdict.isProved()) << textOf(mesh) << ": " << verdict.tooLarge.value_or("");
  return verdict.share / units;
}

double numRanksOf(const Sizes &mesh) {
  double result = 1;
  for (int64_t size : mesh)
    result *= double(size);
  return result;
}

} // namespace

TEST(Growth, OfASymmetricProgramIsThatOfOneRanksStepsAndOfTheRanksTimesALogarithm) {
  const Sequence sequences[] = {{"ringAllReduce", {{64}, {1024}, {8192}}},
                                {"directAllToAll", {{64}, {1024}, {8192}}},
                                {"recursiveDoublingAllReduce", {{64}, {1024}, {8192}}},
                                {"railAllGather", {{16, 4}, {128, 8}, {1024, 8}}},
                                {"hierarchicalAllReduce", {{16, 4}, {128, 8}, {1024, 8}}},
                                {"threeLevelAllReduce", {{16, 2, 2}, {128, 4, 2}, {1024, 4, 2}}}};
  for (const auto &[algorithm, meshes] : sequences) {
    std::unique_ptr<mlir::MLIRContext> context = makeContext();
    ShippedProgram program(*context, algorithm, meshes, true);
    double least = INFINITY;
    for (const Sizes &mesh : meshes) {
      double numRanks = numRanksOf(mesh), numSteps = double(stepsOfARank(*program, mesh));
      double share = shareOf(*program, mesh, (numSteps + numRanks) * std::log2(numRanks));
      EXPECT_LT(share, 2 * least) << algorithm << " on " << textOf(mesh);
      least = std::min(least, share);
    }
  }
}

TEST(Growth, OfAProgramThatIsAlikeForAllRootsIsThatOfTheStepsOfAllRanks) {
  for (const char *algorithm :
       {"balancedBroadcast", "binomialReduce", "directBroadcast", "directGather", "directReduce", "directScatter"}) {
    std::unique_ptr<mlir::MLIRContext> context = makeContext();
    const std::vector<Sizes> meshes{{64}, {512}, {4096}};
    ShippedProgram program(*context, algorithm, meshes, true);
    double least = INFINITY;
    for (const Sizes &mesh : meshes) {
      double share = shareOf(*program, mesh, numRanksOf(mesh) * std::log2(numRanksOf(mesh)));
      EXPECT_LT(share, 2 * least) << algorithm << " on " << textOf(mesh);
      least = std::min(least, share);
    }
  }
}
