// The channel program that the compiler makes means what the choreography means, in every interleaving.
#include "Blockwise.h"

#include "tests/support/Reductions.h"

#include "compiler/Pipeline.h"
#include "compiler/check/ChunkState.h"
#include "compiler/check/Verdict.h"
#include "dsl/EmitChoreography.h"
#include "ir/BlockTables.h"
#include "ir/reference/Interpreter.h"
#include "tools/compile/Compile.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassManager.h"

using namespace kolo;
using namespace kolo::conformance;
using namespace kolo::reference;
using kolo::test::isExample;

namespace {

constexpr uint64_t mostInterleavings = 100;
constexpr int64_t numInvocations = 3; // what is published in one call is overwritten in the one after the next

/// One algorithm in both phases.
class BothPhases {
public:
  enum class Network { None, Staged };

  /// A network is along the first dimension of the mesh.
  BothPhases(const std::string &name, const Schedule &schedule = {}, bool optimize = true,
             Network network = Network::None)
      : context(mlir::MLIRContext::Threading::DISABLED) {
    context.loadDialect<KoloDialect, mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::scf::SCFDialect>();
    std::unique_ptr<dsl::Recording> recording = dsl::record(definitionOf(name));
    module = dsl::emitChoreography(context, *recording, meshesOf(definitionOf(name)));
    lowered = module->clone();
    if (network == Network::Staged)
      tools::markNetwork(*lowered, {{definitionOf(name).mesh.dims.front()}, tools::NetworkMemory::Staged});
    mlir::PassManager manager(&context, mlir::ModuleOp::getOperationName());
    buildChannelPipeline(manager, {.schedule = std::get<ResolvedSchedule>(resolve(schedule, {.optimize = optimize}))});
    EXPECT_TRUE(mlir::succeeded(manager.run(*lowered)));
  }

  ChoreographyOp choreography() { return *module->getOps<ChoreographyOp>().begin(); }
  ProgramOp program() { return *lowered->getOps<ProgramOp>().begin(); }

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module, lowered;
};

std::string textOf(llvm::Error error) { return llvm::toString(std::move(error)); }

/// One call per invocation, and what the choreography gives for each.
struct Invocations {
  std::vector<SimulatedCall> before, after;

