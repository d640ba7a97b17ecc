// The second half of the map, after compiler/Pipeline.cpp: from channel form to the LLVM dialect.
#include "targets/cpu/CpuPipeline.h"
#include "targets/cpu/Internal.h"
#include "targets/cpu/Passes.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace kolo::cpu {

void buildCpuPipeline(OpPassManager &manager, const PipelineOptions &options) {
  manager.addPass(createLowerMoves());
  if (options.schedule.isOptimized()) {
    manager.addPass(createCanonicalizerPass());
    manager.addPass(createCSEPass());
  }
  addControlFlowConversions(manager);
  // Needs branches: a failed wait leaves the function from inside of loops.
  manager.addPass(createLowerWaits());
  addLlvmConversions(manager);
}

void registerCpuPasses() {
  registerKoloCpuPasses();
  PassPipelineRegistration<>("kolo-cpu", "from channel form to the LLVM dialect",
                             [](OpPassManager &manager) { buildCpuPipeline(manager, {}); });
}

} // namespace kolo::cpu
