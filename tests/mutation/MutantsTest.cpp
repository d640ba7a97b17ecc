// Mutants have the change that they say, and the judge knows right programs from wrong ones.
#include "Mutants.h"
#include "Shipped.h"
#include "Trace.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <set>

using namespace kolo;
using namespace kolo::mutation;

namespace {

std::string printed(ProgramOp program) {
  std::string text;
  llvm::raw_string_ostream(text) << program;
  return text;
}

/// Programs over a mesh [node, gpu] that differ in their bodies.
class Programs {
public:
  ProgramOp parse(const std::string &body) {
    std::string text = R"(
      kolo.chan.program @test #kolo.collective<all_gather over 0, 1> mesh ["node", "gpu"] meshes [[2, 2]] semaphores 3 {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c2 = arith.constant 2 : index
        %nodes = kolo.dim_size 0
        %gpus = kolo.dim_size 1
        %n = arith.muli %nodes, %gpus : index
        %n1 = arith.subi %n, %c1 : index
        %node = kolo.chan.coord 0
        %gpu = kolo.chan.coord 1
        %row = arith.muli %node, %gpus : index
        %me = arith.addi %row, %gpu : index
        %up = arith.addi %me, %c1 : index
        %next = arith.remsi %up, %n : index
        %down = arith.addi %me, %n1 : index
        %prev = arith.remsi %down, %n : index
        %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
        %out = kolo.buffer output "out" grid(%nodes, %gpus) blocks 2 : !kolo.buffer<2>
        %slots = kolo.buffer scratch "slots" grid(%n) blocks 1 : !kolo.buffer<1>
    )" + body + "}";
    modules.push_back(mlir::parseSourceString<mlir::ModuleOp>(text, context.get()));
    EXPECT_TRUE(modules.back()) << text;
    return *modules.back()->getOps<ProgramOp>().begin();
  }

private:
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules;
};

/// The only mutant of this kind of `before` must do what `after` does, and not what `before` does.
void expectMutant(MutantKind kind, const std::string &before, const std::string &after) {
  Programs programs;
  ProgramOp original = programs.parse(before), expected = programs.parse(after);
  std::vector<Mutant> mutants = mutantsOf(original);
  llvm::erase_if(mutants, [&](const Mutant &mutant) { return mutant.kind != kind; });
  ASSERT_EQ(mutants.size(), 1u);
  for (const Sizes &mesh : {Sizes{2, 2}, Sizes{1, 3}, Sizes{3, 2}}) {
    TraceHash trace = traceOf(*mutants.front().program, mesh);
    EXPECT_EQ(trace, traceOf(expected, mesh)) << printed(*mutants.front().program);
    EXPECT_NE(trace, traceOf(original, mesh));
  }
}

const std::string put =
    "kolo.chan.put %in[] size [] -> %slots[%me] size [%c1] to %next : !kolo.buffer<0> -> !kolo.buffer<1>\n";

} // namespace

TEST(LateWait, InALoopRunsOneIterationBehind) {
  expectMutant(MutantKind::LateWait, R"(
    scf.for %s = %c0 to %n step %c1 {
      kolo.chan.signal 0 to %next
      kolo.chan.wait 0 from %prev
      kolo.chan.signal 1 to %next
    }
    kolo.chan.signal 2 to %next)",
               R"(
    scf.for %s = %c0 to %n step %c1 {
      kolo.chan.signal 0 to %next
      %later = arith.cmpi sgt, %s, %c0 : index
      scf.if %later {
        kolo.chan.wait 0 from %prev
      }
      kolo.chan.signal 1 to %next
    }
    kolo.chan.signal 2 to %next
    kolo.chan.wait 0 from %prev)");
}

TEST(LateWait, OutsideOfLoopsRunsAtTheEnd) {
  expectMutant(MutantKind::LateWait, "kolo.chan.wait 0 from %prev\nkolo.chan.signal 0 to %next\n",
               "kolo.chan.signal 0 to %next\nkolo.chan.wait 0 from %prev\n");
}

TEST(LateWait, ForAllPeersRunsAtTheEnd) {
  expectMutant(MutantKind::LateWait, R"(
    scf.for %p = %c0 to %n step %c1 {
      kolo.chan.wait 0 from %p
    }
    kolo.chan.signal 0 to %next)",
               R"(
    kolo.chan.signal 0 to %next
    scf.for %p = %c0 to %n step %c1 {
      kolo.chan.wait 0 from %p
    })");
}

TEST(LateWait, ForAllPeersInsideOfALoopRunsOneIterationBehind) {
  expectMutant(MutantKind::LateWait, R"(
    scf.for %s = %c1 to %n step %c2 {
      scf.for %p = %c0 to %n step %c1 {
        %q = arith.xori %p, %c0 : index
        kolo.chan.wait 0 from %q
      }
      kolo.chan.signal 0 to %next
    })",
               R"(
    scf.for %s = %c1 to %n step %c2 {
      %later = arith.cmpi sgt, %s, %c1 : index
      scf.if %later {
        scf.for %p = %c0 to %n step %c1 {
          kolo.chan.wait 0 from %p
        }
      }
      kolo.chan.signal 0 to %next
    }
    scf.for %p = %c0 to %n step %c1 {
      kolo.chan.wait 0 from %p
    })");
}

