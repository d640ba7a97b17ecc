// What a check does not decide within its limits is neither proved nor harmless: of programs that are refuted without
// limits, no budget lets any part of the compiler that asks the checker say that they are proved.
#include "Compiled.h"
#include "RandomChoreographies.h"

#include "compiler/sync/Settling.h"
#include "tests/mutation/Mutants.h"
#include "tests/support/Support.h"

#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <random>

using namespace kolo;
using namespace kolo::proof;

namespace {

constexpr int64_t budgets[] = {1, 8, 64, 256, 1 << 10, 1 << 12, 1 << 14, 1 << 17};

struct UndecidedTally {
  int64_t numUndecided = 0, numRefuted = 0, numProved = 0;
};

using Meshes = std::vector<llvm::SmallVector<int64_t>>;

/// What all that ask say of a program, with each budget.
void expectNobodyTakesItForProved(ProgramOp program, const Sizes &mesh, bool isProved, UndecidedTally &tally) {
  for (int64_t budget : budgets) {
    SCOPED_TRACE("budget " + std::to_string(budget));
    CheckOptions options = optionsInFull(program, {budget});
    options.endsAtRefutation = true; // which takes less than a whole run
    Verdict verdict = checkProgram(program, mesh, options);
    EXPECT_EQ(verdict.checkedOn, verdict.mesh);
    EXPECT_FALSE(verdict.refutation && isProved);
    EXPECT_FALSE(verdict.isProved() && !isProved);
    tally.numUndecided += verdict.tooLarge.has_value();
    EXPECT_EQ(isProvedOnItsMeshes(program, options), verdict.isProved());
    MeshChecks checks(program, options);
    EXPECT_EQ(checks.isProved(program), verdict.isProved());
    EXPECT_EQ(checks.hasFollowed(), !verdict.tooLarge);
    options.endsAtRefutation = false;
    EXPECT_EQ(MeshChecks(program, options).explain(program).has_value(), !verdict.isProved());
  }
}

using Parts = std::map<uint64_t, llvm::SmallPtrSet<mlir::Operation *, 16>>;

/// All signals and waits of each semaphore.
Parts partsOf(ProgramOp program) {
  Parts parts;
  program.walk([&](SignalOp signal) { parts[signal.getSemaphore()].insert(signal); });
  program.walk([&](WaitOp wait) { parts[wait.getSemaphore()].insert(wait); });
  return parts;
}

/// With any budget, a part that the program needs is needed.
void expectNoNeededPartIsDropped(ProgramOp program, const Sizes &mesh, UndecidedTally &tally) {
  Meshes meshes{llvm::SmallVector<int64_t>(mesh.begin(), mesh.end())};
  CheckOptions whole = withoutLimits(program);
  whole.followsCodecs = false;
  whole.endsAtRefutation = true;
  ReducibleProgram reducible(program, meshes, whole);
  for (const auto &[semaphore, ops] : partsOf(program)) {
    if (!reducible.isRefutedWithout(ops))
      continue;
    ++tally.numRefuted;
    for (int64_t budget : budgets) {
      CheckOptions options = optionsInFull(program, {budget});
      options.endsAtRefutation = true;
      ReducibleProgram small(program, meshes, options);
      EXPECT_TRUE(small.isRefutedWithout(ops)) << "semaphore " << semaphore << ", budget " << budget;
      tally.numUndecided += !small.isFollowed();
    }
  }
}

/// A program and its mutants.
void examine(const dsl::Definition &definition, const Sizes &mesh, int64_t depth, std::mt19937 &random,
             UndecidedTally &tally) {
  auto context = test::makeContext();
  CompileSetup setup;
  setup.schedule.pipelineDepth = depth;
  SCOPED_TRACE(definition.name + " on " + test::textOf(mesh) + ", " + setup.text());
  Compiled compiled(*context, definition, mesh, setup);
  ASSERT_TRUE(compiled.isAccepted()) << compiled.said();
  ++tally.numProved;
  expectNobodyTakesItForProved(*compiled, mesh, true, tally);
  expectNoNeededPartIsDropped(*compiled, mesh, tally);
  std::vector<mutation::Mutant> mutants = mutation::mutantsOf(*compiled);
  std::shuffle(mutants.begin(), mutants.end(), random);
  mutants.resize(std::min<size_t>(mutants.size(), 6));
  for (mutation::Mutant &mutant : mutants) {
    SCOPED_TRACE(mutant.what);
    bool isProved = checkProgram(*mutant.program, mesh, withoutLimits(*mutant.program)).isProved();
    tally.numRefuted += !isProved;
    expectNobodyTakesItForProved(*mutant.program, mesh, isProved, tally);
  }
}

} // namespace

TEST(WhatIsUndecided, IsNeitherProvedNorHarmless) {
  std::mt19937 random{unsigned(test::testSeed())};
  UndecidedTally tally;
  struct Case {
    std::string algorithm;
    Sizes mesh;
    int64_t depth;
  };
  for (const auto &[algorithm, mesh, depth] :
       {Case{"ringAllReduce", {6}, 1}, Case{"binomialScatter", {7}, 4}, Case{"twoSlotRingAllReduce", {5}, 8},
        Case{"hierarchicalAllReduce", {3, 2}, 1}, Case{"binomialBroadcast", {9}, 1}})
    examine(test::definitionOf(algorithm), mesh, depth, random, tally);
  for (uint64_t i = 0; i < 10; ++i) {
    RandomChoreography made = randomChoreography(test::testSeed() + i);
    SCOPED_TRACE("choreography " + std::to_string(test::testSeed() + i) + ": " + made.what);
    examine(made.definition, made.mesh, 1, random, tally);
  }
  std::cout << tally.numProved << " programs, " << tally.numRefuted << " refuted changes, " << tally.numUndecided
            << " undecided checks\n";
  EXPECT_GT(tally.numRefuted, 10);
  EXPECT_GT(tally.numUndecided, 100);
}
