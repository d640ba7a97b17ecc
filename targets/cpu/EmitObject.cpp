// LLVM IR to code for this host, with LLVM's own optimizer and code generator.
#include "targets/cpu/CpuTarget.h"
#include "targets/cpu/Internal.h"

#include "llvm/Analysis/CGSCCPassManager.h"
#include "llvm/Analysis/LoopAnalysisManager.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/IPO/DeadArgumentElimination.h"
#include "llvm/Transforms/IPO/GlobalDCE.h"
#include "llvm/Transforms/IPO/Inliner.h"
#include "llvm/Transforms/IPO/SCCP.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Instrumentation/ThreadSanitizer.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/IndVarSimplify.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/Scalarizer.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Scalar/TailRecursionElimination.h"

using namespace llvm;

namespace kolo::cpu {

static Expected<std::unique_ptr<TargetMachine>> createTargetMachine(const CodeOptions &options) {
  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();
  InitializeNativeTargetAsmParser(); // of what makeForEachProcessor writes
  Triple triple(sys::getDefaultTargetTriple());
  std::string problem;
  const Target *target = TargetRegistry::lookupTarget(triple, problem);
  if (!target)
    return createStringError(problem);
  // The code generator's default level costs a seventh of the compile time more.
  auto level = options.optimize ? CodeGenOptLevel::Less : CodeGenOptLevel::None;
  return std::unique_ptr<TargetMachine>(
      target->createTargetMachine(triple, options.cpu, "", TargetOptions(), Reloc::PIC_, std::nullopt, level));
}

static void runPasses(Module &module, TargetMachine &machine, ModulePassManager passes) {
  PassBuilder builder(&machine);
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager components;
  ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  passes.run(module, modules);
}

/// What is left to do once MLIR has simplified the code and made vectors of the loops that matter. O2 would simplify
/// again and again, two to four times as long, and give as much code.
static ModulePassManager buildOptimizer() {
  LoopPassManager loops;
  loops.addPass(LoopRotatePass());
  loops.addPass(LICMPass(LICMOptions()));
  loops.addPass(IndVarSimplifyPass());
  FunctionPassManager function;
  function.addPass(EarlyCSEPass());
  function.addPass(SimplifyCFGPass());
  function.addPass(createFunctionToLoopPassAdaptor(std::move(loops), /*UseMemorySSA=*/true));
  function.addPass(EarlyCSEPass(/*UseMemorySSA=*/true));
  function.addPass(InstCombinePass());
  function.addPass(SimplifyCFGPass());
  function.addPass(TailCallElimPass());
  ModulePassManager
      passes; // first between functions: a program calls few of those that LowerMoves adds, with constants
  passes.addPass(ModuleInlinerWrapperPass());
  passes.addPass(IPSCCPPass());
  passes.addPass(DeadArgumentEliminationPass());
  passes.addPass(GlobalDCEPass());
  passes.addPass(createModuleToFunctionPassAdaptor(std::move(function)));
  return passes;
}

/// What the thread sanitizer would pass over in silence, in words; "" when it sees all accesses.
static std::string findUnseenAccess(const Module &module) {
  for (const Function &function : module)
    for (const Instruction &instruction : instructions(function)) {
      if (!isa<LoadInst, StoreInst>(instruction))
        continue;
      uint64_t numBits = module.getDataLayout().getTypeStoreSizeInBits(getLoadStoreType(&instruction)).getFixedValue();
      if (numBits > 128 || !isPowerOf2_64(numBits))
        return formatv("{0} accesses {1} bits of memory at once", function.getName(), numBits);
    }
  return "";
}

/// Makes all functions call the thread sanitizer at every access. Last, so that no access is added or widened
/// afterwards. There is no module constructor: the process that loads the plugin has started the sanitizer long before.
static Error instrumentModule(Module &module, TargetMachine &machine) {
  ScalarizerPassOptions pieces; // of wide vectors, which the sanitizer sees
  pieces.ScalarizeMinBits = 128;
  pieces.ScalarizeLoadStore = true;
  ModulePassManager scalarizer, sanitizer;
  scalarizer.addPass(createModuleToFunctionPassAdaptor(ScalarizerPass(pieces)));
  runPasses(module, machine, std::move(scalarizer));
  if (std::string problem = findUnseenAccess(module); !problem.empty())
    return createStringError("the thread sanitizer cannot see all of the code: " + problem);
  sanitizer.addPass(createModuleToFunctionPassAdaptor(ThreadSanitizerPass()));
  runPasses(module, machine, std::move(sanitizer));
  return Error::success();
}

Expected<SmallVector<char, 0>> emitObject(Module &module, const CodeOptions &options) {
  auto machine = createTargetMachine(options);
  if (!machine)
    return machine.takeError();
  module.setTargetTriple((*machine)->getTargetTriple());
  module.setDataLayout((*machine)->createDataLayout());
  for (Function &function : module) {
    if (!function.hasFnAttribute("target-cpu")) // for another kind of processor
      function.addFnAttr("target-cpu", (*machine)->getTargetCPU());
    if (options.sanitizeThread)
      function.addFnAttr(Attribute::SanitizeThread); // before the optimizer, which then adds no races
  }
  if (options.optimize)
    runPasses(module, **machine, buildOptimizer());
  if (options.isForEachProcessor) // after the optimizer, which then sees each function once
    makeForEachProcessor(module, options.isForEachProcessor);
  if (options.sanitizeThread)
    if (Error problem = instrumentModule(module, **machine))
      return std::move(problem);
  SmallVector<char, 0> code;
  raw_svector_ostream out(code);
  if (options.form == CodeForm::LlvmIr) {
    module.print(out, nullptr);
    return code;
  }
  legacy::PassManager passes;
  auto fileType = options.form == CodeForm::Object ? CodeGenFileType::ObjectFile : CodeGenFileType::AssemblyFile;
  if ((*machine)->addPassesToEmitFile(passes, out, nullptr, fileType))
    return createStringError("LLVM cannot write object files for this host");
  passes.run(module);
  return code;
}

} // namespace kolo::cpu
