// The cpu target: from programs in channel form to code for this host, in process.
#include "targets/cpu/CpuTarget.h"

#include "targets/ChannelLowering.h"
#include "targets/cpu/CodecFunctions.h"
#include "targets/cpu/CpuPipeline.h"
#include "targets/cpu/Internal.h"
#include "targets/cpu/KernelObjects.h"
#include "targets/cpu/Kernels.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;

namespace kolo::cpu {

void loadCpuTarget(MLIRContext &context) {
  registerBuiltinDialectTranslation(context);
  registerLLVMDialectTranslation(context);
}

static constexpr const char *level3 = "x86-64-v3", *level4 = "x86-64-v4";

bool isCpuLevel(llvm::StringRef name) { return name == level3 || name == level4; }

/// The level of the x86-64 architecture that code for this host is compiled for.
static llvm::Expected<std::string> hostCpuLevel() {
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  auto hasAll = [&](std::initializer_list<const char *> names) {
    return llvm::all_of(names, [&](const char *name) { return features.lookup(name); });
  };
#if defined(__x86_64__)
  if (hasAll({"avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}))
    return level3;
  return llvm::createStringError("the cpu target needs AVX2, FMA and F16C, which this host's CPU does not have");
#else
  (void)hasAll;
  return llvm::createStringError("the cpu target generates code for x86-64 only");
#endif
}

/// Lowers a copy of the programs.
static llvm::Expected<std::unique_ptr<llvm::Module>> lower(llvm::LLVMContext &context, ModuleOp programs,
                                                           const PipelineOptions &options) {
  OwningOpRef<ModuleOp> copy(programs.clone());
  PassManager manager(programs.getContext(), ModuleOp::getOperationName());
  manager.enableVerifier(false); // after every pass; once, at the end
  buildCpuPipeline(manager, options);
  if (failed(manager.run(*copy)) || failed(verify(*copy)))
    return llvm::createStringError("lowering to the cpu target failed");
  std::unique_ptr<llvm::Module> code = translateModuleToLLVMIR(*copy, context, "kolo");
  if (!code)
    return llvm::createStringError("translation to LLVM IR failed");
  return code;
}

static bool isReducing(ModuleOp programs) {
  return programs.walk([](ChannelReduceOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// Those that programs which reduce can choose from.
static ArrayRef<KernelObject> kernelsFor(const HostOptions &options) {
  ArrayRef<KernelObject> all = kernelObjects(options.pipeline.sanitizeThread);
  return options.cpu == level3 ? all.take_front(1) : all;
}

/// The code of all programs with their table of entry points, made for a CPU.
static llvm::Expected<SmallVector<char, 0>> generate(ModuleOp programs, const HostOptions &options,
                                                     const std::string &cpu, CodeForm form,
                                                     llvm::function_ref<void(llvm::Module &)> addTables) {
  llvm::LLVMContext context;
  auto code = lower(context, programs, options.pipeline);
  if (!code)
    return code.takeError();
  std::vector<std::string> names;
  for (auto program : programs.getOps<ProgramOp>())
    names.push_back(program.getSymName().str());
  addEntryTable(**code, names, collectCodecs(programs),
                isReducing(programs) ? kernelsFor(options) : ArrayRef<KernelObject>());
  addTables(**code);
  CodeOptions made{.cpu = cpu,
                   .optimize = options.pipeline.schedule.isOptimized(),
                   .sanitizeThread = options.pipeline.sanitizeThread,
                   .form = form};
  if (options.cpu.empty() && made.optimize && !made.sanitizeThread)
    made.isForEachProcessor = isGranuleFunction;
  return emitObject(**code, made);
}

llvm::Expected<HostCode> compileHost(ModuleOp programs, const HostOptions &options,
                                     llvm::function_ref<void(llvm::Module &)> addTables) {
  llvm::Expected<std::string> cpu = options.cpu.empty() ? hostCpuLevel() : llvm::Expected<std::string>(options.cpu);
  if (!cpu)
    return cpu.takeError();
  auto object = generate(programs, options, *cpu, CodeForm::Object, addTables);
  if (!object)
    return object.takeError();
  HostCode result;
  for (auto program : programs.getOps<ProgramOp>())
    result.programs.push_back({program.getSymName().str(), collectStatements(program).locations});
  result.codecs = collectCodecs(programs);
  result.cpu = std::move(*cpu);
  result.object = std::move(*object);
  for (const KernelObject &kernels : kernelObjects(options.pipeline.sanitizeThread))
    result.kernels.push_back(kernels.object);
  return result;
}

llvm::Expected<std::string> emitText(ModuleOp programs, const HostOptions &options, CodeForm form) {
  llvm::Expected<std::string> cpu = options.cpu.empty() ? hostCpuLevel() : llvm::Expected<std::string>(options.cpu);
  if (!cpu)
    return cpu.takeError();
  auto text = generate(programs, options, *cpu, form, [](llvm::Module &) {});
  if (!text)
    return text.takeError();
  return std::string(text->begin(), text->end());
}

} // namespace kolo::cpu