TEST(LateWait, UnderAConditionIsLateByOneIterationOfTheCondition) {
  expectMutant(MutantKind::LateWait, R"(
    scf.for %s = %c0 to %n step %c1 {
      %first = arith.cmpi slt, %s, %c1 : index
      scf.if %first {
        kolo.chan.signal 0 to %next
      } else {
        kolo.chan.wait 0 from %prev
      }
      kolo.chan.signal 1 to %next
    })",
               R"(
    scf.for %s = %c0 to %n step %c1 {
      %first = arith.cmpi slt, %s, %c1 : index
      scf.if %first {
        kolo.chan.signal 0 to %next
      }
      %later = arith.cmpi sge, %s, %c2 : index
      scf.if %later {
        kolo.chan.wait 0 from %prev
      }
      kolo.chan.signal 1 to %next
    }
    kolo.chan.wait 0 from %prev)");
}

TEST(LateWait, InTwoLoopsRunsAfterTheInnerOne) {
  expectMutant(MutantKind::LateWait, R"(
    scf.for %r = %c0 to %c2 step %c1 {
      scf.for %s = %c0 to %r step %c1 {
        kolo.chan.wait 0 from %prev
        kolo.chan.signal 0 to %next
      }
      kolo.chan.signal 1 to %next
    })",
               R"(
    kolo.chan.signal 1 to %next
    kolo.chan.signal 0 to %next
    kolo.chan.wait 0 from %prev
    kolo.chan.signal 1 to %next)");
}

TEST(OtherReceiver, OfAPutIsTheNextRankAndWaitsForTheRightSender) {
  expectMutant(MutantKind::OtherReceiver, put + R"(
    kolo.chan.signal 0 to %next
    kolo.chan.signal 1 to %next
    kolo.chan.wait 0 from %prev)",
               R"(
    %later = arith.addi %next, %c1 : index
    %to = arith.remsi %later, %n : index
    %earlier = arith.addi %prev, %n1 : index
    %from = arith.remsi %earlier, %n : index
    kolo.chan.put %in[] size [] -> %slots[%me] size [%c1] to %to : !kolo.buffer<0> -> !kolo.buffer<1>
    kolo.chan.signal 0 to %to
    kolo.chan.signal 1 to %next
    kolo.chan.wait 0 from %from)");
}

TEST(OtherReceiver, OfWhatOneRankPullsFromAllIsTheNextRank) {
  expectMutant(MutantKind::OtherReceiver, R"(
    kolo.chan.signal 0 to %c0
    %isFirst = arith.cmpi eq, %me, %c0 : index
    scf.if %isFirst {
      scf.for %p = %c0 to %n step %c1 {
        kolo.chan.wait 0 from %p
        kolo.chan.reduce %in[] size [] -> %out[%node, %gpu] size [%c1, %c1] from %p : !kolo.buffer<0> -> !kolo.buffer<2>
        kolo.chan.signal 1 to %p
      }
    })",
               R"(
    kolo.chan.signal 0 to %c1
    %isSecond = arith.cmpi eq, %me, %c1 : index
    scf.if %isSecond {
      scf.for %p = %c0 to %n step %c1 {
        kolo.chan.wait 0 from %p
        kolo.chan.reduce %in[] size [] -> %out[%c0, %c0] size [%c1, %c1] from %p : !kolo.buffer<0> -> !kolo.buffer<2>
      }
    }
    %isFirst = arith.cmpi eq, %me, %c0 : index
    scf.if %isFirst {
      scf.for %p = %c0 to %n step %c1 {
        kolo.chan.signal 1 to %p
      }
    })");
}

TEST(OtherPeer, IsTheNextRankAfterTheLastOneTheFirst) {
  expectMutant(MutantKind::OtherPeer, "kolo.chan.signal 0 to %prev\n", "kolo.chan.signal 0 to %me\n");
}

TEST(SignalBeforePut, MovesTheSignalThatAnnouncesIt) {
  expectMutant(MutantKind::SignalBeforePut, put + R"(
    kolo.chan.signal 0 to %next
    kolo.chan.signal 1 to %next)",
               "kolo.chan.signal 0 to %next\n" + put + "kolo.chan.signal 1 to %next\n");
}

TEST(DropSemaphore, DropsBothEnds) {
  expectMutant(MutantKind::DropSemaphore, R"(
    kolo.chan.signal 2 to %next
    kolo.chan.wait 2 from %prev
)" + put,
               put);
}

TEST(DropOnLastRank, KeepsTheOpOnAllOthers) {
  expectMutant(MutantKind::DropOnLastRank, "kolo.chan.flush\n",
               "%isOther = arith.cmpi slt, %me, %n1 : index\nscf.if %isOther {\nkolo.chan.flush\n}\n");
}

