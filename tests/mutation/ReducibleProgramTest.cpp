// What the search for synchronisation asks of one trace, beside the checker's answer about the changed program.
#include "Shipped.h"

#include "compiler/check/Verdict.h"

#include <gtest/gtest.h>

#include <map>

using namespace kolo;
using namespace kolo::mutation;

namespace {

/// The numbers, in the order of a walk, of ops that go together: one flush, or all signals and waits of a semaphore.
std::map<int64_t, std::vector<size_t>> partsOf(ProgramOp program) {
  std::map<int64_t, std::vector<size_t>> parts;
  size_t number = 0;
  program.walk([&](mlir::Operation *op) {
    if (auto signal = mlir::dyn_cast<SignalOp>(op))
      parts[int64_t(signal.getSemaphore())].push_back(number);
    else if (auto wait = mlir::dyn_cast<WaitOp>(op))
      parts[int64_t(wait.getSemaphore())].push_back(number);
    else if (mlir::isa<FlushOp>(op))
      parts[-1 - int64_t(number)].push_back(number);
    ++number;
  });
  return parts;
}

std::vector<mlir::Operation *> findOps(ProgramOp program, const std::vector<size_t> &numbers) {
  std::vector<mlir::Operation *> all, found;
  program.walk([&](mlir::Operation *op) { all.push_back(op); });
  for (size_t number : numbers)
    found.push_back(all[number]);
  return found;
}

/// How many parts the program is proved without, and how many not.
std::pair<int, int> countParts(const std::string &algorithm, const Sizes &mesh, bool optimize) {
  auto context = makeContext();
  ShippedProgram shipped(*context, algorithm, {mesh}, optimize);
  ProgramOp program = *shipped;
  CheckOptions options;
  options.prefersSmallMeshes = true;
  options.followsCodecs = false;
  options.endsAtRefutation = true;
  std::vector<llvm::SmallVector<int64_t>> meshes{llvm::SmallVector<int64_t>(mesh.begin(), mesh.end())};
  ReducibleProgram reducible(program, meshes, options);
  std::pair<int, int> counts;
  for (const auto &[_, numbers] : partsOf(program)) {
    mlir::OwningOpRef<ProgramOp> changed(program.clone());
    for (mlir::Operation *op : findOps(*changed, numbers))
      op->erase();
    llvm::SmallPtrSet<mlir::Operation *, 16> ops;
    for (mlir::Operation *op : findOps(program, numbers))
      ops.insert(op);
    bool isRefuted = checkProgram(*changed, meshes.front(), options).refutation.has_value();
    EXPECT_EQ(reducible.isRefutedWithout(ops), isRefuted) << algorithm << ", op " << numbers.front();
    ++(isRefuted ? counts.second : counts.first);
  }
  return counts;
}

} // namespace

TEST(AReducibleProgram, IsRefutedWithoutWhatTheCheckerRefutesTheChangedProgramWithout) {
  struct Case {
    std::string algorithm;
    Sizes mesh;
  };
  int numProved = 0, numRefuted = 0;
  for (const auto &[algorithm, mesh] : {Case{"ringAllReduce", {4}}, Case{"binomialBroadcast", {5}},
                                        Case{"hierarchicalAllReduce", {2, 4}}, Case{"twoLevelAllToAll", {2, 3}}})
    for (bool optimize : {false, true}) {
      auto [proved, refuted] = countParts(algorithm, mesh, optimize);
      EXPECT_TRUE(!optimize || proved == 0) << algorithm << " has more synchronisation than it needs";
      numProved += proved;
      numRefuted += refuted;
    }
  EXPECT_GT(numProved, 0);
  EXPECT_GT(numRefuted, 0);
}
