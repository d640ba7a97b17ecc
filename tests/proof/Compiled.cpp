// The last way to look at a program shares nothing with the checker.
#include "Compiled.h"

#include "compiler/check/VectorClockRun.h"
#include "compiler/model/Unfold.h"
#include "compiler/project/Relations.h"
#include "tests/mutation/Judge.h"
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
  options.represented = setup.represented;
  options.guessBudget = setup.guessBudget;
  options.check = !setup.isOnlyGuess;
  if (!setup.isOnlyGuess) {
    accepted = mlir::succeeded(runChannelPipeline(*module, options));
    return;
  }
  mlir::PassManager manager(&context, mlir::ModuleOp::getOperationName());
  buildChannelPipeline(manager, options);
  accepted = mlir::succeeded(manager.run(*module));
}

CheckOptions withoutLimits(ProgramOp program) {
  CheckOptions options;
  options.transport = transportOf(program);
  setBudget(options, int64_t(1) << 40);
  options.mayReplaceMesh = false;
  options.wantSteps = false;
  return options;
}

/// Every rank by itself, for some roots: no symmetry stands for ranks.
static void followEachRank(ProgramOp program, const Sizes &mesh, std::vector<std::string> &doubts) {
  std::variant<Code, CodeMistake> made = Code::create(program);
  Code &code = std::get<Code>(made);
  int64_t numRoots = countRoots(program.getCollective(), mesh);
  for (bool isInPlace : {false, true})
    for (int64_t root = 0; root < numRoots; root += std::max<int64_t>(numRoots / 3, 1)) {
      if (isInPlace && program.getInPlace() != InPlace::Direct)
        continue;
      Tracer tracer(code, mesh, root, isInPlace);
      TracedGroup traced{RankGroup(tracer, llvm::SmallVector<Translation>(mesh.size(), Translation::None)), {}};
      for (int64_t rank = 0; rank < tracer.numRanks(); ++rank)
        if (!tracer.run(rank, traced.traces.emplace_back()))
          return doubts.push_back("no trace of rank " + std::to_string(rank));
      VectorClockResult found = VectorClockRun(tracer, traced, withoutLimits(program)).run();
      std::string where = ", root " + std::to_string(root) + (isInPlace ? ", in place" : "");
      if (!found.blocked.empty())
        doubts.push_back("ranks by themselves have a deadlock" + where);
      if (!found.conflicts.empty())
        doubts.push_back("ranks by themselves have a race" + where);
      if (found.wrongOutput)
        doubts.push_back("ranks by themselves have a wrong result" + where);
    }
}

std::vector<std::string> doubtsAbout(ProgramOp program, const Sizes &mesh, int64_t numInterleavings) {
  std::vector<std::string> doubts;
  std::optional<mlir::ArrayAttr> proofs = program.getProved();
  if (!proofs || proofs->size() != 1 || program.getUnproved())
    doubts.push_back("it has no proof");
  else if (auto proof = mlir::cast<ProofAttr>((*proofs)[0]);
           proof.getMesh() != llvm::ArrayRef<int64_t>(mesh) || proof.getOn() != proof.getMesh())
    doubts.push_back("its proof is of " + test::textOf(proof.getOn()));
  Verdict verdict = checkProgram(program, mesh, withoutLimits(program));
  if (verdict.checkedOn != verdict.mesh || !verdict.isProved())
    doubts.push_back("the checker without limits: " +
                     (verdict.refutation ? verdict.refutation->message : *verdict.tooLarge));
  followEachRank(program, mesh, doubts);
  mutation::Judge judge(program.getCollective(), mesh, test::testSeed());
  if (std::optional<mutation::Harm> harm = judge.firstHarm(program, numInterleavings))
    doubts.push_back("the reference interpreter: " + harm->text());
  return doubts;
}

} // namespace kolo::proof
