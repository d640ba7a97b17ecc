// Which mesh stands for another one. A function stands for the checker, and says what each mesh takes.
#include "compiler/check/MeshChoice.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

using namespace kolo;

namespace {

constexpr int64_t refuting = 128, largest = 512;

/// As if the program were right on fewer than `refuting` ranks alone, and more took too much.
Verdict check(llvm::ArrayRef<int64_t> mesh, double part) {
  static mlir::MLIRContext context;
  Verdict verdict;
  verdict.mesh.assign(mesh.begin(), mesh.end());
  verdict.checkedOn = verdict.mesh;
  verdict.share = 0.9; // so that larger meshes seem to take more than they may
  if (mesh[0] == refuting)
    verdict.refutation = Refutation{Property::Race, "", mlir::UnknownLoc::get(&context)};
  else if (mesh[0] > refuting)
    verdict.tooLarge = "takes more than " + std::to_string(part);
  return verdict;
}

} // namespace

TEST(MeshChoice, LetsNoSmallerMeshStandForOneThatRefutes) {
  CheckOptions options;
  options.mayReplaceMesh = true;
  options.standInPart = 0.25;
  Verdict verdict = MeshChoice({largest}, {true}, options, check).run();
  EXPECT_TRUE(verdict.refutation.has_value());
  EXPECT_EQ(verdict.checkedOn.front(), refuting);
}
