// The cpu target: from IR to a plugin file, in process.
#include "targets/cpu/CpuTarget.h"
#include "targets/cpu/CpuPipeline.h"
#include "targets/cpu/Internal.h"

#include "ir/Kolo.h"

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

llvm::Expected<std::string> hostCpuLevel() {
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  auto hasAll = [&](std::initializer_list<const char *> names) {
    return llvm::all_of(names, [&](const char *name) { return features.lookup(name); });
  };
#if defined(__x86_64__)
  if (hasAll({"avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}))
    return "x86-64-v3";
  return makeError("the cpu target needs AVX2, FMA and F16C, which this host's CPU does not have");
#else
  (void)hasAll;
  return makeError("the cpu target generates code for x86-64 only");
#endif
}

static LogicalResult runPipeline(ModuleOp module, function_ref<void(OpPassManager &)> build) {
  PassManager manager(module.getContext(), ModuleOp::getOperationName());
  build(manager);
  return manager.run(module);
}

llvm::Error compilePlugin(ModuleOp module, const PipelineOptions &options, StringRef path, DeviceCompiler devices) {
  if (failed(runPipeline(module, [&](OpPassManager &manager) { buildChannelPipeline(manager, options); })))
    return makeError("the choreography has mistakes");
  return packPlugin(module, options, path, devices);
}

llvm::Error packPlugin(ModuleOp module, const PipelineOptions &options, StringRef path, DeviceCompiler devices) {
  std::vector<std::string> programs;
  bool reduces = false;
  module.walk([&](ChannelReduceOp) { reduces = true; });
  for (auto program : module.getOps<ProgramOp>())
    programs.push_back(program.getSymName().str());
  llvm::Expected<DeviceCode> deviceCode = devices ? devices(module) : DeviceCode();
  if (!deviceCode)
    return deviceCode.takeError();
  llvm::Expected<std::string> manifest = writeManifest(module, options, *deviceCode);
  if (!manifest)
    return manifest.takeError();
  if (failed(runPipeline(module, [&](OpPassManager &manager) { buildCpuPipeline(manager, options); })))
    return makeError("lowering to the cpu target failed");

  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code = translateModuleToLLVMIR(module, context, "kolo");
  if (!code)
    return makeError("translation to LLVM IR failed");
  addEntryTable(*code, programs, reduces, options);
  if (!deviceCode->images.empty())
    addDeviceTable(*code, programs, *deviceCode);
  llvm::Expected<std::string> cpu = hostCpuLevel();
  if (!cpu)
    return cpu.takeError();
  auto object = emitObject(*code, {*cpu, options.optimize, options.sanitizeThread});
  if (!object)
    return object.takeError();
  return linkPlugin(*object, *manifest, options, path);
}

} // namespace kolo::cpu
