// The second half of the map for devices, after compiler/Pipeline.cpp: from channel form to the LLVM dialect.
#include "targets/gpu/GpuPipeline.h"
#include "targets/gpu/Passes.h"

#include "targets/Elements.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace kolo::gpu {

static LowerProgramsOptions lowerProgramsOptions(const DeviceOptions &device) {
  LowerProgramsOptions options;
  for (KoloType type : device.types)
    options.types.push_back(nameOf(type));
  for (KoloReduction reduction : device.reductions)
    options.reductions.push_back(nameOf(reduction));
  options.nativeAccumulation = device.accumulation == Accumulation::Native;
  return options;
}

void buildGpuPipeline(OpPassManager &manager, const PipelineOptions &options, const DeviceOptions &device,
                      std::unique_ptr<Pass> definePrimitives, int64_t groupSize, int64_t listEntries) {
  LowerProgramsOptions programs = lowerProgramsOptions(device);
  programs.groupSize = groupSize;
  programs.listEntries = listEntries;
  manager.addPass(createLowerPrograms(programs));
  // While loops and conditions are structured: bodies use them too.
  if (definePrimitives)
    manager.addPass(std::move(definePrimitives));
  if (options.schedule.isOptimized()) {
    manager.addPass(createCanonicalizerPass());
    manager.addPass(createCSEPass());
  }
  // Floor and ceiling division. Devices convert bf16 themselves.
  manager.addPass(arith::createArithExpandOpsPass());
  // Both need divisions that are expanded, and the first makes some for the second.
  if (options.schedule.isOptimized()) {
    manager.addPass(createPlaceInvariants());
    manager.addPass(createCSEPass());
  }
  manager.addPass(createLowerDivisions());
  manager.addPass(createSCFToControlFlowPass());
  // Needs branches: a failed wait leaves the kernel from inside of loops.
  manager.addPass(createLowerFailures());

  manager.addPass(createConvertVectorToLLVMPass());
  manager.addPass(createConvertMathToLLVMPass());
  manager.addPass(createArithToLLVMConversionPass());
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
}

void registerGpuPasses() {
  registerKoloGpuPasses();
  PassPipelineRegistration<>("kolo-gpu", "from channel form to the LLVM dialect, for any device",
                             [](OpPassManager &manager) { buildGpuPipeline(manager, {}, {}, nullptr); });
}

} // namespace kolo::gpu
