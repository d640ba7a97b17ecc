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
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Instrumentation/ThreadSanitizer.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/IndVarSimplify.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/Scalarizer.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

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
  // Programs are optimized at O2; the code generator's default level costs a seventh of the compile time more.
  auto level = options.optimize ? CodeGenOptLevel::Less : CodeGenOptLevel::None;
  return std::unique_ptr<TargetMachine>(
      target->createTargetMachine(triple, options.cpu, "", TargetOptions(), Reloc::PIC_, std::nullopt, level));
}

/// The function that a pass is about to change; null for a pass over more than one.
static const Function *functionOf(Any code) {
  if (const auto *function = any_cast<const Function *>(&code))
    return *function;
  const auto *loop = any_cast<const Loop *>(&code);
  return loop ? (*loop)->getHeader()->getParent() : nullptr;
}

using FunctionFilter = function_ref<bool(const Function &)>;

/// Runs the passes that `build` chooses; on the functions alone that `isWanted`.
static void runPasses(
    Module &module, TargetMachine &machine, function_ref<ModulePassManager(PassBuilder &)> build,
    FunctionFilter isWanted = [](const Function &) { return true; }) {
  PassInstrumentationCallbacks callbacks;
  callbacks.registerShouldRunOptionalPassCallback([&](StringRef, Any code) {
    const Function *function = functionOf(code);
    return !function || isWanted(*function);
  });
  // The loops that matter are vectors and unrolled already; what LLVM would add is code for the rests.
  PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = tuning.LoopUnrolling = tuning.LoopInterleaving = false;
  PassBuilder builder(&machine, tuning, std::nullopt, &callbacks);
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager components;
  ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  build(builder).run(module, modules);
}

/// What is left to do once MLIR has simplified vector code. O2 simplifies it again and again, which takes a third of
/// the time that a codec takes.
static ModulePassManager buildVectorPasses(PassBuilder &) {
  LoopPassManager loops;
  loops.addPass(LoopRotatePass());
  loops.addPass(LICMPass(LICMOptions()));
  loops.addPass(IndVarSimplifyPass());
  FunctionPassManager passes;
  passes.addPass(createFunctionToLoopPassAdaptor(std::move(loops), /*UseMemorySSA=*/true));
  passes.addPass(EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(InstCombinePass());
  passes.addPass(SimplifyCFGPass());
  ModulePassManager all;
  all.addPass(createModuleToFunctionPassAdaptor(std::move(passes)));
  return all;
}

static void optimizeModule(Module &module, TargetMachine &machine, FunctionFilter isVectorLoops) {
  auto buildO2 = [](PassBuilder &builder) {
    // Not O3, which would make two of every loop that has a condition in it.
    return builder.buildPerModuleDefaultPipeline(OptimizationLevel::O2);
  };
  runPasses(module, machine, buildO2, [&](const Function &function) { return !isVectorLoops(function); });
  runPasses(module, machine, buildVectorPasses, isVectorLoops);
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
  runPasses(module, machine, [](PassBuilder &) {
    ScalarizerPassOptions pieces; // of wide vectors, which the sanitizer sees
    pieces.ScalarizeMinBits = 128;
    pieces.ScalarizeLoadStore = true;
    ModulePassManager passes;
    passes.addPass(createModuleToFunctionPassAdaptor(ScalarizerPass(pieces)));
    return passes;
  });
  if (std::string problem = findUnseenAccess(module); !problem.empty())
    return createStringError("the thread sanitizer cannot see all of the code: " + problem);
  runPasses(module, machine, [](PassBuilder &) {
    ModulePassManager passes;
    passes.addPass(createModuleToFunctionPassAdaptor(ThreadSanitizerPass()));
    return passes;
  });
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
    optimizeModule(module, **machine, [&](const Function &function) {
      return options.isVectorLoops && options.isVectorLoops(function.getName());
    });
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