  Invocations(BothPhases &phases, const Call &call) {
    for (int64_t invocation = 0; invocation < numInvocations; ++invocation) {
      before.push_back(makeSimulatedCall(call));
      tagInput(before.back(), uint64_t(invocation));
      after.push_back(before.back());
      EXPECT_EQ(textOf(interpretChoreography(phases.choreography(), after.back())), "");
      EXPECT_EQ(textOf(checkOutputs(after.back())), "");
    }
  }
};

/// What is wrong with one interleaving, empty if nothing is. Between two invocations every application writes new
/// inputs and poisons its outputs, as soon as its own rank is through.
std::string runInterleaving(ProgramOp program, const Invocations &calls, uint64_t seed) {
  SimulatedCall simulated = calls.before.front();
  std::string failure;
  ChannelOptions options;
  options.numInvocations = numInvocations;
  options.atEnd = [&](int64_t rank, int64_t invocation, const Bytes &output) {
    if (failure.empty() && output != calls.after[size_t(invocation)].outputs[size_t(rank)])
      failure = "invocation " + std::to_string(invocation) + ", rank " + std::to_string(rank) + ": " +
                textOf(checkOutput(calls.before[size_t(invocation)], rank, output));
  };
  options.beforeNext = [&](int64_t rank, int64_t invocation, Bytes &input, Bytes &output) {
    input = calls.before[size_t(invocation)].inputs[size_t(rank)];
    std::fill(output.begin(), output.end(), poison);
  };
  std::string error = textOf(interpretChannel(program, simulated, seed, options));
  return failure + error;
}

std::vector<Sizes> phaseMeshes(const dsl::Definition &definition) {
  std::vector<Sizes> meshes;
  // Up to eight ranks PAT sends along one tree each: its trees have inner nodes from nine ranks on.
  const int64_t mostRanks = llvm::StringRef(definition.name).starts_with("pat") ? 16 : 8;
  for (const Sizes &mesh : meshesOf(definition)) {
    int64_t numRanks = 1;
    for (int64_t size : mesh)
      numRanks *= size;
    if (numRanks > 1 && numRanks <= mostRanks)
      meshes.push_back(mesh);
  }
  // The smallest ones for speed, and the one with the most ranks for its steps.
  if (meshes.size() > 3)
    meshes.erase(meshes.begin() + 2, meshes.end() - 1);
  return meshes;
}

/// Half as many, and fewer of large programs, of which one takes up to half a second. KOLO_SWEEP=all: as many of all.
uint64_t numInterleavings(ProgramOp program) {
  constexpr int64_t largeProgram = 450;
  int64_t numOps = 0;
  program.walk([&](mlir::Operation *) { ++numOps; });
  return kolo::test::isSweep() ? mostInterleavings : mostInterleavings / (numOps < largeProgram ? 2 : 4);
}

/// Gives a call counts for each block.
void drawTables(Call &call, uint64_t number, std::mt19937_64 &random) {
  const CollectiveKind kind = call.collective.getKind();
  const bool hasOutputs = hasBlockPerMember(kind, BufferRole::Output),
             isPair = hasOutputs && hasBlockPerMember(kind, BufferRole::Input);
  const auto size = size_t(groupSize(call));
  const int64_t most = std::array<int64_t, 4>{1, 5, 19, 150}[random() % 4];
  std::map<int64_t, Counts> drawn; // by the first rank of a group
  for (int64_t rank = 0; rank < numRanks(call); ++rank)
    if (memberNumber(call, rank) == 0)
      drawn[rank] =
          drawCounts(allDistributions[number % std::size(allDistributions)], isPair ? size * size : size, most, random);
  setTables(call, [&](int64_t giver, int64_t taker) {
    const Counts &counts = drawn.at(groupOf(call, giver).front());
    const auto from = size_t(memberNumber(call, giver)), to = size_t(memberNumber(call, taker));
    return counts[isPair ? from * size + to : hasOutputs ? from : to];
  });
}

enum class BlocksAre { Equal, Tabled };

/// What is wrong in the first bad interleaving on a mesh, empty if none is bad.
std::string firstFailureOn(const Sizes &mesh, BothPhases &phases, ProgramOp program, uint64_t number,
                           std::mt19937_64 &random, BlocksAre blocks = BlocksAre::Equal) {
  Call call;
  call.collective = phases.choreography().getCollective();
  for (uint64_t i = 0; i < number; ++i) {
    call.meshSizes = mesh;
    call.count = std::array<int64_t, 3>{1, 5, 19}[random() % 3];
    call.type = allElementTypes[random() % std::size(allElementTypes)];
    const llvm::ArrayRef<Reduction> reductions = test::reductionsFor(call.collective.getKind());
    call.reduction = reductions[random() % reductions.size()];
    call.numLanes = 1 + int64_t(random() % 2);
    call.root = hasRoot(call.collective.getKind()) ? int64_t(random() % uint64_t(groupSize(call))) : 0;
    if (blocks == BlocksAre::Tabled)
      drawTables(call, i, random);
    std::string failure = runInterleaving(program, Invocations(phases, call), testSeed() + i);
    if (!failure.empty())
      return "mesh " + testing::PrintToString(mesh) + ", interleaving " + std::to_string(i) +
             ", KOLO_SEED=" + std::to_string(testSeed()) + ": " + failure;
  }
  return "";
}

/// The same on all meshes.
std::string firstFailure(BothPhases &phases, ProgramOp program, const std::string &name,
                         uint64_t number = mostInterleavings) {
  std::mt19937_64 random(testSeed());
  for (const Sizes &mesh : phaseMeshes(definitionOf(name)))
    if (std::string failure = firstFailureOn(mesh, phases, program, number, random); !failure.empty())
      return failure;
  return "";
}

/// Of the program as it is.
std::string firstFailureIn(BothPhases &phases, const std::string &name) {
  return firstFailure(phases, phases.program(), name, numInterleavings(phases.program()));
}

/// Runs calls with block tables, of each distribution in turn. They are right on those meshes on which the checker says
/// that the program takes them: `takesSome` of them. They are wrong on the others, or on some of them where the program
/// takes no tables on any mesh: another mesh may not execute what it cannot do.
void expectRightWhereTablesAreTaken(const std::string &name, const Schedule &schedule, bool takesSome = true) {
  BothPhases phases(name, schedule);
  ProgramOp program = phases.program();
  std::mt19937_64 random(testSeed());
  const bool hasObstacle = findTableObstacle(program).has_value();
  bool takesAny = false, failsAny = false;
  for (const Sizes &mesh : phaseMeshes(definitionOf(name))) {
    const Verdict verdict = checkProgram(program, mesh);
    const bool isTaken = verdict.whyNoBlockTables.empty(), mustFail = !isTaken && !hasObstacle;
    // Few tables of few elements may be right by chance.
    const uint64_t number = mustFail ? mostInterleavings : numInterleavings(program) / 4;
    const std::string failure = firstFailureOn(mesh, phases, program, number, random, BlocksAre::Tabled);
    if (isTaken)
      EXPECT_EQ(failure, "");
    else if (mustFail)
      EXPECT_NE(failure, "") << verdict.whyNoBlockTables;
    takesAny |= isTaken;
    failsAny |= !failure.empty();
  }
  EXPECT_EQ(takesAny, takesSome);
  if (hasObstacle)
    EXPECT_TRUE(failsAny);
}

class EveryAlgorithmInPhases : public testing::TestWithParam<std::string> {};

} // namespace

