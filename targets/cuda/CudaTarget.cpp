// The cuda target: PTX for NVIDIA devices, in process.
#include "targets/cuda/CudaTarget.h"
#include "targets/cuda/Passes.h"

#include "mlir/Pass/PassRegistry.h"
#include "llvm/IR/Function.h"
#include "llvm/Support/TargetSelect.h"

using namespace mlir;

namespace kolo::cuda {

static void markKernel(llvm::Function &kernel) {
  kernel.setCallingConv(llvm::CallingConv::PTX_Kernel);
  // As many registers as that many threads leave for each: without a second bound ptxas spills to make room for more
  // blocks.
  kernel.addFnAttr("nvvm.maxntid", std::to_string(KOLO_DEVICE_MAX_THREADS));
  kernel.addFnAttr("nvvm.minctasm", "1");
}

/// 90 of "sm_90a"; 0 when it is no architecture.
static unsigned numberOf(StringRef architecture) {
  unsigned number = 0;
  return architecture.consume_front("sm_") && !architecture.consumeInteger(10, number) ? number : 0;
}

/// Acquire and release, and a pause of given length, begin with sm_70.
static bool isSupported(StringRef architecture) { return numberOf(architecture) >= 70; }

/// The pause is in a later version of PTX than the one that LLVM writes for the first architectures.
static StringRef featuresFor(StringRef architecture) { return numberOf(architecture) < 75 ? "+ptx63" : ""; }

static llvm::Expected<gpu::PendingCode> startCode(ModuleOp module, const PipelineOptions &options,
                                                  const DeviceOptions &device, StringRef architecture) {
  if (!isSupported(architecture))
    return llvm::createStringError("the cuda target generates code for sm_70 and later, not for '" + architecture +
                                   "'");
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  gpu::DeviceTarget target{"cuda",
                           "nvptx64-nvidia-cuda",
                           architecture,
                           featuresFor(architecture),
                           createDefinePrimitives,
                           markKernel,
                           llvm::CodeGenFileType::AssemblyFile};
  return gpu::startCode(module, options, device, target);
}

llvm::Expected<PendingImage> startImage(ModuleOp module, const PipelineOptions &options, const DeviceOptions &device,
                                        StringRef architecture) {
  auto code = startCode(module, options, device, architecture);
  if (!code)
    return code.takeError();
  return [code = std::move(*code), name = architecture.str()]() mutable -> llvm::Expected<DeviceImage> {
    auto text = code();
    if (!text)
      return text.takeError();
    text->push_back('\0'); // the driver expects a C string
    return DeviceImage{"cuda", name, KOLO_DEVICE_PTX, std::move(*text), {}};
  };
}

llvm::Expected<std::string> emitAssembly(ModuleOp module, const PipelineOptions &options, const DeviceOptions &device,
                                         StringRef architecture) {
  auto code = startCode(module, options, device, architecture);
  if (!code)
    return code.takeError();
  return (*code)();
}

void registerCudaPasses() {
  registerKoloCudaPasses();
  PassPipelineRegistration<>(
      "kolo-cuda", "from channel form to the LLVM dialect, for NVIDIA devices",
      [](OpPassManager &manager) { gpu::buildGpuPipeline(manager, {}, {}, createDefinePrimitives()); });
}

} // namespace kolo::cuda