TEST(DropForLastRank, DropsWhatItWouldBeSentAndWaitsFor) {
  expectMutant(MutantKind::DropForLastRank, R"(
    kolo.chan.signal 2 to %next
    kolo.chan.wait 2 from %prev)",
               R"(
    %isNotBefore = arith.cmpi ne, %next, %n1 : index
    scf.if %isNotBefore {
      kolo.chan.signal 2 to %next
    }
    %isOther = arith.cmpi slt, %me, %n1 : index
    scf.if %isOther {
      kolo.chan.wait 2 from %prev
    })");
}

TEST(SharedSlot, LetsTwoSlotsBecomeOne) {
  expectMutant(MutantKind::SharedSlot, R"(
    scf.for %s = %c0 to %c2 step %c1 {
      %slot = arith.addi %s, %n : index
      kolo.chan.copy %in[] size [] -> %slots[%slot] size [%c1] : !kolo.buffer<0> -> !kolo.buffer<1>
    })",
               R"(
    kolo.chan.copy %in[] size [] -> %slots[%c0] size [%c1] : !kolo.buffer<0> -> !kolo.buffer<1>
    kolo.chan.copy %in[] size [] -> %slots[%c0] size [%c1] : !kolo.buffer<0> -> !kolo.buffer<1>)");
}

TEST_P(EveryAlgorithm, HasValidMutantsThatAreTheSameEachTime) {
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  for (bool optimize : {true, false}) {
    ShippedProgram program(*context, GetParam(), threeMeshesOf(GetParam()), optimize);
    std::string original = printed(*program);
    std::vector<Mutant> mutants = mutantsOf(*program), again = mutantsOf(*program);
    EXPECT_EQ(printed(*program), original);
    ASSERT_EQ(mutants.size(), again.size());
    for (size_t i = 0; i < mutants.size(); ++i) {
      EXPECT_TRUE(mlir::succeeded(mlir::verify(mutants[i].program->getOperation()))) << mutants[i].what;
      EXPECT_NE(printed(*mutants[i].program), original) << mutants[i].what;
      EXPECT_NE(differenceOf(*program, *mutants[i].program), "") << mutants[i].what;
      EXPECT_EQ(printed(*mutants[i].program), printed(*again[i].program)) << mutants[i].what;
    }
  }
}

/// Which `traceOf` relies on.
TEST_P(EveryAlgorithm, UsesTheLaneOnlyToSayWhichPartMoves) {
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  for (bool optimize : {true, false}) {
    ShippedProgram program(*context, GetParam(), threeMeshesOf(GetParam()), optimize);
    (*program).walk([](mlir::Operation *op) {
      if (llvm::isa<LaneOp, NumLanesOp>(op))
        for (mlir::OpOperand &use : op->getUses())
          EXPECT_TRUE((llvm::isa<MoveInterface, DivideOp>(use.getOwner())) &&
                      use.getOperandNumber() + 2 >= use.getOwner()->getNumOperands()) // `part` and `of` come last
              << use.getOwner()->getName().getStringRef().str();
    });
  }
}

TEST(Mutants, OfEveryKindDoHarmSomewhere) {
  constexpr int64_t numInterleavings = 60;
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  std::set<MutantKind> harmful;
  for (const char *name : {"bruckAllToAll", "hierarchicalAllReduce", "twoLevelAllToAll"}) {
    std::vector<Sizes> meshes = threeMeshesOf(name);
    ShippedProgram program(*context, name, meshes, true);
    Judge judge((*program).getCollective(), meshes.back(), testSeed());
    for (const Mutant &mutant : mutantsOf(*program))
      if (!harmful.contains(mutant.kind) && judge.firstHarm(*mutant.program, numInterleavings))
        harmful.insert(mutant.kind);
  }
  for (size_t kind = 0; kind < numMutantKinds; ++kind)
    EXPECT_TRUE(harmful.contains(MutantKind(kind))) << nameOf(MutantKind(kind)).str();
}

TEST(Judge, FindsTheSameHarmForTheSameSeed) {
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  ShippedProgram program(*context, "ringAllReduce", {{3}}, true);
  for (const Mutant &mutant : mutantsOf(*program)) {
    std::optional<Harm> first = Judge((*program).getCollective(), {3}, 5).firstHarm(*mutant.program, 20);
    std::optional<Harm> again = Judge((*program).getCollective(), {3}, 5).firstHarm(*mutant.program, 20);
    ASSERT_EQ(first.has_value(), again.has_value());
    if (first)
      EXPECT_EQ(first->text(), again->text());
  }
}

/// Trees have so many statements that their mutants take minutes: `ctest -L heavy` has them.
static std::vector<std::string> namesWithoutTrees() {
  std::vector<std::string> names = sweptAlgorithmNames();
  std::erase_if(names, [](const std::string &name) { return test::isForFrontier(test::definitionOf(name)); });
  return names;
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryAlgorithm, testing::ValuesIn(namesWithoutTrees()),
                         [](const auto &info) { return info.param; });
