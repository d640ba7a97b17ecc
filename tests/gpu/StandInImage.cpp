#include "StandInImage.h"
#include "Support.h"

#include "targets/Linker.h"
#include "targets/cpu/Internal.h"
#include "targets/gpu/GpuPipeline.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

namespace kolo::test {

llvm::Expected<DeviceImage> compileForStandIn(mlir::ModuleOp programs, const DeviceOptions &options) {
  mlir::OwningOpRef<mlir::ModuleOp> copy(programs.clone());
  mlir::PassManager manager(programs.getContext(), mlir::ModuleOp::getOperationName());
  gpu::buildGpuPipeline(manager, {}, options, nullptr, standInThreads);
  if (failed(manager.run(*copy)))
    return llvm::createStringError("lowering failed");
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code = mlir::translateModuleToLLVMIR(*copy, context, "kolo");
  // What is judged is what the code says, not how LLVM optimises it for the host.
  auto object = cpu::emitObject(*code, {.cpu = "", .optimize = false});
  if (!object)
    return object.takeError();
  // The driver defines what is undefined: the primitives.
  auto library = linkShared(llvm::StringRef(object->data(), object->size()), {"-z", "undefs"});
  if (!library)
    return library.takeError();
  return DeviceImage{"cuda", "sm_70", KOLO_DEVICE_PTX, (*library)->getBuffer().str(), {}};
}

DeviceOptions everything() {
  DeviceOptions options{{}, {}, Accumulation::F32};
  for (int type = 0; type < KOLO_NUM_TYPES; ++type)
    options.types.push_back(KoloType(type));
  for (int reduction = 0; reduction < KOLO_NUM_REDUCTIONS; ++reduction)
    options.reductions.push_back(KoloReduction(reduction));
  return options;
}

Protocol protocolOf(const std::string &name) {
  llvm::StringRef protocol = name;
  protocol.consume_front("coded-");
  return protocol == "ll" ? Protocol::LL : protocol == "ll128" ? Protocol::LL128 : Protocol::Bulk;
}

} // namespace kolo::test
