// The map of the compiler: every pass, in order, and the reason for its position. Targets go on from here, as
// targets/cpu/CpuPipeline.cpp does. The resolved schedule says which passes run; nothing is decided here.
#include "compiler/Pipeline.h"
#include "compiler/InferenceMemory.h"
#include "compiler/Passes.h"
#include "compiler/check/Verdict.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace kolo {

static void cleanUp(OpPassManager &manager, const PipelineOptions &options) {
  if (!options.schedule.isOptimized())
    return;
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
}

void buildChoreographyPipeline(OpPassManager &manager, const PipelineOptions &options) {
  const ResolvedSchedule &schedule = options.schedule;
  cleanUp(manager, options);

  // First the author's mistakes: every later pass relies on their absence.
  OpPassManager &choreography = manager.nest<ChoreographyOp>();
  if (!options.isChecked)
    choreography.addPass(createCheckChoreography());
  // Before FuseStripes, so that the variants of a stripe take turns with slots too. Published inputs may be read over a
  // network that is not staged, and Project refuses packets there.
  if (!schedule.publishesInputs() && !schedule.usesPackets())
    choreography.addPass(createPlaceSlots());
  // Before any pass looks at the order of statements, which this one changes.
  if (schedule.isOptimized())
    choreography.addPass(createFuseStripes());
  // Before Project decides which side moves the data: published inputs can only be read.
  if (schedule.publishesInputs())
    choreography.addPass(createPublishInputs());
  // Before PlaceStaging looks for hazards: data that arrives in packets overwrites nothing.
  if (schedule.usesPackets()) {
    PlacePacketsOptions packets;
    packets.ll128 = schedule.usesLL128();
    choreography.addPass(createPlacePackets(packets));
  }
  // While a statement is still one op for all ranks: only all of them together show a hazard.
  choreography.addPass(createPlaceStaging());
}

/// Of a pass that asks the checker what a program may do without.
template <typename Options> static Options optionsOfSearch(const PipelineOptions &options) {
  Options search;
  search.inFull = options.searchesInFull;
  search.budget = options.budget;
  search.represented = options.represented;
  search.standInBudget = options.standInBudget;
  if (options.guessBudget > 0)
    search.guessBudget = options.guessBudget;
  return search;
}

void buildProgramPipeline(OpPassManager &manager, const PipelineOptions &options) {
  const ResolvedSchedule &schedule = options.schedule;
  // From the global view to one rank's program, with data signals only.
  ProjectOptions project;
  project.transfers = schedule.transfers();
  project.together = schedule.entersTogether();
  manager.addPass(createProject(project));
  // Before synchronisation is inferred, which decides which flushes the new memory needs.
  manager.addNestedPass<ProgramOp>(createPlaceEncoding());
  manager.addPass(createVerifyProjected());

  // Before any clean-up: the next passes rely on the form that VerifyProjected states.
  OpPassManager &program = manager.nest<ProgramOp>();
  // Before synchronisation is inferred, which finds what slices need of each other.
  PlacePipelineOptions pipeline;
  pipeline.depth = schedule.pipelineDepth();
  program.addPass(createPlacePipeline(pipeline));
  // Handshakes make every transfer wait for both sides; inference asks the checker what less will do.
  if (schedule.usesHandshakes()) {
    program.addPass(createInferHandshake());
  } else {
    auto infer = optionsOfSearch<InferSynchronisationOptions>(options);
    program.addPass(createInferSynchronisation(infer, options.memory));
  }
  // After synchronisation, which all lanes repeat side by side.
  program.addPass(createPlaceLanes());
  program.addPass(createVerifySynchronised());

  cleanUp(manager, options);
  if (schedule.isOptimized()) {
    // After the clean-up, which makes equal slices equal values. Moves waits and signals, so inference comes before.
    manager.addNestedPass<ProgramOp>(createFuseMoves(optionsOfSearch<FuseMovesOptions>(options)));
    cleanUp(manager, options);
    // After FuseMoves: a division joins the one pass that makes the sum.
    manager.addNestedPass<ProgramOp>(createFuseDivision(optionsOfSearch<FuseDivisionOptions>(options)));
    cleanUp(manager, options);
  }

  // Last, so that the target gets the program that was proved.
  if (options.check)
    buildProof(manager, options);
}

void buildProof(OpPassManager &manager, const PipelineOptions &options) {
  CheckProgramOptions check;
  check.unproved = options.unproved;
  check.budget = options.budget;
  check.represented = options.represented;
  check.standInBudget = options.standInBudget;
  check.steps = options.wantSteps;
  check.oneOrder = options.schedule.sumsInOneOrder();
  manager.addNestedPass<ProgramOp>(createCheckProgram(check));
}

void buildChannelPipeline(OpPassManager &manager, const PipelineOptions &options) {
  buildChoreographyPipeline(manager, options);
  buildProgramPipeline(manager, options);
}

static LogicalResult run(ModuleOp module, function_ref<void(OpPassManager &, const PipelineOptions &)> build,
                         const PipelineOptions &options) {
  PassManager manager(module.getContext(), ModuleOp::getOperationName());
  build(manager, options);
  return manager.run(module);
}

LogicalResult runChannelPipeline(ModuleOp module, const PipelineOptions &options) {
  if (failed(run(module, buildChoreographyPipeline, options)))
    return failure();
  OwningOpRef<ModuleOp> choreographies(module.clone());
  PipelineOptions guess = options;
  guess.unproved = guess.wantSteps = false;
  std::vector<Diagnostic> said;
  LogicalResult isProved = failure();
  {
    ScopedDiagnosticHandler later(module.getContext(), [&](Diagnostic &diagnostic) {
      said.push_back(std::move(diagnostic));
      return success();
    });
    isProved = run(module, buildProgramPipeline, guess);
  }
  PipelineOptions last = options;
  last.searchesInFull =
      llvm::any_of(module.getOps<ProgramOp>(), [](ProgramOp program) { return program->hasAttr(refutedAttrName); });
  if (failed(isProved) && (last.searchesInFull || options.unproved)) {
    module.getBodyRegion().takeBody(choreographies->getBodyRegion());
    return run(module, buildProgramPipeline, last);
  }
  for (Diagnostic &diagnostic : said)
    module.getContext()->getDiagEngine().emit(std::move(diagnostic));
  return isProved;
}

void registerKoloPipelines() {
  PassPipelineRegistration<>("kolo-to-channel", "from choreography form to synchronised channel form",
                             [](OpPassManager &manager) { buildChannelPipeline(manager, {}); });
}

} // namespace kolo
