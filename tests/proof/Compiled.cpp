// Three ways to look at a program that is called proved, the last two of which share nothing with the checker.
#include "Compiled.h"

#include "compiler/model/Unfold.h"
#include "compiler/project/Relations.h"
#include "tests/mutation/Judge.h"
#include "tests/mutation/oracle/DenseRun.h"
#include "tests/support/Support.h"

#include <random>

namespace kolo::proof {

static const char *nameOf(Transfers transfers) {
  return transfers == Transfers::Pull ? ", pull" : transfers == Transfers::Push ? ", push" : "";
}

static const char *nameOf(Protocol protocol) {
  switch (protocol) {
  case Protocol::Published:
    return ", published";
  case Protocol::LL:
    return ", ll";
  case Protocol::LL128:
    return ", ll128";
  case Protocol::Bulk:
    return "";
  }
  llvm_unreachable("every protocol is handled");
}

std::string CompileSetup::text() const {
  std::string text = "pipeline " + std::to_string(schedule.pipelineDepth) + nameOf(schedule.transfers) +
                     nameOf(schedule.protocol) + (setting.runners == Runners::Host ? ", host" : "") +
                     (setting.optimize ? "" : ", -O0") + (usesNetwork ? ", network" : "");
  if (guessBudget)
    text += ", guesses of " + std::to_string(guessBudget) + " bytes";
  return text + ", budget " + std::to_string(budget);
}

CompileSetup randomSetup(uint64_t seed) {
  std::mt19937_64 random(seed);
  auto oneOf = [&](auto... values) {
    std::array choices{values...};
    return choices[random() % choices.size()];
  };
  CompileSetup setup;
  setup.schedule.pipelineDepth = oneOf(1, 2, 3, 4, 8, 16, 32, 64);
  setup.schedule.transfers = oneOf(Transfers::Auto, Transfers::Auto, Transfers::Push, Transfers::Pull);
  setup.setting.runners = oneOf(Runners::Any, Runners::Host);
  setup.setting.optimize = random() % 8 != 0;
  setup.usesNetwork = random() % 2;
  if (setup.schedule.pipelineDepth == 1 && random() % 3 == 0) {
    setup.schedule.protocol = oneOf(Protocol::Published, Protocol::LL, Protocol::LL128);
    setup.schedule.transfers = Transfers::Auto;
    setup.setting.runners = Runners::Host;
    setup.usesNetwork = false;
  }
  setup.guessBudget = oneOf(0, 1, 64, 1024);
  if (random() % 4 == 0)
    setup.budget = oneOf(1 << 8, 1 << 11, 1 << 14, 1 << 17);
  return setup;
}

Compiled::Compiled(mlir::MLIRContext &context, const dsl::Definition &definition, const Sizes &mesh,
                   const CompileSetup &setup) {
  std::unique_ptr<dsl::Recording> recording = dsl::record(definition);
  for (const dsl::Diagnostic &diagnostic : recording->diagnostics)
    ADD_FAILURE() << diagnostic.location.file_name() << ":" << diagnostic.location.line() << ": " << diagnostic.message;
  module = dsl::emitChoreography(context, *recording, {mesh});
  if (setup.usesNetwork)
    for (auto choreography : module->getOps<ChoreographyOp>())
      choreography->setDiscardableAttr(networkAttrName, mlir::DenseI64ArrayAttr::get(&context, {0}));
  std::variant<ResolvedSchedule, ScheduleMistake> resolved = resolve(setup.schedule, setup.setting);
  if (auto *mistake = std::get_if<ScheduleMistake>(&resolved)) {
    ADD_FAILURE() << mistake->message;
    return;
  }
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    diagnostics += diagnostic.str() + "\n";
    return mlir::success();
  });
  PipelineOptions options{.schedule = std::get<ResolvedSchedule>(resolved), .budget = setup.budget};
  options.guessBudget = setup.guessBudget;
  accepted = mlir::succeeded(runChannelPipeline(*module, options));
}

CheckOptions withoutLimits(ProgramOp program) {
  CheckOptions options;
  options.transport = transportOf(program);
  setBudget(options, int64_t(1) << 40);
  options.mayReplaceMesh = false;
  options.wantSteps = false;
  return options;
}

/// Every rank by itself, with plain clocks, for every root.
static void expectOracleFindsNothing(ProgramOp program, const Sizes &mesh) {
  std::variant<Code, CodeMistake> made = Code::create(program);
  ASSERT_TRUE(std::holds_alternative<Code>(made));
  int64_t numRoots = countRoots(program.getCollective(), mesh), numVariants = program.getInPlace() == InPlace::Direct ? 2 : 1;
  for (int64_t variant = 0; variant < numVariants; ++variant)
    for (int64_t root = 0; root < numRoots; root += std::max<int64_t>(numRoots / 3, 1)) {
      Tracer tracer(std::get<Code>(made), mesh, root, variant == 1);
      TracedGroup traced{RankGroup(tracer, llvm::SmallVector<Translation>(mesh.size(), Translation::None)), {}};
      for (int64_t rank = 0; rank < tracer.numRanks(); ++rank)
        ASSERT_TRUE(tracer.run(rank, traced.traces.emplace_back()));
      VectorClockResult found = oracle::DenseRun(tracer, traced, withoutLimits(program)).run();
      EXPECT_TRUE(found.blocked.empty()) << "the oracle: deadlock, root " << root;
      EXPECT_TRUE(found.conflicts.empty()) << "the oracle: a race, root " << root;
      EXPECT_FALSE(found.wrongOutput) << "the oracle: a wrong result, root " << root;
    }
}

void expectProved(ProgramOp program, const Sizes &mesh, int64_t numInterleavings) {
  std::optional<mlir::ArrayAttr> proofs = program.getProved();
  ASSERT_TRUE(proofs && proofs->size() == 1);
  auto proof = mlir::cast<ProofAttr>((*proofs)[0]);
  EXPECT_EQ(llvm::ArrayRef<int64_t>(mesh), proof.getMesh());
  EXPECT_EQ(proof.getMesh(), proof.getOn());
  EXPECT_FALSE(program.getUnproved());
  Verdict verdict = checkProgram(program, mesh, withoutLimits(program));
  EXPECT_TRUE(verdict.isProved()) << "the checker without limits: "
                                  << (verdict.refutation ? verdict.refutation->message : *verdict.tooLarge);
  EXPECT_EQ(verdict.checkedOn, verdict.mesh);
  expectOracleFindsNothing(program, mesh);
  mutation::Judge judge(program.getCollective(), mesh, test::testSeed());
  if (std::optional<mutation::Harm> harm = judge.firstHarm(program, numInterleavings))
    ADD_FAILURE() << "the reference interpreter: " << harm->text();
}

} // namespace kolo::proof
