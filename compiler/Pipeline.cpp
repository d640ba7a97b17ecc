// The map of the compiler: every pass, in order, and why it stands where it does. Targets go on from here: see
// targets/cpu/CpuPipeline.cpp.
#include "compiler/Pipeline.h"
#include "compiler/Passes.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace kolo {

static void cleanUp(OpPassManager &manager, const PipelineOptions &options) {
  if (!options.optimize)
    return;
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
}

void buildChannelPipeline(OpPassManager &manager, const PipelineOptions &options) {
  cleanUp(manager, options);

  // Choreography form. First the author's mistakes, since everything after relies on their absence.
  OpPassManager &choreography = manager.nest<ChoreographyOp>();
  choreography.addPass(createCheckChoreography());
  // Before anything looks at the order of statements: variants of a stripe take turns.
  if (options.optimize)
    choreography.addPass(createFuseStripes());
  // Before anything decides who moves what: what is published can only be read.
  if (options.schedule.protocol == Protocol::Published)
    choreography.addPass(createPublishInputs());
  // Before hazards are looked for: what arrives in packets overwrites nothing.
  if (usesPackets(options.schedule.protocol)) {
    PlacePacketsOptions packets;
    packets.ll128 = options.schedule.protocol == Protocol::LL128;
    choreography.addPass(createPlacePackets(packets));
  }
  // While a statement is still one op: whether it reads what it writes is a question about all ranks.
  choreography.addPass(createPlaceStaging());

  // From the global view to one rank's; data signals only.
  ProjectOptions project;
  project.transfers = options.schedule.transfers;
  // Where nobody reads the caller's memory, nobody is to write there either.
  if (options.schedule.protocol == Protocol::Published && project.transfers == Transfers::Auto)
    project.transfers = Transfers::Pull;
  project.together = options.schedule.entry == Entry::Together;
  manager.addPass(createProject(project));

  // Before any clean-up: these recognise what Project leaves.
  OpPassManager &program = manager.nest<ProgramOp>();
  // What slices need of each other is for those who infer synchronisation to find out.
  PlacePipelineOptions pipeline;
  pipeline.depth = options.schedule.pipelineDepth;
  program.addPass(createPlacePipeline(pipeline));
  // The one makes every transfer wait for both sides; the other finds out, with the checker, what less will do.
  if (!options.optimize || options.schedule.synchronisation == Synchronisation::Handshake) {
    program.addPass(createInferHandshake());
  } else {
    InferSynchronisationOptions infer;
    infer.budget = options.budget;
    program.addPass(createInferSynchronisation(infer));
  }
  // Synchronisation is settled; lanes repeat it side by side.
  program.addPass(createPlaceLanes());

  cleanUp(manager, options);
  if (options.optimize) {
    // After the clean-up, by which equal slices are known; on the final text, since it moves waits and signals.
    manager.addNestedPass<ProgramOp>(createFuseMoves());
    cleanUp(manager, options);
    // Only a sum that is made in one pass is divided in it.
    manager.addNestedPass<ProgramOp>(createFuseDivision());
    cleanUp(manager, options);
  }

  // Last: what is proved must be what the target gets.
  if (options.check) {
    CheckProgramOptions check;
    check.unproved = options.unproved;
    check.budget = options.budget;
    manager.addNestedPass<ProgramOp>(createCheckProgram(check));
  }
}

void registerKoloPipelines() {
  PassPipelineRegistration<>("kolo-to-channel", "from choreography form to synchronised channel form",
                             [](OpPassManager &manager) { buildChannelPipeline(manager, {}); });
}

} // namespace kolo
