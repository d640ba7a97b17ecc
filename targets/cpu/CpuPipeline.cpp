// The second half of the map, after compiler/Pipeline.cpp: from channel form to the LLVM dialect.
#include "targets/cpu/CpuPipeline.h"
#include "targets/cpu/Passes.h"

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

namespace kolo::cpu {

void buildCpuPipeline(OpPassManager &manager, const PipelineOptions &options) {
  LowerMovesOptions moves;
  if (options.sanitizeThread)
    moves.vectorBytes = 16; // the widest access that the sanitizer sees
  manager.addPass(createLowerMoves(moves));
  if (options.optimize) {
    manager.addPass(createCanonicalizerPass());
    manager.addPass(createCSEPass());
  }
  // Floor division, and bf16 in integers: without it LLVM calls a library function that a plugin has not.
  arith::ArithExpandOpsPassOptions expand;
  expand.includeBf16 = true;
  manager.addPass(arith::createArithExpandOpsPass(expand));
  manager.addPass(createSCFToControlFlowPass());
  // Needs branches: a failed wait leaves the function from inside of loops.
  manager.addPass(createLowerWaits());

  manager.addPass(createConvertVectorToLLVMPass());
  manager.addPass(createConvertMathToLLVMPass());
  manager.addPass(createArithToLLVMConversionPass());
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
}

void registerCpuPasses() {
  registerKoloCpuPasses();
  PassPipelineRegistration<>("kolo-cpu", "from channel form to the LLVM dialect",
                             [](OpPassManager &manager) { buildCpuPipeline(manager, {}); });
}

} // namespace kolo::cpu