TEST_P(EveryAlgorithm, MeansTheSameInBothPhasesInEveryInterleaving) {
  BothPhases phases(GetParam());
  EXPECT_EQ(firstFailureIn(phases, GetParam()), "");
}

TEST_P(EveryAlgorithm, MeansTheSameInBothPhasesWithRequiredPassesOnly) {
  if (!isExample(GetParam()))
    GTEST_SKIP() << "with KOLO_SWEEP=all";
  BothPhases phases(GetParam(), {}, /*optimize=*/false);
  EXPECT_EQ(firstFailureIn(phases, GetParam()), "");
}

TEST_P(EveryAlgorithm, MeansTheSameInBothPhasesWhenSlicesFollowEachOther) {
  BothPhases phases(GetParam(), {.pipelineDepth = 3});
  EXPECT_EQ(firstFailureIn(phases, GetParam()), "");
}

TEST_P(EveryAlgorithm, MeansTheSameInBothPhasesWhenRanksEnterTogether) {
  BothPhases phases(GetParam(), {.entry = Entry::Together});
  EXPECT_EQ(firstFailureIn(phases, GetParam()), "");
}

TEST_P(EveryAlgorithm, MeansTheSameInBothPhasesOverAStagedNetwork) {
  BothPhases phases(GetParam(), {}, /*optimize=*/true, BothPhases::Network::Staged);
  EXPECT_EQ(firstFailureIn(phases, GetParam()), "");
  if (definitionOf(GetParam()).mesh.dims.size() == 1)
    phases.program().walk([](PutOp put) {
      EXPECT_EQ(put.getDestination().getDefiningOp<BufferOp>().getRole(), BufferRole::Inbox) << "a peer is elsewhere";
    });
}

TEST_P(EveryPublishingAlgorithm, MeansTheSameInBothPhases) {
  BothPhases phases(GetParam(), {.protocol = Protocol::Published});
  EXPECT_EQ(firstFailureIn(phases, GetParam()), "");
}

TEST_P(EveryPublishingAlgorithm, IsWrongInSomeInterleavingAndRefusedWithoutEnter) {
  BothPhases phases(GetParam(), {.protocol = Protocol::Published});
  ProgramOp program = phases.program();
  (*program.getBody().getOps<EnterOp>().begin()).erase();
  EXPECT_TRUE(checkProgram(program, phaseMeshes(definitionOf(GetParam())).front()).refutation.has_value());
  EXPECT_NE(firstFailure(phases, program, GetParam()), "");
}

TEST_P(EveryPublishingAlgorithm, IsRefusedWhenItPublishesInOnePlaceAndThatIsWrong) {
  BothPhases phases(GetParam(), {.protocol = Protocol::Published});
  ProgramOp program = phases.program();
  program.walk([](BufferOp buffer) {
    if (buffer.getRole() == BufferRole::Published)
      buffer.setRole(BufferRole::Scratch);
  });
  bool isRefused = checkProgram(program, phaseMeshes(definitionOf(GetParam())).front()).refutation.has_value();
  EXPECT_EQ(!firstFailure(phases, program, GetParam()).empty(), isRefused);
  // Where there are later phases, what they wait for may keep the next call from overwriting.
  EXPECT_TRUE(isRefused || program.getSemaphores() > 0);
}

