// From programs in channel form to a device's code, with LLVM's own optimizer and code generators.
#include "targets/gpu/EmitCode.h"
#include "targets/TableKernels.h"
#include "targets/gpu/AroundMoves.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Analysis/CGSCCPassManager.h"
#include "llvm/Analysis/LoopAnalysisManager.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"

using namespace llvm;

namespace kolo::gpu {

static Expected<std::unique_ptr<TargetMachine>> createTargetMachine(const DeviceTarget &target, bool optimize) {
  Triple triple(target.triple);
  std::string problem;
  const Target *found = TargetRegistry::lookupTarget(triple, problem);
  if (!found)
    return createStringError("no code can be generated for the " + target.name + " target: " + problem);
  std::unique_ptr<MCSubtargetInfo> known(found->createMCSubtargetInfo(triple, "", ""));
  if (!known || !known->isCPUStringValid(target.architecture))
    return createStringError("the " + target.name + " target generates no code for '" + target.architecture + "'");
  auto level = optimize ? CodeGenOptLevel::Default : CodeGenOptLevel::None;
  return std::unique_ptr<TargetMachine>(found->createTargetMachine(triple, target.architecture, target.features,
                                                                   TargetOptions(), Reloc::PIC_, std::nullopt, level));
}

static void optimizeModule(Module &module, TargetMachine &machine, OptimizationLevel level) {
  // The loops that matter are vectors and unrolled already.
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
  // Without optimization too: primitives must be inlined.
  ModulePassManager passes = level == OptimizationLevel::O0 ? builder.buildO0DefaultPipeline(level)
                                                            : builder.buildPerModuleDefaultPipeline(level);
  passes.addPass(ComputeAgainAfterMoves());
  // What is equal, where no call is in between.
  passes.addPass(createModuleToFunctionPassAdaptor(EarlyCSEPass(/*UseMemorySSA=*/true)));
  passes.run(module, modules);
}

/// Loops that matter have several loads in flight already. Assemblers would unroll them once more, which no load can
/// make use of, since it may not pass the stores before it; but registers, and time to assemble, are lost.
static void keepLoops(Module &module) {
  forEachLoop(module, [](Loop &loop) { loop.setLoopAlreadyUnrolled(); });
}

static Expected<std::unique_ptr<Module>> lower(LLVMContext &context, mlir::ModuleOp module,
                                               const PipelineOptions &options, const DeviceOptions &device,
                                               const DeviceTarget &target) {
  mlir::OwningOpRef<mlir::ModuleOp> copy(module.clone());
  mlir::PassManager manager(module.getContext(), mlir::ModuleOp::getOperationName());
  buildGpuPipeline(manager, options, device, target.createDefinePrimitives());
  if (failed(manager.run(*copy)))
    return createStringError("lowering to the " + target.name + " target failed");
  std::unique_ptr<Module> code = mlir::translateModuleToLLVMIR(*copy, context, "kolo");
  if (!code)
    return createStringError("translation to LLVM IR failed");
  return code;
}

namespace {

/// The code of one module, for one device.
struct Emission {
  std::unique_ptr<LLVMContext> context = std::make_unique<LLVMContext>(); // outlives the code
  std::unique_ptr<TargetMachine> machine;
  std::unique_ptr<Module> code;
  OptimizationLevel level;
  CodeGenFileType fileType;
  std::string target;

  Expected<std::string> run() {
    keepInLoopsAroundMoves(*code);
    optimizeModule(*code, *machine, level);
    keepLoops(*code);
    SmallString<0> text;
    raw_svector_ostream out(text);
    legacy::PassManager passes;
    if (machine->addPassesToEmitFile(passes, out, nullptr, fileType))
      return createStringError("LLVM cannot write code for the " + target + " target");
    passes.run(*code);
    return text.str().str();
  }
};

} // namespace

Expected<PendingCode> startCode(mlir::ModuleOp module, const PipelineOptions &options, const DeviceOptions &device,
                                const DeviceTarget &target) {
  Emission emission;
  auto machine = createTargetMachine(target, options.schedule.isOptimized());
  if (!machine)
    return machine.takeError();
  auto code = lower(*emission.context, module, options, device, target);
  if (!code)
    return code.takeError();
  (*code)->setTargetTriple((*machine)->getTargetTriple());
  (*code)->setDataLayout((*machine)->createDataLayout());
  for (Function &function : **code)
    if (!function.isDeclaration())
      function.addFnAttr("target-cpu", target.architecture);
  for (auto program : module.getOps<ProgramOp>()) {
    const std::string name = program.getSymName().str();
    target.markKernel(*(*code)->getFunction(kernelName(name)));
    if (mayTakeBlockTables(program))
      target.markKernel(*(*code)->getFunction(tableKernelName(name)));
  }
  emission.machine = std::move(*machine);
  emission.code = std::move(*code);
  emission.level = options.schedule.isOptimized() ? OptimizationLevel::O3 : OptimizationLevel::O0;
  emission.fileType = target.fileType;
  emission.target = target.name.str();
  return [emission = std::move(emission)]() mutable { return emission.run(); };
}

} // namespace kolo::gpu
