// The steps of a rank as the checker lists them, where loops that take steps in few iterations are solved, against the
// reference interpreter's, which goes through all iterations.
#include "Litmus.h"
#include "Shipped.h"

#include "compiler/model/Trace.h"
#include "compiler/model/Unfold.h"
#include "ir/reference/Layout.h"
#include "ir/reference/Walker.h"

#include "mlir/Parser/Parser.h"

using namespace kolo;
using namespace kolo::mutation;

namespace {

struct PlainStep {
  mlir::Operation *op;
  int64_t peer; // the rank itself, of a step that concerns its memory alone
  bool operator==(const PlainStep &) const = default;
};

std::ostream &operator<<(std::ostream &out, const PlainStep &step) {
  return out << step.op->getName().getStringRef().str() << " " << step.peer;
}

std::vector<PlainStep> stepsByReference(ProgramOp program, const Sizes &mesh, int64_t root, int64_t rank) {
  reference::SimulatedCall simulated;
  simulated.collective = program.getCollective();
  simulated.meshSizes = mesh;
  simulated.numLanes = 1;
  simulated.root = root;
  reference::Scope scope(simulated, rank, /*lane=*/0);
  reference::Walker walker(program.getBody().front(), scope);
  std::vector<PlainStep> steps;
  while (mlir::Operation *op = llvm::cantFail(walker.next())) {
    mlir::Value peer;
    if (auto move = llvm::dyn_cast<MoveInterface>(op))
      peer = move.getSourceRank() ? move.getSourceRank() : move.getDestinationRank();
    else if (auto signal = llvm::dyn_cast<SignalOp>(op))
      peer = signal.getRank();
    else if (auto wait = llvm::dyn_cast<WaitOp>(op))
      peer = wait.getRank();
    if (llvm::isa<MoveInterface, DivideOp, SignalOp, WaitOp, FlushOp, EnterOp>(op))
      steps.push_back({op, peer ? scope[peer] : rank});
  }
  return steps;
}

/// On all ranks, with every root. The number of steps.
size_t compareSteps(ProgramOp program, const Sizes &mesh) {
  size_t numSteps = 0;
  std::variant<Code, CodeMistake> made = Code::create(program);
  Code &code = std::get<Code>(made);
  for (int64_t root = 0; root < countRoots(program.getCollective(), mesh); ++root) {
    Tracer tracer(code, mesh, root, /*isInPlace=*/false);
    for (int64_t rank = 0; rank < tracer.numRanks(); ++rank) {
      Trace trace;
      EXPECT_TRUE(tracer.run(rank, trace)) << tracer.mistake->message;
      std::vector<PlainStep> steps;
      uint64_t ticks = 0;
      for (const Event &event : trace.events) {
        steps.push_back({code.ops[event.op].op, event.peer});
        EXPECT_GE(event.tick, ticks);
        ticks = event.tick + 1;
      }
      EXPECT_GE(trace.numTicks, ticks);
      EXPECT_EQ(steps, stepsByReference(program, mesh, root, rank)) << "root " << root << ", rank " << rank;
      numSteps += steps.size();
    }
  }
  return numSteps;
}

/// Signals to every k from `lower` to `upper` - 1 for which the condition holds.
std::string guardedLoop(const std::string &lower, const std::string &upper, const std::string &condition) {
  return "scf.for %k = " + lower + " to " + upper + " step %c1 {\n" + condition +
         "scf.if %is {\n kolo.chan.signal 0 to %k\n }\n }\n";
}

/// `%mod` = `%sum` modulo n, never negative.
std::string modulo(const std::string &sum) {
  return sum + "%rest = arith.remsi %sum, %n : index\n%negative = arith.cmpi slt, %rest, %c0 : index\n"
               "%more = arith.addi %rest, %n : index\n%mod = arith.select %negative, %more, %rest : index\n";
}

} // namespace

TEST_P(EveryAlgorithm, HasTheStepsOfTheReferenceInterpreter) {
  for (bool optimize : {true, false}) {
    std::unique_ptr<mlir::MLIRContext> context = makeContext();
    std::vector<Sizes> meshes = meshesOf(GetParam());
    ShippedProgram program(*context, GetParam(), meshes, optimize);
    for (const Sizes &mesh : meshes) {
      SCOPED_TRACE("mesh " + textOf(mesh));
      EXPECT_GT(compareSteps(*program, mesh), 0U);
    }
  }
}

TEST(Steps, OfLoopsUnderOneConditionAreThoseOfAllIterations) {
  const std::string equal = "%is = arith.cmpi eq, %mod, %wanted : index\n";
  const std::string up = modulo("%sum = arith.addi %me, %k : index\n"),
                    down = modulo("%sum = arith.subi %me, %k : index\n");
  const std::string bodies[] = {guardedLoop("%c0", "%n", "%is = arith.cmpi eq, %k, %me : index\n"),
                                guardedLoop("%c1", "%n", "%is = arith.cmpi eq, %next, %k : index\n"),
                                guardedLoop("%c0", "%n1", "%is = arith.cmpi eq, %k, %me : index\n"),
                                guardedLoop("%c0", "%n", "%is = arith.cmpi eq, %me, %c2 : index\n"),
                                guardedLoop("%c0", "%n", "%is = arith.cmpi ne, %k, %me : index\n"),
                                guardedLoop("%c0", "%n", "%is = arith.cmpi slt, %k, %me : index\n"),
                                "%wanted = arith.addi %c0, %c3 : index\n" + guardedLoop("%c1", "%n", up + equal),
                                "%wanted = arith.addi %c0, %c3 : index\n" + guardedLoop("%c0", "%n", down + equal),
                                "%wanted = arith.addi %me, %c0 : index\n" + guardedLoop("%c0", "%n", down + equal),
                                "%wanted = arith.addi %n, %c1 : index\n" + guardedLoop("%c0", "%n", up + equal),
                                "%wanted = arith.subi %c0, %c1 : index\n" + guardedLoop("%c0", "%n", down + equal),
                                "%wanted = arith.addi %c0, %c1 : index\n" + guardedLoop("%c0", "%n1", down + equal)};
  for (const std::string &body : bodies) {
    SCOPED_TRACE(body);
    std::unique_ptr<mlir::MLIRContext> context = makeContext();
    auto module =
        mlir::parseSourceString<mlir::ModuleOp>(program("all_gather", 1, wholeIn + blocksOut + body), context.get());
    ASSERT_TRUE(module);
    for (int64_t numRanks : {1, 2, 3, 5, 8})
      compareSteps(*module->getOps<ProgramOp>().begin(), {numRanks});
  }
}