TEST_P(EveryPacketAlgorithm, MeansTheSameInBothPhases) {
  BothPhases phases(name(), schedule());
  EXPECT_EQ(firstFailureIn(phases, name()), "");
}

TEST_P(EveryPacketAlgorithm, MeansTheSameInBothPhasesWithRequiredPassesOnly) {
  if (!isExample(name()))
    GTEST_SKIP() << "with KOLO_SWEEP=all";
  BothPhases phases(name(), schedule(), /*optimize=*/false);
  EXPECT_EQ(firstFailureIn(phases, name()), "");
}

TEST_P(EveryPacketAlgorithm, IsRefusedAndWrongWhereItNeedsWhatPacketsSay) {
  BothPhases phases(name(), schedule());
  ProgramOp program = phases.program();
  program.walk([](BufferOp buffer) {
    if (buffer.getRole() == BufferRole::Packets) {
      buffer.setRole(BufferRole::Scratch);
      buffer.setLl128(false);
    }
  });
  EXPECT_TRUE(checkProgram(program, phaseMeshes(definitionOf(name())).front()).refutation.has_value());
  EXPECT_NE(firstFailure(phases, program, name()), "");
}

/// tests/mutation has the checker refute all of them.
TEST_P(EveryAlgorithm, IsWrongInSomeInterleavingWithoutTheSignalsOfOneTransfer) {
  if (!isExample(GetParam()))
    GTEST_SKIP() << "with KOLO_SWEEP=all";
  BothPhases phases(GetParam());
  llvm::SetVector<uint64_t> dataSemaphores;
  phases.program().walk([&](SignalOp signal) {
    if (!signal.getCredit())
      dataSemaphores.insert(signal.getSemaphore());
  });
  for (uint64_t semaphore : dataSemaphores) {
    mlir::OwningOpRef<ProgramOp> mutant(phases.program().clone());
    mutant->walk([&](mlir::Operation *op) {
      auto signal = llvm::dyn_cast<SignalOp>(op);
      auto wait = llvm::dyn_cast<WaitOp>(op);
      if ((signal && signal.getSemaphore() == semaphore) || (wait && wait.getSemaphore() == semaphore))
        op->erase();
    });
    EXPECT_NE(firstFailure(phases, *mutant, GetParam()), "") << "right without semaphore " << semaphore;
  }
}

/// Whoever knows the lengths of all chunks on all ranks can run the others; a rank that knows its own tables, and what
/// comes with the blocks, cannot.
TEST_P(EveryAlgorithmInPhases, MeansTheSameInBothPhasesWithBlockTables) {
  for (const Schedule &schedule :
       {Schedule{}, {.pipelineDepth = 3}, {.transfers = Transfers::Pull}, {.transfers = Transfers::Push}})
    expectRightWhereTablesAreTaken(GetParam(), schedule, takesTables(GetParam(), schedule));
}

TEST_P(EveryTabledPacketAlgorithm, MeansTheSameInBothPhasesWithBlockTables) {
  expectRightWhereTablesAreTaken(name(), schedule());
}

TEST_P(EveryTabledPublishingAlgorithm, MeansTheSameInBothPhasesWithBlockTables) {
  expectRightWhereTablesAreTaken(GetParam(), {.protocol = Protocol::Published});
}

static const auto nameOfParameter = [](const auto &info) { return info.param; };

/// Bruck's choreography keeps blocks on their way in the output, where blocks of other lengths belong. So it is no
/// all-to-all with tables, and BlockTablesTest.cpp sees that it is refused.
static std::vector<std::string> withMeaningForTables() {
  std::vector<std::string> names = blockwiseAlgorithmNames();
  std::erase(names, "bruckAllToAll");
  return names;
}
INSTANTIATE_TEST_SUITE_P(Algorithms, EveryAlgorithmInPhases, testing::ValuesIn(withMeaningForTables()),
                         nameOfParameter);
