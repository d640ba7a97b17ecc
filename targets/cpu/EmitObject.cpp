// LLVM IR to an object file for this host, with LLVM's own optimizer and code generator.
#include "targets/cpu/CpuTarget.h"
#include "targets/cpu/Internal.h"

#include "llvm/Analysis/CGSCCPassManager.h"
#include "llvm/Analysis/LoopAnalysisManager.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

using namespace llvm;

namespace kolo::cpu {

static Expected<std::unique_ptr<TargetMachine>> createTargetMachine(bool optimize) {
  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();
  Triple triple(sys::getDefaultTargetTriple());
  Expected<std::string> cpu = hostCpuLevel();
  if (!cpu)
    return cpu.takeError();
  std::string problem;
  const Target *target = TargetRegistry::lookupTarget(triple, problem);
  if (!target)
    return makeError(problem);
  // Programs are optimized at O3; the code generator's aggressive level costs a tenth of the compile time more.
  auto level = optimize ? CodeGenOptLevel::Default : CodeGenOptLevel::None;
  return std::unique_ptr<TargetMachine>(
      target->createTargetMachine(triple, *cpu, "", TargetOptions(), Reloc::PIC_, std::nullopt, level));
}

static void optimizeModule(Module &module, TargetMachine &machine) {
  // The loops that matter are vectors and unrolled already; what LLVM would add is code for the rests.
  PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = tuning.LoopUnrolling = tuning.LoopInterleaving = false;
  PassBuilder builder(&machine, tuning);
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager components;
  ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(OptimizationLevel::O3).run(module, modules);
}

Expected<SmallVector<char, 0>> emitObject(Module &module, bool optimize) {
  auto machine = createTargetMachine(optimize);
  if (!machine)
    return machine.takeError();
  module.setTargetTriple((*machine)->getTargetTriple());
  module.setDataLayout((*machine)->createDataLayout());
  for (Function &function : module)
    function.addFnAttr("target-cpu", (*machine)->getTargetCPU());
  if (optimize)
    optimizeModule(module, **machine);
  SmallVector<char, 0> object;
  raw_svector_ostream out(object);
  legacy::PassManager passes;
  if ((*machine)->addPassesToEmitFile(passes, out, nullptr, CodeGenFileType::ObjectFile))
    return makeError("LLVM cannot write object files for this host");
  passes.run(module);
  return object;
}

} // namespace kolo::cpu
