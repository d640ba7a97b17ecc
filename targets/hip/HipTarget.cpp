// The hip target: code objects for AMD devices, in process.
#include "targets/hip/HipTarget.h"
#include "targets/hip/Internal.h"
#include "targets/hip/Passes.h"

#include "ir/Kolo.h"
#include "targets/Linker.h"

#include "mlir/Pass/PassRegistry.h"
#include "llvm/IR/Function.h"
#include "llvm/Support/TargetSelect.h"

using namespace mlir;

namespace kolo::hip {

static void markKernel(llvm::Function &kernel) {
  kernel.setCallingConv(llvm::CallingConv::AMDGPU_KERNEL);
  kernel.addFnAttr("amdgpu-flat-work-group-size", "1," + std::to_string(KOLO_DEVICE_MAX_THREADS));
  kernel.addFnAttr("uniform-work-group-size", "true");
}

/// DefinePrimitives writes out the waits of the gfx9 family, and its tests cover these two.
static bool isSupported(StringRef architecture) { return architecture == "gfx90a" || architecture == "gfx942"; }

static llvm::Expected<DeviceImage> makeImage(llvm::Expected<std::string> object, ModuleOp programs,
                                             std::string architecture) {
  if (!object)
    return object.takeError();
  // -z defs: no symbol may stay undefined, since the loader defines none.
  auto linked = linkShared({llvm::StringRef(*object)}, {"-z", "defs"});
  if (!linked)
    return linked.takeError();
  DeviceImage image{"hip", std::move(architecture), KOLO_DEVICE_HSACO, (*linked)->getBuffer().str(), {}};
  auto resources = readResources(image.data, programs);
  if (!resources)
    return resources.takeError();
  image.resources = std::move(*resources);
  return image;
}

static llvm::Expected<gpu::PendingCode> startCode(ModuleOp module, const PipelineOptions &options,
                                                  const DeviceOptions &device, StringRef architecture,
                                                  llvm::CodeGenFileType fileType) {
  if (!isSupported(architecture))
    return llvm::createStringError("the hip target generates code for gfx90a and gfx942, not for '" + architecture +
                                   "'");
  for (auto program : module.getOps<ProgramOp>())
    if (llvm::any_of(program.getBody().getOps<BufferOp>(), [](BufferOp buffer) { return buffer.getLl128(); }))
      return llvm::createStringError(
          "protocol ll128 is for hosts and CUDA devices: nothing says of AMD devices that what some threads of "
          "a wave store arrives at once");
  LLVMInitializeAMDGPUTargetInfo();
  LLVMInitializeAMDGPUTarget();
  LLVMInitializeAMDGPUTargetMC();
  LLVMInitializeAMDGPUAsmPrinter();
  gpu::DeviceTarget target{"hip", "amdgcn-amd-amdhsa", architecture, "", createDefinePrimitives, markKernel, fileType};
  return gpu::startCode(module, options, device, target);
}

llvm::Expected<PendingImage> startImage(ModuleOp module, const PipelineOptions &options, const DeviceOptions &device,
                                        StringRef architecture) {
  auto code = startCode(module, options, device, architecture, llvm::CodeGenFileType::ObjectFile);
  if (!code)
    return code.takeError();
  return [code = std::move(*code), module, name = architecture.str()]() mutable {
    return makeImage(code(), module, name);
  };
}

llvm::Expected<std::string> emitAssembly(ModuleOp module, const PipelineOptions &options, const DeviceOptions &device,
                                         StringRef architecture) {
  auto code = startCode(module, options, device, architecture, llvm::CodeGenFileType::AssemblyFile);
  if (!code)
    return code.takeError();
  return (*code)();
}

void registerHipPasses() {
  registerKoloHipPasses();
  PassPipelineRegistration<>(
      "kolo-hip", "from channel form to the LLVM dialect, for AMD devices",
      [](OpPassManager &manager) { gpu::buildGpuPipeline(manager, {}, {}, createDefinePrimitives()); });
}

} // namespace kolo::hip
