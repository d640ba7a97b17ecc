// kolo-write-kernels: makes the object file of kernels for one kind of processor. Runs when Kolo is built.
#include "targets/cpu/Internal.h"
#include "targets/cpu/Kernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace kolo::cpu {

static OwningOpRef<ModuleOp> makeKernels(MLIRContext &context, int64_t vectorBytes) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  defineCopies(*module, vectorBytes);
  defineCodedMoves(*module);
  definePackets(*module);
  defineLines(*module, vectorBytes);
  defineReductions(*module, vectorBytes);
  PassManager manager(&context, ModuleOp::getOperationName());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  addControlFlowConversions(manager);
  addLlvmConversions(manager);
  return succeeded(manager.run(*module)) ? std::move(module) : nullptr;
}

static void exportFunction(llvm::Module &code, const std::string &name, const std::string &symbol) {
  llvm::Function *function = code.getFunction(name);
  if (!function) // named already, as the kernel of another type that is combined alike
    return;
  function->setLinkage(llvm::GlobalValue::ExternalLinkage);
  function->setVisibility(llvm::GlobalValue::HiddenVisibility);
  function->setName(symbol);
}

static void exportKernels(llvm::Module &code, const CodeOptions &options, bool isFirst) {
  for (int type = 0; type < KOLO_NUM_TYPES; ++type) {
    for (int reduction = 0; reduction < KOLO_NUM_REDUCTIONS; ++reduction) {
      std::string name = reduceKernelName(KoloType(type), KoloReduction(reduction));
      exportFunction(code, name, kernelSymbol(options.cpu, name));
    }
    std::string name = averageKernelName(KoloType(type));
    exportFunction(code, name, kernelSymbol(options.cpu, name));
  }
  for (llvm::StringRef name :
       {copyFunction, multicastFunction, convertFunction, convertPutFunction, convertGetFunction, convertFusedFunction,
        roundTripFunction, llFunctions.write, llFunctions.read, ll128Functions.write, ll128Functions.read})
    if (isFirst)
      exportFunction(code, name.str(), name.str());
}

static llvm::Error write(const CodeOptions &options, int64_t vectorBytes, bool isFirst, llvm::StringRef path) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadDialect<arith::ArithDialect, scf::SCFDialect, vector::VectorDialect, LLVM::LLVMDialect>();
  OwningOpRef<ModuleOp> module = makeKernels(context, vectorBytes);
  if (!module)
    return llvm::createStringError("lowering the kernels failed");
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> code = translateModuleToLLVMIR(*module, llvmContext, "kernels");
  if (!code)
    return llvm::createStringError("translation to LLVM IR failed");
  exportKernels(*code, options, isFirst);
  auto object = emitObject(*code, options);
  if (!object)
    return object.takeError();
  return llvm::writeToOutput(path, [&](llvm::raw_ostream &out) {
    out << llvm::StringRef(object->data(), object->size());
    return llvm::Error::success();
  });
}

} // namespace kolo::cpu

/// kolo-write-kernels FILE CPU VECTOR_BYTES first|further|thread
int main(int argc, char **argv) {
  llvm::ArrayRef<const char *> arguments(argv + 1, size_t(argc) - 1);
  int64_t vectorBytes = 0;
  if (arguments.size() != 4 || llvm::StringRef(arguments[2]).getAsInteger(10, vectorBytes)) {
    llvm::errs() << "usage: kolo-write-kernels FILE CPU VECTOR_BYTES first|further|thread\n";
    return 2;
  }
  llvm::StringRef kind = arguments[3];
  kolo::cpu::CodeOptions options{.cpu = arguments[1], .sanitizeThread = kind == "thread"};
  if (llvm::Error problem = kolo::cpu::write(options, vectorBytes, /*isFirst=*/kind != "further", arguments[0])) {
    llvm::errs() << "kolo-write-kernels: " << llvm::toString(std::move(problem)) << '\n';
    return 1;
  }
  return 0;
}
